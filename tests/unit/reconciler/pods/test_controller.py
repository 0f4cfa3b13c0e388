"""What is done to pods: lost nodes are left, refusals are told and tried again, a gang's trouble is its own."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.cluster_state.pods import leaving_until
from compiler.emit.manifest import Manifest
from compiler.fields.timestamp import rfc3339
from compiler.kubernetes import DIGEST_ANNOTATION, HOSTNAME_LABEL, NUMA_POLICY_ANNOTATION, SCHEDULING_GATE, uid_of
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.context import Pass, Reconciler, Settings, build_reconciler
from reconciler.git.poller import BranchHead
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.objects.memory import GATES_PAUSE
from reconciler.observation.observe import Observation, Restrictions
from reconciler.observation.owners import pods_by_job
from reconciler.planning.fingerprint import Fingerprint, fingerprint_of, state_objects
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.controller import BATCH_BESIDE_JOBS, act_on_pods, observe_pods
from reconciler.pods.results import note_settled_writes
from reconciler.report.build import build_report
from reconciler.report.status import status_document, status_text
from reconciler.requests.store import Requests
from tests.builders.fake_cluster import FakeCluster
from tests.builders.observed import observed
from tests.builders.scripted_server import ScriptedAnswer, error_answer

VOLCANO = "batch.volcano.sh/v1alpha1"
CLAIM = 'all nodes are unavailable: 4 persistentvolumeclaim "data" not found.'
Asked = dict[str, str] | None
GPU, VGPU = "nvidia.com/gpu", "volcano.sh/vgpu-number"
NOTHING = {"example.com/none": "0"}
PORTS = "all nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports."


def key_of(name: str) -> str:
    return Ref(VOLCANO, "Job", "default", name).key


def planned(name: str, decision: str, evicted_for: tuple[str, ...] = (), **nodes: int) -> Object:
    """A gang of the plan: node -> pods of its one role."""
    identity = {"apiVersion": VOLCANO, "kind": "Job", "namespace": "default", "name": name}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "startsAt": None}
    return {**identity, **rest, "decision": decision, "pods": {"w": nodes}, "evictedFor": list(evicted_for)}


def live_job(name: str) -> Object:
    metadata = {"namespace": "default", "name": name, "uid": f"job-{name}", "annotations": {DIGEST_ANNOTATION: name}}
    return {"apiVersion": VOLCANO, "kind": "Job", "metadata": metadata, "spec": {}}


def pod(job: str, index: int, node: str = "", *, bound: bool = True, message: str = "", asks: Asked = None) -> Object:
    """A gated pod, or one that was given a node and is bound to it, or waits with the scheduler's message."""
    owner = {"apiVersion": VOLCANO, "kind": "Job", "name": job, "uid": f"job-{job}"}
    metadata = {"namespace": "default", "name": f"{job}-w-{index}", "uid": f"{job}-{index}", "ownerReferences": [owner]}
    spec: dict[str, Any] = {"schedulingGates": [{"name": SCHEDULING_GATE}]}
    if node:
        spec = {"nodeSelector": {HOSTNAME_LABEL: node}, **({"nodeName": node} if bound else {})}
    spec["containers"] = [{"name": "c", "resources": {"limits": asks or {GPU: "1"}}}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status = {"conditions": [condition] if message else []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def evicted_pod(job: str, ends_at: str, asks: Asked = None) -> Object:
    """A pod on node n1 that ends by the Eviction API."""
    found = pod(job, 0, "n1", asks=asks)
    found["metadata"]["deletionTimestamp"] = ends_at
    found["status"]["conditions"] = [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]
    return found


class World:
    """A reconciler with a plan in force before a cluster of four nodes, at whose clock a test turns."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.now = FakeCluster(), 0.0
        settings = Settings(str(folder), "main", "test", "gangplan-system", folder / "data")
        self.r: Reconciler = build_reconciler(settings, self.cluster.client(), "me")
        self.r.client.fence = lambda: None
        self.r.clock = lambda: self.now
        self.r.inventory = Inventory()
        self.r.requests._latest = Requests()
        self.r.poller.head = BranchHead("c0ffee")

    def plan(self, *gangs: Object) -> None:
        manifests = tuple(Manifest(5, live_job(gang["name"]), "", gang["name"]) for gang in gangs)
        self.r.planning.snapshot = Snapshot("c0ffee", True, plan={"gangs": gangs}, manifests=manifests)

    def act(self, *objects: Object, lost: str = "", target: str = "c0ffee", unnamed: str = "") -> Pass:
        """One pass over these objects, as far as pods are concerned; the plan rests on what is there. unnamed: a node
        without a hostname label."""
        nodes: list[Object] = []
        for name in ("n1", "n2", "n3", "n4"):
            ready = [{"type": "Ready", "status": "Unknown" if name == lost else "True"}]
            labels = {} if name == unnamed else {HOSTNAME_LABEL: name}
            meta = {"name": name, "uid": name, "labels": labels}
            status = {"conditions": ready, "allocatable": {"pods": "1000", GPU: "8", VGPU: "8"}}
            nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
        settled = self.r.writer.settle()
        observation = observed(self.r.writer.own, (*nodes, *objects), {"Node", "Pod", "Job.batch.volcano.sh"})
        assert self.r.inventory is not None
        p = Pass(observation, self.r.inventory, target_commit=target)
        note_settled_writes(self.r, p, settled)
        observation = observe_pods(self.r, observation)
        p.look_again(observation)
        p.snapshot = self.r.planning.snapshot
        assert p.snapshot is not None
        gangs = p.snapshot.gangs
        jobs = {key: item for key, item in observation.objects.items() if key.startswith("Job.") or key in gangs}
        p.pods, _ = pods_by_job(observation.objects_of_kind("Pod"), jobs)
        p.current_fingerprint = fingerprint_of(observation, p.snapshot, frozenset())
        self.r.planning.base_fingerprint = p.current_fingerprint
        act_on_pods(self.r, p, p.snapshot)
        return p

    @property
    def evicted(self) -> list[str]:
        return [path.split("/")[-2] for _, path in self.cluster.writes if path.endswith("/eviction")]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_pod_leaves_a_lost_node_after_the_set_time_and_no_other_pod_does(world: World) -> None:
    world.plan(planned("g", "keep", n1=1, n2=1))
    pods = pod("g", 0, "n1"), pod("g", 1, "n2")
    for world.now in (0.0, 59.0):
        world.act(live_job("g"), *pods, lost="n1")
    assert world.evicted == []
    world.now = 60.0
    p = world.act(live_job("g"), *pods, lost="n1")
    assert world.evicted == ["g-w-0"]
    assert [event.reason for event in p.events] == ["NodeLost"]


def test_a_refusal_by_a_budget_is_no_failed_read_and_is_asked_again_with_pauses(world: World) -> None:
    """S30, the second half."""
    world.plan(planned("g", "keep", n1=1))
    world.cluster.before = lambda method, path, body: (
        error_answer(429, "the budget says no") if "eviction" in path else None
    )
    for world.now in (0.0, 60.0, 60.5, 61.0, 62.0, 63.0):
        p = world.act(live_job("g"), pod("g", 0, "n1"), lost="n1")
        assert (p.problems, p.evicted_pods) == ([], [])
    assert len(world.evicted) == 3, "at 60, 61 and 63"
    assert "the budget says no" in p.held_changes[0].reason
    world.cluster.before = lambda method, path, body: None
    world.now = 67.0
    assert world.act(live_job("g"), pod("g", 0, "n1"), lost="n1").evicted_pods == ["Pod default/g-w-0"]


def act_without_claim(world: World) -> Pass:
    """A pass while a gang misses a claim: its pod has a node unless it is held."""
    node = "" if key_of("stuck") in world.r.binding.held_jobs(world.now) else "n1"
    waiting = pod("stuck", 0, node, bound=False, message=CLAIM if node else "")
    waiting["metadata"]["uid"] = f"stuck-{len(world.evicted)}"
    return world.act(live_job("stuck"), waiting)


def test_one_unbindable_gang_closes_no_node_to_others_and_is_held_after_three_rounds(world: World) -> None:
    """S7."""
    world.plan(planned("stuck", "start", n1=1, n2=1))
    held_at = []
    for world.now in range(0, 1200, 10):
        p = act_without_claim(world)
        assert p.observation.restrictions.quarantined_nodes == frozenset()
        assert p.observation.restrictions.closed_nodes == {}
        if any(event.reason == "BindingHeld" for event in p.events):
            held_at.append(world.now)
    assert len(world.evicted) == 3
    assert len(held_at) == 1
    assert CLAIM in world.r.binding.held_jobs(world.now)[key_of("stuck")]
    (condition,) = (each for each in build_report(world.r, p).conditions if each.type == "GangsHeld")
    assert (condition.status, CLAIM in condition.message) == (True, True)


def test_a_gang_held_for_a_claim_gets_another_round_when_the_claim_is_there(world: World) -> None:
    claims = {"name": "persistentvolumeclaims", "kind": "PersistentVolumeClaim", "namespaced": True}
    world.cluster.before = lambda method, path, body: (
        ScriptedAnswer(200, {"resources": [claims]}) if path == "/api/v1" else None
    )
    world.plan(planned("stuck", "start", n1=1, n2=1))
    for world.now in range(0, 1200, 10):
        act_without_claim(world)
    assert key_of("stuck") in world.r.binding.held_jobs(world.now)
    world.cluster.put("/api/v1/namespaces/default/persistentvolumeclaims/data", {"metadata": {"name": "data"}})
    for world.now in range(1200, 1300, 10):
        act_without_claim(world)
    assert key_of("stuck") not in world.r.binding.held_jobs(world.now)


def test_a_node_is_closed_to_the_gang_that_it_does_not_take_and_all_its_waiting_pods_go(world: World) -> None:
    """Pods evicted one pass later stayed in a plan that kept the gang there, and nothing made another."""
    world.plan(planned("g", "start", n1=1, n2=1))
    pods = pod("g", 0, "n1", bound=False, message=PORTS), pod("g", 1, "n2", bound=False)
    for world.now in (0.0, 120.0):
        world.act(live_job("g"), *pods)
    assert world.evicted == ["g-w-0", "g-w-1"]
    assert world.r.binding.closed_nodes(world.now) == {key_of("g"): {"n1"}}


def test_what_is_left_of_a_gang_goes_where_the_plan_cannot_complete_it(world: World) -> None:
    world.plan(planned("g", "keep", n1=1, n2=1))
    world.act(live_job("g"), pod("g", 0, "n1"), pod("g", 1, "n2"), lost="n1")
    world.plan(planned("g", "wait", n2=1))
    p = world.act(live_job("g"), pod("g", 0), pod("g", 1, "n2"), lost="n1")
    assert world.evicted == ["g-w-1"]
    assert [event.reason for event in p.events] == ["GangIncomplete"]


def test_a_gang_that_waits_for_other_reasons_keeps_its_pods(world: World) -> None:
    world.plan(planned("g", "wait", n2=1))
    world.act(live_job("g"), pod("g", 0), pod("g", 1, "n2"))
    assert world.evicted == []


@pytest.mark.parametrize(
    ("winner", "target", "evictions"), [(True, "c0ffee", 1), (False, "c0ffee", 0), (True, "beef", 0)]
)
def test_no_victim_goes_for_a_winner_that_is_gone_or_of_a_plan_that_is_over(
    world: World, winner: bool, target: str, evictions: int
) -> None:
    world.plan(planned("winner", "start", n1=1), planned("victim", "wait", ("default/winner",)))
    jobs = [live_job("victim"), *([live_job("winner"), pod("winner", 0)] if winner else [])]
    p = world.act(*jobs, pod("victim", 0, "n1"), target=target)
    assert len(world.evicted) == evictions
    assert p.lifted_gates == {}, "the winner starts with the plan that is made once they are gone"


def test_a_victims_successor_stays_gated(world: World) -> None:
    world.plan(planned("winner", "start", n1=1), planned("victim", "keep", ("default/winner",), n2=1))
    world.act(live_job("winner"), live_job("victim"), pod("victim", 0), pod("victim", 1, "n2"))
    assert [path for method, path in world.cluster.writes if method == "PATCH"] == []


@pytest.mark.parametrize("ahead", [0, 7200, -7200])
def test_a_gang_starts_when_the_evicted_pods_have_left_its_nodes(world: World, ahead: int) -> None:
    """A plan counts on their room; one that outlives its grace period takes its room back, and a new plan is made.
    ahead: of the API server's clock, by which the pod's end is told."""
    world.plan(planned("winner", "start", n1=1), planned("other", "start", n2=1), planned("victim", "wait"))
    evicted = evicted_pod("victim", rfc3339(1_000_060), {GPU: "8"})
    evicted["metadata"]["deletionGracePeriodSeconds"] = 10
    pods = [pod("winner", 0), pod("other", 0)]
    jobs = [live_job(name) for name in ("winner", "other", "victim")]
    world.r.wall_clock = lambda: 1_000_000 + ahead + world.now
    prints, lifted = [], set[str]()
    for world.now, *there in ((50.0, evicted), (90.5, evicted), (91.0, evicted), (92.0,), (93.0,)):
        p = world.act(*jobs, *pods, *there)
        if there and world.now < 91:
            assert p.lifted_gates.keys() == {key_of("other")}
        for pod_there in state_objects(p.observation) if there else ():
            if uid_of(pod_there) == uid_of(evicted):
                until, now = leaving_until(pod_there), world.r.wall_clock()
                assert (until is not None and int(now) <= until) == (world.now < 91), "as the compile sees it"
        prints.append(p.current_fingerprint)
        lifted |= p.lifted_gates.keys()
    assert lifted == {key_of("winner"), key_of("other")}
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
    world: World, asked: dict[str, str], victim: str, policy: str, starts: set[str]
) -> None:
    """A victim with a long grace period kept the gates of every gang on its node. What single cards and NUMA cells
    hold is not told by the pods, so whose pods go there waits."""
    world.plan(planned("a", "start", n1=1), planned("b", "start", n1=1), planned("victim", "wait"))
    evicted = evicted_pod("victim", "1970-01-01T01:00:00Z", {GPU: victim})
    pods = [pod(name, 0, asks=asked or NOTHING) for name in "ab"]
    for each in pods if policy else ():
        each["metadata"]["annotations"] = {NUMA_POLICY_ANNOTATION: policy}
    world.r.wall_clock = lambda: 1.0
    p = world.act(*map(live_job, ("a", "b", "victim")), *pods, evicted)
    assert p.lifted_gates.keys() == {key_of(name) for name in starts}


def test_an_evicted_pod_of_no_gang_holds_no_gate(world: World) -> None:
    """Plans count its room as taken, so who is placed beside it need not wait for its end."""
    world.plan(planned("g", "start", n1=1))
    evicted = evicted_pod("web", "1970-01-01T00:10:00Z", {GPU: "7"})
    world.r.wall_clock = lambda: 1.0
    assert world.act(live_job("g"), live_job("web"), pod("g", 0), evicted).lifted_gates.keys() == {key_of("g")}


def test_nothing_is_done_while_nodes_or_pods_cannot_be_read(world: World) -> None:
    world.plan(planned("g", "start", n1=1))
    assert world.r.planning.snapshot is not None
    p = Pass(Observation({}, frozenset({"Pod"})), Inventory(), target_commit="c0ffee")
    p.current_fingerprint = world.r.planning.base_fingerprint = Fingerprint()
    act_on_pods(world.r, p, world.r.planning.snapshot)
    assert world.cluster.writes == []


def test_a_gang_that_an_older_plan_has_begun_to_start_is_not_split_by_one_that_does_not_know_it(world: World) -> None:
    """A plan made before gates were lifted comes after one of two was: the other pod would start far from the first."""
    world.plan(planned("g", "start", n3=2))
    half = {GPU: "4"}
    pods = pod("g", 0, "n1", bound=False, asks=half), pod("g", 1, asks=half)
    assert list(world.act(live_job("g"), *pods, target="newer").lifted_gates) == []
    world.plan(planned("g", "keep", n1=2))
    assert list(world.act(live_job("g"), *pods).lifted_gates) == [key_of("g")]


@pytest.mark.parametrize(("decision", "gpus", "returns"), [("keep", "16", 0), ("keep", "8", 1), ("start", "16", 0)])
def test_a_pod_that_comes_back_waits_for_a_plan_where_its_node_offers_less_than_it_did(
    world: World, decision: str, gpus: str, returns: int
) -> None:
    """A device failed and took the pod with it: it was given the same node, and not bound there."""
    world.plan(planned("g", decision, n1=1, n2=1))
    everything = live_job("g"), pod("g", 0, asks={GPU: gpus}), pod("g", 1, "n2")
    assert len(world.act(*everything).lifted_gates) == returns
    p = world.act(*everything)
    is_reported = p.unlifted_gates.get(key_of("g")) == "node n1: 8 nvidia.com/gpu free, 16 needed"
    assert is_reported == (not returns)
    assert p.snapshot is not None
    unlike = fingerprint_of(p.observation.with_restrictions(Restrictions()), p.snapshot, frozenset())
    assert (unlike != p.current_fingerprint) == (not returns), "the plan rests on it"


def test_nothing_is_planned_on_a_node_that_no_selector_can_name(world: World) -> None:
    """The plan gave a gang such a node, its gates were never lifted, and nothing said so."""
    world.plan(planned("g", "keep", n1=1))
    assert world.act(live_job("g"), pod("g", 0, "n1"), unnamed="n2").observation.restrictions.quarantined_nodes == {
        "n2"
    }
    assert world.r.planning.snapshot is not None
    world.r.planning.snapshot = replace(world.r.planning.snapshot, gated=False)
    assert not world.act(live_job("g"), pod("g", 0, "n1"), unnamed="n2").observation.restrictions.quarantined_nodes


def test_a_job_whose_pods_are_refused_is_not_planned(world: World) -> None:
    world.plan(planned("g", "start", n1=1))
    world.r.runs.lost_jobs.refused_jobs = {key_of("g"): "a quota"}
    assert world.act(live_job("g")).observation.restrictions.held_jobs == {key_of("g"): "a quota"}


def test_a_lone_pod_is_given_its_node(world: World) -> None:
    lone = pod("x", 0)
    del lone["metadata"]["ownerReferences"]
    entry = {**planned("x-w-0", "start", n2=1), "apiVersion": "v1", "kind": "Pod"}
    manifest = Manifest(5, {**lone, "metadata": {"namespace": "default", "name": "x-w-0"}}, "")
    world.r.planning.snapshot = Snapshot("c0ffee", True, plan={"gangs": [entry]}, manifests=(manifest,))
    p = world.act(lone)
    assert list(p.lifted_gates) == ["Pod/default/x-w-0"]
    ((_, path),) = world.cluster.writes[-1:]
    assert path.endswith("/pods/x-w-0")


def test_a_gang_of_which_a_gate_has_no_answer_waits_for_it_and_no_other_gang_does(world: World) -> None:
    """Its pod may be on the way to where no newer plan knows it: the rest would be put elsewhere."""
    gate, threads = threading.Event(), world.r.writer.threads
    threads.patience, threads.on_end = 0.05, gate.set

    def hang(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and "/g-w-0" in path:
            gate.wait()

    everything = [live_job("g"), live_job("h"), pod("g", 0), pod("g", 1), pod("h", 0)]
    for item in everything[2:]:
        world.cluster.put(f"/api/v1/namespaces/default/pods/{item['metadata']['name']}", item)
    world.cluster.before = hang
    world.plan(planned("g", "start", n1=2), planned("h", "start", n2=1))
    p = world.act(*everything)
    assert (p.lifted_gates, [*p.unlifted_gates]) == ({key_of("g"): 1, key_of("h"): 1}, [key_of("g")])
    before = len(world.cluster.writes)
    world.plan(planned("g", "start", n3=2))
    world.now = 10.0
    p = world.act(*everything)
    assert ([*p.unlifted_gates], p.lifted_gates) == ([key_of("g")], {})
    assert not any("/pods/" in path for _, path in world.cluster.writes[before:])
    gate.set()
    while not world.r.writer.threads._left[ref_of(everything[2]).key].answer.done():
        time.sleep(0.001)
    world.r.writer.settle()
    assert not world.r.writer.is_open(ref_of(everything[2]))


@pytest.mark.parametrize("is_holding", [False, True])
def test_gates_leave_room_for_jobs_that_are_still_to_be_made(world: World, is_holding: bool) -> None:
    """While jobs wait to be made a pass lifts gates for a second, of whole gangs; the next one goes on."""
    gangs = [f"job-{at:02}" for at in range(3)]
    size = BATCH_BESIDE_JOBS
    world.plan(*(planned(name, "start", n1=size) for name in gangs))
    world.r.pace.is_holding = is_holding
    clock = iter(range(1000))
    world.r.clock = lambda: float(next(clock))
    p = world.act(
        *(live_job(name) for name in gangs), *(pod(name, at, asks=NOTHING) for name in gangs for at in range(size))
    )
    assert [*p.lifted_gates] == [key_of(name) for name in (gangs[:1] if is_holding else gangs)]
    assert world.r.wake_event.is_set() == is_holding


def test_a_job_that_is_planned_without_being_bound_stands_in_the_status_and_nowhere_else(world: World) -> None:
    world.plan(planned("g", "keep", n1=1), {**planned("service", "start", n2=1), "bound": False})
    p = world.act(live_job("g"), live_job("service"), pod("g", 0, "n1"), pod("service", 0))
    assert p.lifted_gates == {}
    document = status_document(build_report(world.r, p), {}, "10:00")
    assert [(gang["name"], gang.get("bound", True)) for gang in document["gangs"]] == [("g", True), ("service", False)]
    assert "start  default/service (q), not bound" in status_text(document)


def test_gates_that_cannot_be_lifted_are_told_while_that_is_so(world: World) -> None:
    """A right that was taken away, or a webhook: the gang waited, and only the log said why."""
    world.plan(planned("g", "start", n1=1))
    world.r.writer.clock = lambda: world.now
    inventory = world.r.inventory
    assert inventory is not None
    inventory.enter(InventoryEntry(ref_of(live_job("g")), "job-g"))
    world.cluster.before = lambda method, path, body: (
        error_answer(403, "may not patch pods") if method == "PATCH" and "/pods/" in path else None
    )

    def told() -> tuple[bool, list[str], list[str]]:
        p = world.act(live_job("g"), pod("g", 0))
        report = build_report(world.r, p)
        assert not any(p.lifted_gates.values())
        assert not inventory.entries[key_of("g")].started, "another specification of it may be a new run at once"
        applied = next(each for each in report.conditions if each.type == "Applied")
        held = [change.reason for change in report.held_changes]
        return applied.status, held, [event.reason for event in report.events]

    assert told() == (True, [], []), "it may be over in a moment"
    world.now = 4.0
    is_applied, (reason,), events = told()
    assert not is_applied
    assert reason.startswith("its pods are not given their nodes: ")
    assert "may not patch pods" in reason
    assert events == ["NotPlaced"], "and no pod was Placed"
    world.cluster.before = lambda method, path, body: None
    world.cluster.put("/api/v1/namespaces/default/pods/g-w-0", pod("g", 0))
    assert world.act(live_job("g"), pod("g", 0)).lifted_gates == {}, "it pauses"
    world.now += GATES_PAUSE
    p = world.act(live_job("g"), pod("g", 0))
    assert p.lifted_gates == {key_of("g"): 1}
    assert inventory.entries[key_of("g")].started
    assert next(each for each in build_report(world.r, p).conditions if each.type == "Applied").status
