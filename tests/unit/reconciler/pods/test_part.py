"""What is done to pods: lost nodes are left, refusals are told and tried again, a gang's trouble is its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from compiler.cluster_state.pods import leaving_until
from compiler.emit.manifest import Manifest
from compiler.fields.times import rfc3339
from compiler.kubernetes import GROUP_NAME_ANNOTATION, NUMA_POLICY_ANNOTATION, PLACEMENT_ANNOTATION, uid_of
from reconciler.cluster.objects import ref_of
from reconciler.inventory.store import InventoryEntry
from reconciler.observation.observe import Observation, Restrictions
from reconciler.planning.fingerprint import fingerprint_of, state_objects
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.lifts import Orders
from reconciler.timings import PodTimings
from tests.builders.live import BATCH, live
from tests.builders.observed import observed
from tests.builders.pods import (
    GPU,
    NODES,
    NOTHING,
    PORTS,
    VGPU,
    Acted,
    PodsWorld,
    entry,
    evicted_pod,
    key_of,
    live_job,
    node,
    planned,
    pod,
)
from tests.builders.scripted_server import error_answer, served

CLAIM = 'all nodes are unavailable: 4 persistentvolumeclaim "data" not found.'


def test_a_pod_leaves_a_lost_node_after_the_set_time_and_no_other_pod_does(world: PodsWorld) -> None:
    world.plan(planned("g", "keep", n1=1, n2=1))
    for world.now, evicted in ((0.0, []), (59.0, []), (60.0, ["g-w-0"])):
        p = world.act(live_job("g"), pod("g", 0, "n1"), pod("g", 1, "n2"), lost="n1")
        assert (world.evicted, p.reasons) == (evicted, ["NodeLost"] * len(evicted))


@pytest.mark.parametrize(("kinds", "left"), [({"Node", "Pod"}, {"gone"}), ({"Pod"}, set())])
def test_a_new_process_goes_on_with_the_time_of_lost_nodes(world: PodsWorld, kinds: set[str], left: set[str]) -> None:
    """Once nodes can be read: what is stale says nothing."""
    times = {"gone": "1970-01-01T00:10:00Z", "later": "1970-01-01T00:11:00Z"}
    rows = {name: {"type": "Ready", "status": "Unknown", "lastTransitionTime": time} for name, time in times.items()}
    metadata, status = (
        {name: {"name": name} for name in rows},
        {name: {"conditions": [row]} for name, row in rows.items()},
    )
    lost = [{"apiVersion": "v1", "kind": "Node", "metadata": metadata[name], "status": status[name]} for name in rows]
    observation = observed(world.own, [*lost, node("a"), node("b"), node("c")], {"Node", "Pod"})
    world.part.observe(replace(observation, readable_kinds=frozenset(kinds)))
    assert world.evictor.node_health.nodes_to_leave(60.0, world.now) == left


def test_a_refusal_by_a_budget_is_no_failed_read_and_is_asked_again_with_pauses(world: PodsWorld) -> None:
    """S30, the second half."""
    world.plan(planned("g", "keep", n1=1))
    world.cluster.fail(error_answer(429, "the budget says no"), "eviction")
    for world.now in (0.0, 60.0, 60.5, 61.0, 62.0, 63.0):
        p = world.act(live_job("g"), pod("g", 0, "n1"), lost="n1")
        assert p.effects.evicted == ()
    assert len(world.evicted) == 3, "at 60, 61 and 63"
    assert "the budget says no" in p.effects.held[0].reason
    world.cluster.recover()
    world.now = 67.0
    assert world.act(live_job("g"), pod("g", 0, "n1"), lost="n1").effects.evicted == ("Pod default/g-w-0",)


def test_one_unbindable_gang_closes_no_node_to_others_and_is_held_after_three_rounds(world: PodsWorld) -> None:
    """S7. Once its claim is there it gets another round."""
    world.cluster.before = lambda _, path, __: served("PersistentVolumeClaim") if path == "/api/v1" else None
    world.plan(planned("stuck", "start", n1=1, n2=1))

    def held() -> Mapping[str, str]:
        return world.evictor.binding.held_jobs(world.now)

    def act() -> Acted:
        """Its pod has a node unless it is held."""
        node = "" if key_of("stuck") in held() else "n1"
        waiting = pod("stuck", 0, node, bound=False, message=CLAIM if node else "")
        waiting["metadata"]["uid"] = f"stuck-{len(world.evicted)}"
        return world.act(live_job("stuck"), waiting)

    held_at = []
    for world.now in range(0, 1200, 10):
        p = act()
        restrictions = p.observation.restrictions
        assert (restrictions.quarantined_nodes, restrictions.closed_nodes) == (frozenset(), {})
        held_at += [world.now for reason in p.reasons if reason == "BindingHeld"]
    assert (len(world.evicted), len(held_at)) == (3, 1)
    assert CLAIM in held()[key_of("stuck")]
    (condition,) = world.part.conditions()
    assert (condition.status, CLAIM in condition.message) == (True, True)
    world.cluster.put("/api/v1/namespaces/default/persistentvolumeclaims/data", {"metadata": {"name": "data"}})
    for world.now in range(1200, 1300, 10):
        act()
    assert held() == {}


def test_a_node_is_closed_to_the_gang_that_it_does_not_take_and_all_its_waiting_pods_go(world: PodsWorld) -> None:
    """Pods evicted one pass later stayed in a plan that kept the gang there, and nothing made another."""
    world.plan(planned("g", "start", n1=1, n2=1))
    pods = pod("g", 0, "n1", bound=False, message=PORTS), pod("g", 1, "n2", bound=False)
    for world.now in (0.0, 120.0):
        world.act(live_job("g"), *pods)
    assert world.evicted == ["g-w-0", "g-w-1"]
    assert world.evictor.binding.closed_nodes(world.now) == {key_of("g"): {"n1"}}


@pytest.mark.parametrize(("replicas", "is_held"), [(2, True), (0, False)])
def test_a_service_without_any_pod_is_reported_and_keeps_no_room(
    world: PodsWorld, replicas: int, is_held: bool
) -> None:
    """Its pods come one after the other, so none counted as missing: it kept its nodes for ever, without a word, where
    a quota refused all of them. One that is scaled to nothing misses none."""
    service = {**live("apps/v1", "Deployment", "llm", uid="llm"), "spec": {"replicas": replicas}}
    late = {"dependentRoles": ["pods"], "written": {"pods": 2}}
    world.plan(entry(service, "start", {"pods": {"n1": 2}}, **late))
    world.look([*NODES, service])
    for world.now, is_late in ((25.0, False), (35.0, False), (65.0, True)):
        held = world.look([*NODES, service]).observation.restrictions.held_jobs
        assert [("created 0 of 2 pods" in reason) for reason in held.values()] == [True] * (is_held and is_late)


@pytest.mark.parametrize(("is_deleted", "evicted"), [(True, ["g-w-0", "g-w-1"]), (False, [])])
def test_pods_whose_pod_group_was_deleted_are_planned_again_soon(
    world: PodsWorld, is_deleted: bool, evicted: list[str]
) -> None:
    """Seen once: the scheduler never saw them, and was blamed for its silence; they waited for ever."""
    world.plan(planned("g", "start", n1=1, n2=1))
    pods = pod("g", 0, "n1", bound=False), pod("g", 1, "n2", bound=False)
    for each in pods:
        each["metadata"]["annotations"] = {GROUP_NAME_ANNOTATION: "g-group"}
    group = live("scheduling.volcano.sh/v1beta1", "PodGroup", "g-group")
    for world.now in (0.0, 9.0):
        assert world.act(live_job("g"), *pods, *([] if is_deleted else [group])).reasons == []
    world.now = 10.0
    p = world.act(live_job("g"), *pods, *([] if is_deleted else [group]))
    assert world.evicted == evicted
    assert all("not bound to n" in event.message and "PodGroup" in event.message for event in p.effects.events)
    assert world.evictor.binding.closed_nodes(world.now) == {}, "no node is to blame"


@pytest.mark.parametrize(("lost", "evicted"), [("n1", ["g-w-1"]), ("", [])])
def test_the_rest_of_a_gang_goes_where_no_plan_completes_it(world: PodsWorld, lost: str, evicted: list[str]) -> None:
    """One that waits for other reasons keeps its pods."""
    world.plan(planned("g", "keep", n1=1, n2=1))
    world.act(live_job("g"), pod("g", 0, "n1"), pod("g", 1, "n2"), lost=lost)
    world.plan(planned("g", "wait", n2=1))
    p = world.act(live_job("g"), pod("g", 0), pod("g", 1, "n2"), lost=lost)
    assert (world.evicted, p.reasons) == (evicted, ["GangIncomplete"] * len(evicted))


@pytest.mark.parametrize(
    ("winner", "target", "evictions"), [(True, "c0ffee", 1), (False, "c0ffee", 0), (True, "beef", 0)]
)
def test_no_victim_goes_for_a_winner_that_is_gone(world: PodsWorld, winner: bool, target: str, evictions: int) -> None:
    """Nor for one of a plan that is over."""
    world.plan(planned("winner", "start", n1=1), planned("victim", "wait", ("default/winner",)))
    jobs = [live_job("victim"), *([live_job("winner"), pod("winner", 0)] if winner else [])]
    p = world.act(*jobs, pod("victim", 0, "n1"), target=target)
    assert len(world.evicted) == evictions
    assert p.lifted == {}, "the winner starts with the plan that is made once they are gone"


def test_a_victims_successor_stays_gated(world: PodsWorld) -> None:
    world.plan(planned("winner", "start", n1=1), planned("victim", "keep", ("default/winner",), n2=1))
    assert world.act(live_job("winner"), live_job("victim"), pod("victim", 0), pod("victim", 1, "n2")).lifted == {}


@pytest.mark.parametrize("ahead", [0, 7200, -7200])
def test_a_gang_starts_when_the_evicted_pods_have_left_its_nodes(world: PodsWorld, ahead: int) -> None:
    """A plan counts on their room; one that outlives its grace period takes its room back, and a new plan is made.
    ahead: of the API server's clock, by which the pod's end is told."""
    world.plan(planned("winner", "start", n1=1), planned("other", "start", n2=1), planned("victim", "wait"))
    evicted = evicted_pod("victim", rfc3339(1_000_060), {GPU: "8"})
    evicted["metadata"]["deletionGracePeriodSeconds"] = 10
    pods = [pod("winner", 0), pod("other", 0)]
    jobs = [live_job(name) for name in ("winner", "other", "victim")]
    prints, lifted = [], list[list[str]]()
    for world.now, *there in ((50.0, evicted), (90.5, evicted), (91.0, evicted), (92.0,), (93.0,)):
        world.wall_now = 1_000_000 + ahead + world.now
        p = world.act(*jobs, *pods, *there)
        for pod_there in state_objects(p.observation) if there else ():
            if uid_of(pod_there) == uid_of(evicted):
                until, now = leaving_until(pod_there), world.wall_now
                assert (until is not None and int(now) <= until) == (world.now < 91), "as the compile sees it"
        prints.append(p.fingerprint)
        lifted.append([*p.lifted])
    assert lifted == [[key_of("other")], [], [], [key_of("winner")], []]
    assert prints[0] == prints[1] == prints[4] != prints[2]


@pytest.mark.parametrize(
    ("asked", "victim", "policy", "starts"),
    [
        ({GPU: "4"}, "4", "", {"a"}),
        ({GPU: "2"}, "4", "", {"a", "b"}),
        ({GPU: "5"}, "4", "", set()),
        ({GPU: "4", "cpu": "1"}, "4", "", set()),
        ({GPU: "1"}, "8", "", set()),
        ({}, "8", "", {"a", "b"}),
        ({GPU: "1"}, "4", "restricted", set()),
        ({VGPU: "1"}, "4", "", set()),
    ],
)
def test_only_pods_that_need_an_evicted_pods_room_wait_for_it(
    world: PodsWorld, asked: dict[str, str], victim: str, policy: str, starts: set[str]
) -> None:
    """A victim with a long grace period kept the gates of every gang on its node. What single cards and NUMA cells
    hold is not told by the pods, so whose pods go there waits."""
    world.plan(planned("a", "start", n1=1), planned("b", "start", n1=1), planned("victim", "wait"))
    evicted = evicted_pod("victim", "1970-01-01T01:00:00Z", {GPU: victim})
    pods = [pod(name, 0, asks=asked or NOTHING) for name in "ab"]
    for each in pods if policy else ():
        each["metadata"]["annotations"] = {NUMA_POLICY_ANNOTATION: policy}
    world.wall_now = 1.0
    p = world.act(*map(live_job, ("a", "b", "victim")), *pods, evicted)
    assert p.lifted.keys() == {key_of(name) for name in starts}


def test_an_evicted_pod_of_no_gang_holds_no_gate(world: PodsWorld) -> None:
    """Plans count its room as taken, so who is placed next to it need not wait for its end."""
    world.plan(planned("g", "start", n1=1))
    evicted = evicted_pod("web", "1970-01-01T00:10:00Z", {GPU: "7"})
    world.wall_now = 1.0
    assert world.act(live_job("g"), live_job("web"), pod("g", 0), evicted).lifted.keys() == {key_of("g")}


def test_nothing_is_done_while_nodes_or_pods_cannot_be_read(world: PodsWorld) -> None:
    world.plan(planned("g", "start", n1=1))
    p = world.act(live_job("g"))
    blind = replace(p.seen, observation=replace(p.observation, readable_kinds=frozenset({"Pod"})))
    world.part.act(blind, p.target, Orders())
    assert world.cluster.writes == []


def test_a_gang_that_has_begun_is_not_split_by_a_plan_that_does_not_know_it(world: PodsWorld) -> None:
    """A plan made before gates were lifted comes after one of two was: the other pod would start far from the first."""
    world.plan(planned("g", "start", n3=2))
    half = {GPU: "4"}
    pods = pod("g", 0, "n1", bound=False, asks=half), pod("g", 1, asks=half)
    assert list(world.act(live_job("g"), *pods, target="newer").lifted) == []
    world.plan(planned("g", "keep", n1=2))
    assert list(world.act(live_job("g"), *pods).lifted) == [key_of("g")]


@pytest.mark.parametrize(("decision", "gpus", "returns"), [("keep", "16", 0), ("keep", "8", 1), ("start", "16", 0)])
def test_a_pod_that_comes_back_waits_for_a_plan_where_its_node_offers_less_than_it_did(
    world: PodsWorld, decision: str, gpus: str, returns: int
) -> None:
    """A device failed and took the pod with it: it was given the same node, and not bound there."""
    world.plan(planned("g", decision, n1=1, n2=1))
    everything = live_job("g"), pod("g", 0, asks={GPU: gpus}), pod("g", 1, "n2")
    assert len(world.act(*everything).lifted) == returns
    p = world.act(*everything)
    is_reported = p.unlifted.get(key_of("g")) == "node n1: 8 nvidia.com/gpu free, 16 needed"
    assert is_reported == (not returns)
    unlike = fingerprint_of(p.observation.with_restrictions(Restrictions()), world.snapshot, frozenset())
    assert (unlike != p.fingerprint) == (not returns), "the plan rests on it"


@pytest.mark.parametrize(
    ("asks", "zone", "is_lifted"),
    [
        ("", "z", True),
        ("", "other", False),
        ("In", "z", True),
        ("In", "other", False),
        pytest.param("InFuture", "other", True, id="of a newer API server"),
    ],
)
def test_a_pod_that_comes_back_is_not_given_a_node_whose_labels_have_changed(
    world: PodsWorld, asks: str, zone: str, is_lifted: bool
) -> None:
    """Its gang runs on there, so the plan keeps the place; the pod was never bound, and waited for the bind
    timeout."""
    world.plan(planned("g", "keep", n1=2))
    lost = pod("g", 0)
    rows = [{"key": "zone", "operator": asks, "values": ["z"]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": rows}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    lost["spec"] |= {"affinity": affinity} if asks else {"nodeSelector": {"zone": "z"}}
    changed = node("n1")
    changed["metadata"]["labels"]["zone"] = zone
    p = world.act(live_job("g"), lost, pod("g", 1, "n1"), changed)
    assert bool(p.lifted) == is_lifted
    assert ("its labels are not" in p.unlifted.get(key_of("g"), "")) != is_lifted
    assert (world.part.lifter.still_refused(world.snapshot) == {key_of("g")}) != is_lifted, "another plan is made"


def test_nothing_is_planned_on_a_node_that_no_selector_can_name(world: PodsWorld) -> None:
    """The plan gave a gang such a node, its gates were never lifted, and nothing said so."""
    world.plan(planned("g", "keep", n1=1))
    for is_gated, closed in ((True, {"n2"}), (False, set())):
        world.snapshot = replace(world.snapshot, gated=is_gated)
        p = world.act(live_job("g"), pod("g", 0, "n1"), unnamed="n2")
        assert p.observation.restrictions.quarantined_nodes == closed


def test_a_lone_pod_is_given_its_node(world: PodsWorld) -> None:
    lone = pod("x", 0)
    lone["metadata"]["annotations"] = {PLACEMENT_ANNOTATION: "{}"}
    del lone["metadata"]["ownerReferences"]
    gang = {**planned("x-w-0", "start", n2=1), "apiVersion": "v1", "kind": "Pod"}
    manifest = Manifest(5, {**lone, "metadata": {"namespace": "default", "name": "x-w-0"}}, "")
    world.snapshot = Snapshot("c0ffee", True, plan={"gangs": [gang]}, manifests=(manifest,))
    p = world.act(lone)
    assert list(p.lifted) == ["Pod/default/x-w-0"]
    ((_, path),) = world.cluster.writes[-1:]
    assert path.endswith("/pods/x-w-0")


def test_a_gang_of_which_a_gate_has_no_answer_waits_for_it_and_no_other_gang_does(world: PodsWorld) -> None:
    """Its pod may be on the way to where no newer plan knows it: the rest would be put elsewhere."""
    everything = [live_job("g"), live_job("h"), pod("g", 0), pod("g", 1), pod("h", 0)]
    world.hang("/g-w-0", "PATCH")
    world.plan(planned("g", "start", n1=2), planned("h", "start", n2=1))
    p = world.act(*everything)
    assert (p.lifted, [*p.unlifted]) == ({key_of("g"): 1, key_of("h"): 1}, [key_of("g")])
    before = len(world.cluster.writes)
    world.plan(planned("g", "start", n3=2))
    world.now = 10.0
    p = world.act(*everything)
    assert ([*p.unlifted], p.lifted) == ([key_of("g")], {})
    assert not any("/pods/" in path for _, path in world.cluster.writes[before:])
    world.let_go()
    world.act(*everything)
    assert not world.threads.is_any_open()


@pytest.mark.parametrize("is_holding", [False, True])
def test_gates_leave_room_for_jobs_that_are_still_to_be_made(world: PodsWorld, is_holding: bool) -> None:
    """While jobs wait to be made a pass lifts gates for a second, of whole gangs; the next one goes on."""
    gangs = [f"job-{at:02}" for at in range(3)]
    size = PodTimings().batch_beside_jobs
    world.plan(*(planned(name, "start", n1=size) for name in gangs))
    world.orders = Orders(is_making_jobs=is_holding)
    clock = iter(range(1000))
    world.clock = lambda: float(next(clock))  # type: ignore[method-assign]
    p = world.act(
        *(live_job(name) for name in gangs), *(pod(name, at, asks=NOTHING) for name in gangs for at in range(size))
    )
    assert [*p.lifted] == [key_of(name) for name in (gangs[:1] if is_holding else gangs)]
    assert bool(world.wakes) == is_holding


def test_a_gang_that_the_plan_does_not_bind_is_given_no_node(world: PodsWorld) -> None:
    world.plan(planned("g", "keep", n1=1), {**planned("service", "start", n2=1), "bound": False})
    assert world.act(live_job("g"), live_job("service"), pod("g", 0, "n1"), pod("service", 0)).lifted == {}


def test_gates_that_cannot_be_lifted_are_reported_while_that_is_so(world: PodsWorld) -> None:
    """A right that was taken away, or a webhook: the gang waited, and only the log said why."""
    world.plan(planned("g", "start", n1=1))
    world.inventory.enter(InventoryEntry(ref_of(live_job("g")), "job-g"))
    world.cluster.fail(error_answer(403, "may not patch pods"), "/pods/", "PATCH")

    def reported() -> list[str]:
        p = world.act(live_job("g"), pod("g", 0))
        assert not p.lifted
        assert not p.effects.events, "no pod was Placed"
        assert not world.inventory.entries[key_of("g")].started, "another specification of it may be a new run at once"
        return [change.reason for change in world.part.unplaced_jobs(p.observation)]

    assert reported() == [], "it may be over in a moment"
    world.now = 4.0
    (reason,) = reported()
    assert reason.startswith("its pods are not given their nodes: ")
    assert "may not patch pods" in reason
    world.cluster.recover()
    world.put(pod("g", 0))
    assert world.act(live_job("g"), pod("g", 0)).lifted == {}, "it pauses"
    world.now += PodTimings().longest_gate_pause
    p = world.act(live_job("g"), pod("g", 0))
    assert p.lifted == {key_of("g"): 1}
    assert world.inventory.entries[key_of("g")].started
    assert not list(world.part.unplaced_jobs(p.observation))


@pytest.mark.parametrize(("node", "where"), [("n1", "on node n1"), ("n9", "on node n9, which is gone: Kubernetes")])
def test_pods_that_were_deleted_and_do_not_end_are_reported(world: PodsWorld, node: str, where: str) -> None:
    """Their node was lost: the status called the gang kept on its new node, for as long as Kubernetes kept them."""
    world.plan(planned("g", "keep", n2=1))
    going = pod("g", 0, node)
    going["metadata"] |= {"deletionTimestamp": rfc3339(10), "deletionGracePeriodSeconds": 10}
    reported = list[list[str]]()
    for world.now in (0.0, 39.0, 40.0):
        p = world.act(live_job("g"), going)
        reported.append([change.reason for change in world.part.unplaced_jobs(p.observation)])
    assert reported[:2] == [[], []], "it may take its grace period, and some more"
    assert f"1 of its former pods have not ended, {where}" in reported[2][0]


def test_pods_that_the_scheduler_refuses_on_their_nodes_are_reported_before_they_are_evicted(world: PodsWorld) -> None:
    """A node that returned with fewer GPUs: nothing was reported before the bind timeout."""
    world.plan(planned("g", "keep", n1=1, n2=1), planned("silent", "keep", n3=1))
    sibling = pod("g", 0, "n1", bound=False, message="pod group is not ready, 2 Pending")
    refused = pod("g", 1, "n2", bound=False, message="Insufficient nvidia.com/gpu")
    waiting = [sibling, refused, pod("silent", 0, "n3", bound=False)]
    reported = list[list[str]]()
    for world.now in (0.0, 29.0, 30.0):
        p = world.act(live_job("g"), live_job("silent"), *waiting)
        reported.append([change.reason for change in world.part.unplaced_jobs(p.observation)])
    assert 30.0 in world.part.deadlines(29.0)
    text = "its pods are not bound to their nodes, 2 of 2; on n2: Insufficient nvidia.com/gpu"
    assert reported == [[], [], [text]]
    bound = world.act(live_job("g"), live_job("silent"), pod("g", 0, "n1"), pod("g", 1, "n2"), waiting[2])
    assert not list(world.part.unplaced_jobs(bound.observation))


def test_a_job_of_a_kind_that_is_not_served_keeps_no_room(world: PodsWorld) -> None:
    jobs = live("kubeflow.org/v1", "PyTorchJob", "j"), live(BATCH, "Job", "j")
    plan = {"gangs": [entry(job, "start", {}) for job in jobs]}
    kind = "PyTorchJob.kubeflow.org"
    observation = Observation({}, frozenset(), obstacles={kind: "not served"}, unserved_kinds=frozenset({kind}))
    restrictions = world.part.restrictions(observation, Snapshot("c", True, plan=plan), {}, 0.0)
    assert restrictions.held_jobs == {f"{kind}/default/j": "not served"}
