"""What of the cluster a plan rests on, what is no news, and which pods are whose: by controller, mark or PodGroup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import CLUSTER_LABEL
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation import owners
from reconciler.observation.memory import ObservationMemory
from reconciler.observation.nodes import NodeIndex, facts_of_node
from reconciler.observation.observe import Observation, Restrictions
from reconciler.observation.owners import OwnershipMemory, _owners_of_pod, pods_by_job
from reconciler.observation.pods import index_of
from reconciler.planning.fingerprint import Fingerprint, fingerprint_inputs, fingerprint_of, state_objects
from reconciler.planning.snapshot import Snapshot
from tests.builders.live import BATCH, VOLCANO, live, live_pod, with_metadata
from tests.builders.pods import entry

NODE = live("v1", "Node", "n", uid="u")
CELLS = {"policies": {"CPUManagerPolicy": "static"}, "cpuDetail": {"0": {"numa": 0}}}


def numa(free: str = "0", **spec: Any) -> Object:
    made = live("nodeinfo.volcano.sh/v1alpha1", "Numatopology", "n", uid="t")
    return {**made, "spec": {**CELLS, "numares": {"cpu": {"allocatable": free}}, **spec}}


NUMA, BUSY_NUMA = numa(), numa("")
JOB, VOLCANO_JOB = live(BATCH, "Job", "j"), {**live(VOLCANO, "Job", "j"), "spec": {}}
POD = live_pod("p", JOB, "n")


def plan_of(*gangs: Object, **more: Any) -> Snapshot:
    return Snapshot("c0ffee", True, plan={"digest": "sha256:1", "gangs": gangs}, **more)


GOOD = plan_of()


def sight(*items: Object, memory: ObservationMemory | None = None) -> Observation:
    """These objects, and the node where they hold none."""
    found = {ref_of(item).key: item for item in (NODE, *items)}
    return Observation(found, frozenset(), memory=memory or ObservationMemory())


def prints(*items: Object, plan: Snapshot = GOOD, memory: ObservationMemory | None = None) -> Fingerprint:
    return fingerprint_of(sight(*items, memory=memory), plan, frozenset())


def of_node(*items: Object, plan: Snapshot = GOOD) -> str:
    return prints(*items, plan=plan).nodes["n"]


def test_the_layout_of_a_node_counts_and_what_pods_take_of_it_does_not() -> None:
    other = numa(cpuDetail={"0": {"numa": 1}})
    assert of_node(NUMA) == of_node(BUSY_NUMA)
    assert len({of_node(), of_node(NUMA), of_node(other)}) == 3
    assert NUMA in state_objects(sight(NUMA))


def test_what_the_cluster_says_next_of_a_node_that_was_behind_is_news() -> None:
    noted = with_metadata(POD, annotations={"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,1000,0:"})
    late = replace(GOOD, nodes_behind=("n",))
    assert of_node(NUMA, plan=late) != of_node(BUSY_NUMA, plan=late)
    assert of_node(POD, plan=late) != of_node(noted, plan=late)
    assert of_node(POD) == of_node(noted)


@pytest.mark.parametrize(
    ("status", "decision", "is_news"), [("True", "keep", False), ("Unknown", "keep", True), ("True", "wait", True)]
)
def test_every_pod_counts_on_a_closed_node_and_of_a_waiting_gang(status: str, decision: str, is_news: bool) -> None:
    """S8: the plan in force keeps the pod where it is; when it goes, a new plan is needed."""
    node = {**NODE, "status": {"conditions": [{"type": "Ready", "status": status}]}}
    plan = plan_of(entry(JOB, decision, {"w": {"n": 1}}))
    assert (of_node(node, JOB, POD, plan=plan) != of_node(node, JOB, plan=plan)) == is_news


@pytest.mark.parametrize(("decision", "news"), [("wait", 3), ("keep", 1)])
def test_what_budgets_let_go_is_news_where_a_gang_waits(decision: str, news: int) -> None:
    """A plan made while a budget lets nobody go is made again once it is gone."""
    budget = live("policy/v1", "PodDisruptionBudget", "b")
    one, none = ({**budget, "status": {"disruptionsAllowed": allowed}} for allowed in (1, 0))
    plan = plan_of(entry(JOB, decision, {}))
    found = [prints(*some, plan=plan) for some in ([none], [one], [], [with_metadata(none, namespace="other")])]
    assert len({each.restrictions for each in found}) == news
    assert found[2] == found[3]


def test_domains_that_others_declare_are_news() -> None:
    """As Volcano discovers them; our own come with the plan."""
    theirs = {**live("topology.volcano.sh/v1alpha1", "HyperNode", "h"), "spec": {"tier": 1}}
    assert prints() == prints(with_metadata(theirs, labels={CLUSTER_LABEL: "c"})) != prints(theirs)


def test_whether_a_queue_of_a_namespace_is_ready_is_news_and_nothing_else_of_it() -> None:
    """NamespaceQueues of Volcano 1.16."""

    def queue(ready: str, **status: Any) -> Object:
        made = live("scheduling.volcano.sh/v1beta1", "NamespaceQueue", "train", namespace="ml")
        return {**made, "status": {**status, "conditions": [{"type": "Ready", "status": ready}] if ready else []}}

    assert prints(queue("False")) != prints(queue("True"))
    assert prints(queue("True")) == prints(queue("")) == prints(queue("True", running=5))
    assert queue("False") in state_objects(sight(queue("False")))


def test_whether_a_queue_of_a_namespace_would_be_refused_is_news() -> None:
    local = live("scheduling.volcano.sh/v1beta1", "NamespaceQueue", "train", namespace="ml")
    plan = plan_of(manifests=(Manifest(1, {**local, "spec": {"parent": "cluster/science"}}, "f:1"),))
    parent = live("scheduling.volcano.sh/v1beta1", "Queue", "science")
    allowed = {"allowedNamespaces": ["ml"]}
    idle, busy = ({**parent, "spec": allowed, "status": {"running": running}} for running in (0, 2))
    assert prints(idle, plan=plan) != prints(busy, plan=plan)
    assert fingerprint_inputs(sight(idle), plan) != fingerprint_inputs(sight(busy), plan), "it is computed again"
    assert prints(idle) == prints(busy), "of a queue that is to get no queue below it"


@pytest.mark.parametrize(("written", "is_news"), [({"written": {"w": 2}}, True), ({}, False)])
def test_pods_of_a_service_beyond_what_is_written_are_news(written: Mapping[str, Any], is_news: bool) -> None:
    """A rolling update, or an autoscaler; below that, and of another job, gated pods are none."""
    service = live("apps/v1", "StatefulSet", "j")
    plan = plan_of(entry(service, "start", {"w": {"n": 2}}, **written))
    none, two, three = (
        prints(service, *(live_pod(f"j-{at}", service) for at in range(count)), plan=plan) for count in (0, 2, 3)
    )
    assert none == two
    assert (none != three) == is_news


@pytest.mark.parametrize("decision", ["start", "wait"])
def test_pods_that_ask_for_other_than_the_plan_counts_are_news_until_a_plan_counts_it(decision: str) -> None:
    """As a webhook has made them; whether the gang waits or starts, and no more news when a gate is lifted."""
    memory = ObservationMemory()

    def print_of(planned: int, *asked: int, **spec: str) -> str:
        requests = {ref_of(VOLCANO_JOB).key: [{"cpu": planned * 1000, "pods": 1}]}
        plan = plan_of(entry(VOLCANO_JOB, decision, {"w": {}}), requests=requests)
        containers = [[{"resources": {"requests": {"cpu": cpu}}}] for cpu in asked]
        made = [live_pod(f"j-{at}", VOLCANO_JOB) for at in range(len(asked))]
        pods = [{**one, "spec": {"containers": of, **spec}} for one, of in zip(made, containers, strict=True)]
        return prints(VOLCANO_JOB, *pods, plan=plan, memory=memory).restrictions

    usual = print_of(8)
    assert print_of(8, 8, 8) == usual
    assert len({print_of(8, *asked) for asked in ((48,), (48, 48), (8, 4))} | {usual}) == 4
    assert print_of(48, 48, 48) == usual
    assert print_of(8, 8, 48) == print_of(8, 8, 48, nodeName="n")


def test_the_end_of_a_step_of_a_flow_is_news_for_those_after_it() -> None:
    """No manifest of ours makes it, so no run of it is recorded; the next step waited for whatever came next."""
    steps = [{**VOLCANO_JOB, "status": {"state": {"phase": phase}}} for phase in ("Pending", "Running", "Completed")]
    pending, running, over = (prints(step, plan=plan_of(entry(step, "start", {}))).restrictions for step in steps)
    assert pending == running != over


@pytest.mark.parametrize(
    ("job", "other", "is_news"), [(VOLCANO_JOB, "wait", True), (VOLCANO_JOB, "keep", False), (JOB, "wait", False)]
)
def test_a_pod_that_ends_well_is_news_for_jobs_that_wait(job: Object, other: str, is_news: bool) -> None:
    waiting = live(job["apiVersion"], "Job", "other")
    plan = plan_of(entry(job, "keep", {"w": {"n": 1}}), entry(waiting, other, {}))
    running, over = (
        prints(job, live_pod("p", job, "n", phase), plan=plan).restrictions for phase in ("Running", "Succeeded")
    )
    assert (running != over) == is_news


def test_what_is_remembered_of_former_observations_changes_no_fingerprint() -> None:
    """Pods, nodes, jobs and gangs are exchanged one at a time: with memory and without, the answers are the same."""
    plan, elsewhere = (plan_of(entry(JOB, "keep", {"w": {at: 1}})) for at in ("n", "other"))
    cordoned, ended = {**NODE, "spec": {"unschedulable": True}}, live_pod("p", JOB, "n", "Succeeded")
    heir, memory, seen = with_metadata(JOB, uid="j2"), ObservationMemory(), []
    for each, *items in (
        (plan, NODE, POD, JOB),
        (elsewhere, NODE, POD, JOB),
        (plan, NODE, ended, JOB),
        (plan, cordoned, POD, JOB),
        (plan, NODE, POD, heir),
        (plan, NODE, POD, JOB),
    ):
        known, fresh = sight(*items, memory=memory), sight(*items)
        assert known.pods_by_job == fresh.pods_by_job
        seen.append(fingerprint_of(known, each, frozenset()))
        assert seen[-1] == fingerprint_of(fresh, each, frozenset())
    assert seen[0] == seen[2] == seen[5]
    assert len({each.nodes["n"] for each in seen}) == 3


def test_what_is_remembered_of_nodes_is_what_the_nodes_say() -> None:
    """Nodes come, go, change and stay: the index and the digests are those of a fresh look; a heartbeat changes
    neither."""

    def node(name: str, ready: str = "True", beat: int = 0, **spec: Any) -> Object:
        labels = {"kubernetes.io/hostname": f"host-of-{name}"}
        conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": beat}]
        status = {"conditions": conditions, "allocatable": {"cpu": "8"}}
        return {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec, "status": status}

    a, b, c = (node(name) for name in "abc")
    memory = ObservationMemory()
    for nodes in ([], [a], [a, b], [a, c], [a, node("c", unschedulable=True)], [node("a", ready="Unknown"), b], [b]):
        assert memory.index_of(nodes) == NodeIndex.from_facts([*map(facts_of_node, nodes)], {})
        assert memory.node_digests(nodes) == ObservationMemory().node_digests(nodes)
    index, digests = memory.index_of([b]), memory.node_digests([b])
    assert memory.index_of([node("b", beat=1)]) is index
    assert memory.node_digests([node("b", beat=2)]) == digests


def test_pods_of_one_group_come_before_those_of_the_next() -> None:
    def member(name: str, group: int) -> Object:
        return {"metadata": {"name": name, "labels": {"leaderworkerset.sigs.k8s.io/group-index": str(group)}}}

    pods = [member("s-1-1", 1), member("s-0-2", 0), member("s-1-2", 1), member("s-0-1", 0)]
    assert [pod["metadata"]["name"] for pod in sorted(pods, key=index_of)] == ["s-0-1", "s-0-2", "s-1-1", "s-1-2"]


def test_what_is_a_job_is_asked_anew_of_what_has_changed_alone() -> None:
    def item(name: str, *annotations: str) -> Object:
        return {"metadata": {"name": name, "annotations": dict.fromkeys(annotations, "")}}

    a, b, mark = item("a"), item("b", "gangplan.dev/placement"), "gangplan.dev/waiting"
    memory = ObservationMemory()
    for objects in ({}, {"a": a, "b": b}, {"a": a, "b": item("b")}, {"b": b}, {"a": item("a", mark), "b": b}, {"a": a}):
        fresh = ObservationMemory().jobs_of_kind("Thing.x", objects)
        assert memory.jobs_of_kind("Thing.x", objects) == fresh
        assert list(fresh) == [key for key in objects if objects[key]["metadata"]["annotations"]]


def test_the_compiler_is_given_the_same_object_as_long_as_nothing_in_it_changes() -> None:
    pod = with_metadata(POD, generation=1)
    seen = sight(with_metadata(NODE, managedFields=[{}]), pod)
    first = state_objects(seen)
    assert [item["metadata"].keys() & {"managedFields", "generation"} for item in first] == [set(), set()]
    ended = {**pod, "status": {"phase": "Failed"}}
    again = state_objects(replace(seen, objects={**seen.objects, ref_of(pod).key: ended}))
    assert again[0] is first[0]
    assert again[1]["status"] == {"phase": "Failed"}
    quarantined = state_objects(seen.with_restrictions(Restrictions(frozenset({"n"}))))
    assert quarantined[0]["spec"]["unschedulable"]
    assert "spec" not in state_objects(seen)[0], "no longer quarantined"


BORN, BEFORE, LATER = (f"2026-01-01T00:00:0{second}Z" for second in (5, 4, 9))
BATCH_JOB = live(BATCH, "Job", "a")


def marked(api_version: str, kind: str, name: str, between: str) -> Object:
    """A job that says which kinds stand between it and its pods."""
    annotations = {"gangplan.dev/pod-owners": between}
    return live(api_version, kind, name, annotations=annotations, creationTimestamp=BORN)


def pod(name: str, owner: Object | None, mark: str = "", created: str = BORN) -> Object:
    """mark: the job that its template names."""
    return live_pod(name, owner, annotations={"gangplan.dev/job": mark}, creationTimestamp=created)


RAY_JOB, RAY_KEY = marked("ray.io/v1", "RayJob", "tune", "RayCluster.ray.io"), "RayJob.ray.io/default/tune"
RAY_CLUSTER = live("ray.io/v1", "RayCluster", "tune-abcde")
JOB_SET = live("jobset.x-k8s.io/v1alpha2", "JobSet", "x")
TRAIN = marked("trainer.kubeflow.org/v1alpha1", "TrainJob", "x", "Job.batch,JobSet.jobset.x-k8s.io")
TRAIN_MARK = "TrainJob.trainer.kubeflow.org/x"
CHILD = live(BATCH, "Job", "x-node-0", JOB_SET)


def by_key(*items: Object) -> dict[str, Object]:
    return {ref_of(item).key: item for item in items}


def test_a_pod_of_an_earlier_job_of_the_same_name_is_not_its_pod() -> None:
    mine, former = live_pod("p", BATCH_JOB), live_pod("q", with_metadata(BATCH_JOB, uid="old"))
    found, gone = pods_by_job([mine, former], by_key(BATCH_JOB))
    assert (found, gone) == ({ref_of(BATCH_JOB).key: [mine]}, {ref_of(BATCH_JOB).key})


def test_pods_without_a_controller_are_their_pod_group_s_or_their_own() -> None:
    group = live("scheduling.volcano.sh/v1beta1", "PodGroup", "g")
    lone, member = (
        live_pod(name, annotations={"scheduling.k8s.io/group-name": group})
        for name, group in (("lone", "podgroup-of-volcano"), ("member", "g"))
    )
    other = live_pod("other", live("v1", "Node", "n1"))
    found, _ = pods_by_job([lone, member, other], by_key(group, lone, other))
    assert found == {ref_of(group).key: [member], ref_of(lone).key: [lone], ref_of(other).key: []}


@pytest.mark.parametrize(
    ("owner", "created", "mark", "is_its"),
    [
        (RAY_CLUSTER, LATER, "RayJob.ray.io/tune", True),
        (RAY_CLUSTER, BEFORE, "RayJob.ray.io/tune", False),
        (RAY_CLUSTER, LATER, "RayJob.ray.io/other", False),
        (live("apps/v1", "ReplicaSet", "copycat"), LATER, "RayJob.ray.io/tune", False),
        (None, LATER, "RayJob.ray.io/tune", False),
    ],
    ids=["its own", "of an earlier run", "of another job", "a copy of its template", "a bare copy"],
)
def test_a_mark_counts_below_an_owner_of_the_job(owner: Object | None, created: str, mark: str, is_its: bool) -> None:
    found, _ = pods_by_job([pod("p", owner, mark, created)], by_key(RAY_JOB))
    assert bool(found[RAY_KEY]) == is_its


def test_owners_that_are_watched_are_followed_by_their_uids_to_the_first_that_is_not() -> None:
    """JobSet -> Job -> Pod: the mark of a pod whose Job is another's proves nothing. TrainJob -> JobSet -> Job -> Pod:
    Jobs are watched, JobSets are not."""
    job_set = marked("jobset.x-k8s.io/v1alpha2", "JobSet", "x", "Job.batch")
    for owner, mark in ((job_set, "JobSet.jobset.x-k8s.io/x"), (TRAIN, TRAIN_MARK)):
        mine, stranger = pod("p", CHILD, mark if owner is TRAIN else ""), pod("q", BATCH_JOB, mark)
        found, former = pods_by_job([mine, stranger], by_key(owner, CHILD, BATCH_JOB))
        assert found == {ref_of(owner).key: [mine], ref_of(CHILD).key: [mine], ref_of(BATCH_JOB).key: [stranger]}
        assert former == (set() if owner is job_set else {"JobSet.jobset.x-k8s.io/default/x"})


def test_jobs_that_come_and_go_one_by_one_are_remembered_as_they_are_seen_afresh() -> None:
    group = live("scheduling.volcano.sh/v1beta1", "PodGroup", "g")
    pods = [pod("p", CHILD, TRAIN_MARK), live_pod("member", annotations={"scheduling.k8s.io/group-name": "g"})]
    for order in permutations((TRAIN, JOB_SET, CHILD, group)):
        memory = OwnershipMemory()
        for jobs in (by_key(*order[:count]) for count in (0, 1, 2, 3, 4, 3, 1)):
            assert memory.pods_by_job(pods, jobs) == pods_by_job(pods, jobs)


def test_a_new_job_leaves_what_is_known_of_pods_that_were_not_looked_for_there() -> None:
    second, memory = live(BATCH, "Job", "b"), OwnershipMemory()
    pods = [live_pod("p", BATCH_JOB), live_pod("q", second)]
    memory.pods_by_job(pods, by_key(BATCH_JOB))
    known = dict(memory.known)
    memory.pods_by_job(pods, by_key(BATCH_JOB, second))
    assert [memory.known[id(pod)] is known[id(pod)] for pod in pods] == [True, False]


def test_of_a_pod_whose_status_changes_the_owners_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event brings another object, and most tell of nothing but the status."""
    memory, looked_up = OwnershipMemory(), list[Any]()

    def look_up(pod: Object, jobs: Mapping[str, Object]) -> Any:
        looked_up.append(pod)
        return _owners_of_pod(pod, jobs)

    monkeypatch.setattr(owners, "_owners_of_pod", look_up)
    pod = live_pod("p", BATCH_JOB)
    ready = {**with_metadata(pod, resourceVersion="9"), "status": {"phase": "Running"}}
    renewed_job, freed = {**BATCH_JOB, "status": {"active": 1}}, with_metadata(ready, ownerReferences=[])
    steps = [(pod, BATCH_JOB), (ready, BATCH_JOB), (ready, renewed_job), (freed, renewed_job)]
    found = [memory.pods_by_job([pod], by_key(job))[0][ref_of(job).key] for pod, job in steps]
    assert found == [[pod], [ready], [ready], []]
    assert looked_up == [pod, freed]
    assert memory.pods_by_job([pod], by_key(BATCH_JOB)) == pods_by_job([pod], by_key(BATCH_JOB))
