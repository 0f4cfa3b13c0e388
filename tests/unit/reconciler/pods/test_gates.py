"""Gates: a gang at a time, never more than planned, and after a crash exactly the rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.kubernetes import HOSTNAME_LABEL, SCHEDULING_GATE, uid_of
from reconciler.changes.planned_gangs import PlannedGang
from reconciler.changes.pods import GateLift
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.observation import owners
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.owners import OwnershipMemory, _owners_of_pod, pods_by_job
from reconciler.pods.gates import gate_lifts, pods_to_evict

JOB = Ref("batch.volcano.sh/v1alpha1", "Job", "default", "train")


def pod(role: str, index: int, node: str = "", partition: str = "", phase: str = "Pending", **spec: Any) -> Object:
    """A pod as Volcano makes it: gated, or given the node."""
    name = f"train-{role}-{index}"
    labels = {"volcano.sh/task-spec": role, "volcano.sh/task-index": str(index)} | (
        {"volcano.sh/partition-id": partition} if partition else {}
    )
    place = (
        {"nodeSelector": {HOSTNAME_LABEL: f"host-{node}"}} if node else {"schedulingGates": [{"name": SCHEDULING_GATE}]}
    )
    meta = {"namespace": "default", "name": name, "uid": f"{name}-uid", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**place, **spec}, "status": {"phase": phase}}


def nodes(leaves: Mapping[str, str]) -> NodeIndex:
    hosts = {node: f"host-{node}" for node in leaves}
    return NodeIndex(hosts, {host: node for node, host in hosts.items()}, leaves)


def gang(pods: Mapping[str, Mapping[str, int]], later: frozenset[str] = frozenset()) -> PlannedGang:
    return PlannedGang(JOB, "start", pods, dependent_roles=later)


FLAT = nodes({"n1": "a", "n2": "a", "n10": "b"})


def given_nodes(found: tuple[Any, ...]) -> dict[str, str]:
    return {lift.pod["metadata"]["name"]: lift.node for lift in found}


def test_no_gate_is_lifted_before_the_whole_gang_is_there() -> None:
    plan = gang({"ps": {"n1": 1}, "worker": {"n1": 1, "n2": 1}})
    assert gate_lifts(plan, [pod("worker", 0), pod("worker", 1)], FLAT) == ()
    assert gate_lifts(plan, [pod("ps", 0), pod("worker", 0)], FLAT) == ()
    assert len(gate_lifts(plan, [pod("ps", 0), pod("worker", 0), pod("worker", 1)], FLAT)) == 3


def test_a_role_that_begins_only_after_another_is_not_waited_for() -> None:
    plan = gang({"driver": {"n1": 1}, "executor": {"n2": 2}}, later=frozenset({"executor"}))
    assert given_nodes(gate_lifts(plan, [pod("driver", 0)], FLAT)) == {"train-driver-0": "n1"}


def test_pods_beyond_the_plan_stay_gated() -> None:
    found = gate_lifts(gang({"worker": {"n1": 2}}), [pod("worker", at) for at in range(5)], FLAT)
    assert given_nodes(found) == {"train-worker-0": "n1", "train-worker-1": "n1"}


def test_a_pod_that_was_done_when_the_plan_was_made_stands_for_none_of_it() -> None:
    plan = replace(gang({"worker": {"n1": 1, "n2": 2}}), succeeded_pods={"worker": 1})
    running = [pod("worker", 1, "n1"), pod("worker", 2, "n2")]
    done, returned = pod("worker", 0, "n10", phase="Succeeded"), pod("worker", 3)
    assert given_nodes(gate_lifts(plan, [done, *running, returned], FLAT)) == {"train-worker-3": "n2"}
    assert gate_lifts(plan, [done, *running], FLAT) == (), "the pod that comes back is not there yet"
    since = pod("worker", 2, "n2", phase="Succeeded")
    assert gate_lifts(plan, [done, running[0], since, returned], FLAT) != (), "another one is done since"


def test_low_numbers_go_to_the_first_domain_and_n2_stands_before_n10() -> None:
    found = gate_lifts(gang({"worker": {"n10": 2, "n2": 1, "n1": 1}}), [pod("worker", at) for at in (3, 1, 0, 2)], FLAT)
    assert given_nodes(found)["train-worker-0"] == found[0].node
    assert [lift.node for lift in found] in (["n10", "n10", "n1", "n2"], ["n1", "n2", "n10", "n10"])


def first_fit(lifted: Sequence[GateLift], memory: Mapping[str, int], card: int) -> bool:
    """Whether Volcano's deviceshare, on one node with two empty cards, finds one for each pod in the order that it is
    told."""
    left = [card, card]
    for lift in sorted(lifted, key=lambda lift: -(lift.task_priority or 0)):
        asked = memory[lift.pod["metadata"]["labels"]["volcano.sh/task-spec"]]
        fits = [number for number in (1, 0) if left[number] >= asked]
        if not fits:
            return False
        left[fits[0]] -= asked
    return True


def test_volcano_is_told_an_order_in_which_first_fit_finds_the_cards() -> None:
    memory, cells = {"a": 5, "b": 3, "c": 7, "d": 5}, {"a": 0, "b": 1, "c": 1, "d": 0}
    pods = [pod(role, 0) for role in memory]
    plan = gang({role: {"n1": 1} for role in memory})
    assert not first_fit(gate_lifts(plan, pods, FLAT), memory, 10), "as they come the last one finds no card"
    plan = replace(plan, device_numbers={role: {"n1": [cell]} for role, cell in cells.items()})
    found = gate_lifts(plan, pods, FLAT)
    assert first_fit(found, memory, 10)
    assert {"op": "add", "path": "/metadata/annotations", "value": {"volcano.sh/task-priority": "1"}} in found[
        1
    ].json_patch()


def test_after_a_crash_exactly_the_rest_is_lifted_to_the_places_that_are_free() -> None:
    plan = gang({"worker": {"n1": 2, "n2": 2}})
    found = gate_lifts(
        plan, [pod("worker", 0, node="n2"), pod("worker", 1), pod("worker", 2, node="n1"), pod("worker", 3)], FLAT
    )
    assert Counter(lift.node for lift in found) == {"n1": 1, "n2": 1}


def test_a_pod_that_comes_back_takes_the_place_that_became_free() -> None:
    ending = pod("worker", 1, node="n2", nodeName="n2")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = gate_lifts(
        gang({"worker": {"n1": 1, "n2": 1}}),
        [pod("worker", 0, node="n1", nodeName="n1"), ending, pod("worker", 1)],
        FLAT,
    )
    assert given_nodes(found) == {"train-worker-1": "n2"}


def test_a_partition_stays_with_its_siblings() -> None:
    leaves = {f"n{at}": "a" if at < 4 else "b" for at in range(8)}
    plan = gang({"worker": dict.fromkeys(leaves, 1)})
    pods = [pod("worker", at, partition=str(at // 4)) for at in range(8)]
    pods[4] = pod("worker", 4, node="n0", partition="1")
    homes: dict[str, set[str]] = {}
    for lift in gate_lifts(plan, pods, nodes(leaves)):
        homes.setdefault(lift.pod["metadata"]["labels"]["volcano.sh/partition-id"], set()).add(leaves[lift.node])
    assert homes["1"] == {"a"}, "its first pod is in domain a already"
    assert homes["0"] == {"b"}


def test_the_patch_is_refused_unless_the_pod_is_as_it_was_seen() -> None:
    (lift,) = gate_lifts(gang({"worker": {"n1": 1}}), [pod("worker", 0, nodeSelector={"gpu": "h100"})], FLAT)
    operations = lift.json_patch()
    tests = {operation["path"]: operation["value"] for operation in operations if operation["op"] == "test"}
    assert tests == {
        "/metadata/uid": "train-worker-0-uid",
        "/spec/schedulingGates": [{"name": SCHEDULING_GATE}],
        "/spec/nodeSelector": {"gpu": "h100"},
    }
    assert {"op": "add", "path": "/spec/nodeSelector/kubernetes.io~1hostname", "value": "host-n1"} in operations
    assert operations[-1] == {"op": "remove", "path": "/spec/schedulingGates"}


def test_gates_of_others_are_left() -> None:
    other = {"name": "example.com/quota"}
    (lift,) = gate_lifts(
        gang({"worker": {"n1": 1}}), [pod("worker", 0, schedulingGates=[other, {"name": SCHEDULING_GATE}])], FLAT
    )
    assert lift.json_patch()[-1] == {"op": "replace", "path": "/spec/schedulingGates", "value": [other]}


def test_a_gang_that_goes_loses_all_its_pods_and_one_that_shrinks_only_what_the_plan_takes_away() -> None:
    pods = [pod("worker", 0, node="n1"), pod("worker", 1, node="n1"), pod("worker", 2, node="n2"), pod("worker", 3)]
    gone = PlannedGang(JOB, "evict", evicted_for=("default/urgent",))
    assert [p["metadata"]["name"] for p in pods_to_evict(gone, pods, FLAT)] == [
        "train-worker-0",
        "train-worker-1",
        "train-worker-2",
    ]
    smaller = PlannedGang(JOB, "keep", {"worker": {"n1": 1, "n2": 1}}, evicted_for=("default/urgent",))
    assert [p["metadata"]["name"] for p in pods_to_evict(smaller, pods, FLAT)] == ["train-worker-1"]


def test_of_pods_on_a_node_those_that_are_protected_stay() -> None:
    pods = [pod("worker", index, node="n1", nodeName="n1") for index in range(2)]
    pods[1]["metadata"]["annotations"] = {
        **pods[1]["metadata"].get("annotations", {}),
        "volcano.sh/preemptable": "false",
    }
    smaller = replace(gang({"worker": {"n1": 1}}), evicted_for=("team/w",))
    assert [p["metadata"]["name"] for p in pods_to_evict(smaller, pods, FLAT)] == ["train-worker-0"]


def test_pods_that_are_on_their_way_out_are_not_replaced_as_victims() -> None:
    ending = pod("worker", 1, node="n1", nodeName="n1")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    smaller = PlannedGang(JOB, "keep", {"worker": {"n1": 1}}, evicted_for=("default/urgent",))
    assert pods_to_evict(smaller, [pod("worker", 0, node="n1", nodeName="n1"), ending], FLAT) == ()


def test_kubeflow_writes_roles_in_small_letters() -> None:
    worker = pod("worker", 0)
    worker["metadata"]["labels"] = {
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
    }
    assert len(gate_lifts(gang({"Worker": {"n1": 1}}), [worker], FLAT)) == 1


def test_a_pod_of_an_earlier_job_of_the_same_name_is_not_its_pod() -> None:
    job = {
        "apiVersion": JOB.api_version,
        "kind": "Job",
        "metadata": {"namespace": "default", "name": "train", "uid": "new"},
    }
    mine, former = pod("worker", 0), pod("worker", 1)
    for thing, uid in ((mine, "new"), (former, "old")):
        thing["metadata"]["ownerReferences"] = [
            {"apiVersion": JOB.api_version, "kind": "Job", "name": "train", "uid": uid, "controller": True}
        ]
    found, gone = pods_by_job([mine, former], {JOB.key: job})
    assert found == {JOB.key: [mine]}
    assert gone == {JOB.key}


def test_pods_without_a_controller_are_their_pod_group_s_or_their_own() -> None:
    group = Ref("scheduling.volcano.sh/v1beta1", "PodGroup", "default", "g").key
    lone, member, other = pod("worker", 0), pod("worker", 1), pod("worker", 2)
    lone["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "podgroup-of-volcano"}
    member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    other["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]
    keys = [Ref("v1", "Pod", "default", each["metadata"]["name"]).key for each in (lone, other)]
    found, _ = pods_by_job([lone, member, other], dict.fromkeys((group, *keys), lone))
    assert found == {group: [member], keys[0]: [lone], keys[1]: []}


def closed(*taints: dict[str, str], ready: str = "True", cordoned: bool = False) -> NodeIndex:
    """FLAT with n2 in trouble."""
    made = []
    for name in FLAT.leaf_of:
        spec = {"taints": list(taints), "unschedulable": cordoned} if name == "n2" else {}
        conditions = [{"type": "Ready", "status": ready if name == "n2" else "True"}]
        meta = {"name": name, "labels": {HOSTNAME_LABEL: f"host-{name}"}}
        made.append({"metadata": meta, "spec": spec, "status": {"conditions": conditions}})
    return NodeIndex.from_nodes(made, FLAT.leaf_of)


TAINT = {"key": "broken", "value": "yes", "effect": "NoExecute"}


@pytest.mark.parametrize("trouble", [closed(ready="Unknown"), closed(TAINT), closed(cordoned=True)])
def test_a_pod_is_never_given_a_node_that_does_not_take_it(trouble: NodeIndex) -> None:
    """S8: a pod of a running gang comes back; the plan in force, made after the node was lost, keeps it there."""
    plan = gang({"worker": {"n1": 1, "n2": 1}})
    running, returned = pod("worker", 0, node="n1", nodeName="n1"), pod("worker", 1)
    assert given_nodes(gate_lifts(plan, [running, returned], FLAT)) == {"train-worker-1": "n2"}
    assert gate_lifts(plan, [running, returned], trouble) == ()
    assert gate_lifts(plan, [pod("worker", 0), pod("worker", 1)], trouble) == (), "a gang begins whole or not at all"


def test_a_taint_that_the_pod_tolerates_keeps_it_from_nothing_and_readiness_is_never_tolerated() -> None:
    plan = gang({"worker": {"n2": 1}})
    for tolerations in ([{"operator": "Exists"}], [{"key": "broken", "value": "yes", "effect": "NoExecute"}]):
        tolerant = pod("worker", 0, tolerations=tolerations)
        assert len(gate_lifts(plan, [tolerant], closed(TAINT))) == 1
        assert gate_lifts(plan, [tolerant], closed(TAINT, ready="False")) == ()


@given(seed=st.integers(0, 10_000), replicas=st.integers(1, 12), surplus=st.integers(0, 3))
def test_wherever_a_crash_falls_the_gang_ends_as_planned(seed: int, replicas: int, surplus: int) -> None:
    """Lift some gates, crash, and begin again until nothing is left: the counts are the plan's, and no pod was given
    two nodes."""
    chance = random.Random(seed)  # noqa: S311 (the seed is the example)
    leaves = {f"n{at}": "ab"[at % 2] for at in range(4)}
    plan = {"worker": dict(Counter(chance.choice(sorted(leaves)) for _ in range(replicas)))}
    pods = [pod("worker", at) for at in range(replicas + surplus)]
    for _ in range(100):
        found = gate_lifts(gang(plan), pods, nodes(leaves))
        if not found:
            break
        for lift in found[: chance.randint(1, len(found))]:
            assert "schedulingGates" in lift.pod["spec"]
            del lift.pod["spec"]["schedulingGates"]
            lift.pod["spec"]["nodeSelector"] = {HOSTNAME_LABEL: lift.hostname}
    placed = Counter(
        each["spec"]["nodeSelector"][HOSTNAME_LABEL].removeprefix("host-")
        for each in pods
        if "nodeSelector" in each["spec"]
    )
    assert placed == plan["worker"]


def owned(
    name: str, owner: tuple[str, str, str, str] | None, created: str = "2026-01-01T00:00:05Z", **marks: str
) -> Object:
    """A pod or job in namespace default. owner: its controller's apiVersion, kind, name, uid."""
    meta: Object = {"namespace": "default", "name": name, "uid": name, "creationTimestamp": created}
    meta["annotations"] = {f"gangplan.dev/{key.replace('_', '-')}": value for key, value in marks.items()}
    if owner is not None:
        api, kind, owner_name, uid = owner
        meta["ownerReferences"] = [
            {"apiVersion": api, "kind": kind, "name": owner_name, "uid": uid, "controller": True}
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


RAY_JOB = {**owned("tune", None, pod_owners="RayCluster.ray.io"), "apiVersion": "ray.io/v1", "kind": "RayJob"}
RAY_KEY = "RayJob.ray.io/default/tune"
RAY_CLUSTER = ("ray.io/v1", "RayCluster", "tune-abcde", "u1")


@pytest.mark.parametrize(
    ("owner", "created", "mark", "is_its"),
    [
        (RAY_CLUSTER, "2026-01-01T00:00:09Z", "RayJob.ray.io/tune", True),
        (RAY_CLUSTER, "2026-01-01T00:00:04Z", "RayJob.ray.io/tune", False),
        (RAY_CLUSTER, "2026-01-01T00:00:09Z", "RayJob.ray.io/other", False),
        (("apps/v1", "ReplicaSet", "copycat", "u2"), "2026-01-01T00:00:09Z", "RayJob.ray.io/tune", False),
        (None, "2026-01-01T00:00:09Z", "RayJob.ray.io/tune", False),
    ],
    ids=["its own", "of an earlier run", "of another job", "a copy of its template", "a bare copy"],
)
def test_a_mark_counts_only_below_an_owner_that_the_job_has(
    owner: tuple[str, str, str, str] | None, created: str, mark: str, is_its: bool
) -> None:
    found, _ = pods_by_job([owned("p", owner, created, job=mark)], {RAY_KEY: RAY_JOB})
    assert bool(found[RAY_KEY]) == is_its


def test_owners_that_are_watched_are_followed_by_their_uids() -> None:
    """JobSet -> Job -> Pod: the mark of a pod whose Job is another's proves nothing."""
    job_set = {**owned("set", None, pod_owners="Job.batch"), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    child = {
        **owned("set-w-0", ("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "set")),
        "apiVersion": "batch/v1",
        "kind": "Job",
    }
    alien = {**owned("alien", None), "apiVersion": "batch/v1", "kind": "Job"}
    jobs = {ref_of(each).key: each for each in (job_set, child, alien)}
    mine = owned("p", ("batch/v1", "Job", "set-w-0", "set-w-0"))
    stranger = owned("q", ("batch/v1", "Job", "alien", "alien"), job="JobSet.jobset.x-k8s.io/set")
    found, former = pods_by_job([mine, stranger], jobs)
    assert found == {ref_of(job_set).key: [mine], ref_of(child).key: [mine], ref_of(alien).key: [stranger]}
    assert former == set()


def test_jobs_that_come_and_go_one_by_one_are_remembered_as_they_are_seen_afresh() -> None:
    between = "Job.batch,JobSet.jobset.x-k8s.io"
    train = {**owned("x", None, pod_owners=between), "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    job_set = {**owned("x", None), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    child = {
        **owned("x-node-0", ("jobset.x-k8s.io/v1alpha2", "JobSet", "x", "x")),
        "apiVersion": "batch/v1",
        "kind": "Job",
    }
    group = {**owned("g", None), "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    member = owned("member", None)
    member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    pods = [owned("p", ("batch/v1", "Job", "x-node-0", "x-node-0"), job="TrainJob.trainer.kubeflow.org/x"), member]
    for order in permutations((train, job_set, child, group)):
        memory = OwnershipMemory()
        steps = [order[:count] for count in (0, 1, 2, 3, 4, 3, 1)]
        for jobs in ({ref_of(each).key: each for each in step} for step in steps):
            assert memory.pods_by_job(pods, jobs) == pods_by_job(pods, jobs)


def test_a_new_job_leaves_what_is_known_of_pods_that_were_not_looked_for_there() -> None:
    first, second = ({**owned(name, None), "apiVersion": "batch/v1", "kind": "Job"} for name in ("a", "b"))
    pods = [owned("p", ("batch/v1", "Job", "a", "a")), owned("q", ("batch/v1", "Job", "b", "b"))]
    memory = OwnershipMemory()
    memory.pods_by_job(pods, {ref_of(first).key: first})
    known = dict(memory.known)
    memory.pods_by_job(pods, {ref_of(each).key: each for each in (first, second)})
    assert [memory.known[uid_of(pod)] is known[uid_of(pod)] for pod in pods] == [True, False]


def test_of_a_pod_whose_status_changes_the_owners_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event brings another object, and most tell of nothing but the status."""
    job = {**owned("a", None), "apiVersion": "batch/v1", "kind": "Job"}
    pod, jobs = owned("p", ("batch/v1", "Job", "a", "a")), {ref_of(job).key: job}
    memory, looked_up = OwnershipMemory(), list[Any]()

    def look_up(pod: Object, jobs: Mapping[str, Object]) -> Any:
        looked_up.append(pod)
        return _owners_of_pod(pod, jobs)

    monkeypatch.setattr(owners, "_owners_of_pod", look_up)
    ready = {**pod, "metadata": {**pod["metadata"], "resourceVersion": "9"}, "status": {"phase": "Running"}}
    renewed_job = {**job, "status": {"active": 1}}
    freed = {**ready, "metadata": {**ready["metadata"], "ownerReferences": []}}
    steps = [(pod, job), (ready, job), (ready, renewed_job), (freed, renewed_job)]
    found = [memory.pods_by_job([pod], {ref_of(job).key: job})[0][ref_of(job).key] for pod, job in steps]
    assert found == [[pod], [ready], [ready], []]
    assert looked_up == [pod, freed]
    assert memory.pods_by_job([pod], jobs) == pods_by_job([pod], jobs)


def test_owners_of_which_only_the_nearer_are_watched_are_followed_to_the_first_that_is_not() -> None:
    """TrainJob -> JobSet -> Job -> Pod: Jobs are watched, JobSets are not."""
    between = "Job.batch,JobSet.jobset.x-k8s.io"
    train = {**owned("x", None, pod_owners=between), "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    in_set = owned("x-node-0", ("jobset.x-k8s.io/v1alpha2", "JobSet", "x", "s1"))
    alone = owned("alone", None)
    children = [{**each, "apiVersion": "batch/v1", "kind": "Job"} for each in (in_set, alone)]
    jobs = {ref_of(each).key: each for each in (train, *children)}
    mark = "TrainJob.trainer.kubeflow.org/x"
    mine = owned("p", ("batch/v1", "Job", "x-node-0", "x-node-0"), job=mark)
    stranger = owned("q", ("batch/v1", "Job", "alone", "alone"), job=mark)
    found, _ = pods_by_job([mine, stranger], jobs)
    assert found[ref_of(train).key] == [mine]
