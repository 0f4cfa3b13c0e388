"""Gates: a gang at a time, never more than planned, and after a crash exactly the rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.kubernetes import HOSTNAME_LABEL, SCHEDULING_GATE, labels_of, name_of
from reconciler.changes.planned import PlannedGang
from reconciler.changes.pods import GateLift
from reconciler.cluster.objects import Object, Ref
from reconciler.observation.nodes import NodeIndex, facts_of_node
from reconciler.pods.gates import gate_lifts, lacking_pods, pods_to_evict
from tests.builders.live import VOLCANO, live_pod

JOB = Ref(VOLCANO, "Job", "default", "train")
ENDING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
GATE = {"name": SCHEDULING_GATE}


def pod(role: str, index: int, node: str = "", partition: str = "", phase: str = "Pending", **more: Any) -> Object:
    """A pod as Volcano makes it: gated, or given the node. more: of its metadata or its spec."""
    labels = {"volcano.sh/task-spec": role, "volcano.sh/task-index": str(index)}
    labels |= {"volcano.sh/partition-id": partition} if partition else {}
    place = {"nodeSelector": {HOSTNAME_LABEL: f"host-{node}"}} if node else {"schedulingGates": [GATE]}
    about = {key: more.pop(key) for key in ("annotations", "labels", "deletionTimestamp") if key in more}
    made = live_pod(f"{role}-{index}", None, "", phase, **{"labels": labels, **about})
    return {**made, "spec": {**place, **more}}


def nodes(leaves: Mapping[str, str]) -> NodeIndex:
    hosts = {node: f"host-{node}" for node in leaves}
    return NodeIndex(hosts, {host: node for node, host in hosts.items()}, leaves)


def gang(pods: Mapping[str, Mapping[str, int]], decision: str = "start", **more: Any) -> PlannedGang:
    return PlannedGang(JOB, decision, pods, **more)


FLAT = nodes({"n1": "a", "n2": "a", "n10": "b"})
ONE = gang({"worker": {"n1": 1}})
ONE_EACH = gang({"worker": {"n1": 1, "n2": 1}})


def given_nodes(plan: PlannedGang, pods: Sequence[Object], index: NodeIndex = FLAT) -> dict[str, str]:
    return {name_of(lift.pod): lift.node for lift in gate_lifts(plan, pods, index)}


def evicted(plan: PlannedGang, pods: Sequence[Object]) -> list[str]:
    return [name_of(each) for each in pods_to_evict(replace(plan, evicted_for=("default/urgent",)), pods, FLAT)]


def test_no_gate_is_lifted_before_the_whole_gang_is_there() -> None:
    plan, pods = gang({"ps": {"n1": 1}, "worker": {"n1": 1, "n2": 1}}), [pod("ps", 0), pod("worker", 0)]
    assert given_nodes(plan, pods) == given_nodes(plan, [pods[1], pod("worker", 1)]) == {}
    assert len(given_nodes(plan, [*pods, pod("worker", 1)])) == 3
    assert [lacking_pods(plan, pods), lacking_pods(plan, [pods[1], pod("worker", 1)])] == [1, 1]
    assert lacking_pods(plan, [pod("worker", at) for at in range(4)]) == 1, "no pod stands for one of another role"
    assert lacking_pods(plan, [*pods, pod("worker", 1)]) == 0


@pytest.mark.parametrize(
    ("plan", "pods", "lifted"),
    [
        (
            gang({"driver": {"n1": 1}, "executor": {"n2": 2}}, dependent_roles=frozenset({"executor"})),
            [pod("driver", 0)],
            {"driver-0": "n1"},
        ),
        (gang({"worker": {"n1": 2}}), [pod("worker", at) for at in range(5)], {"worker-0": "n1", "worker-1": "n1"}),
        (
            ONE_EACH,
            [pod("worker", 0, "n1", nodeName="n1"), pod("worker", 1, "n2", nodeName="n2", **ENDING), pod("worker", 2)],
            {"worker-2": "n2"},
        ),
        (
            gang({"Worker": {"n1": 1}, "Master": {"n2": 1}}, dependent_roles=frozenset({"Master"})),
            [pod("w", 0, labels={"training.kubeflow.org/replica-type": "worker"})],
            {"w-0": "n1"},
        ),
    ],
    ids=["a role that begins after another", "pods beyond the plan", "a place that became free", "Kubeflow's letters"],
)
def test_which_pods_are_given_which_nodes(plan: PlannedGang, pods: list[Object], lifted: dict[str, str]) -> None:
    assert given_nodes(plan, pods) == lifted


def test_a_pod_that_was_done_when_the_plan_was_made_stands_for_none_of_it() -> None:
    plan = gang({"worker": {"n1": 1, "n2": 2}}, succeeded_pods={"worker": 1})
    running = [pod("worker", 1, "n1"), pod("worker", 2, "n2")]
    done, returned = pod("worker", 0, "n10", phase="Succeeded"), pod("worker", 3)
    assert given_nodes(plan, [done, *running, returned]) == {"worker-3": "n2"}
    assert given_nodes(plan, [done, *running]) == {}, "the pod that comes back is not there yet"
    since = pod("worker", 2, "n2", phase="Succeeded")
    assert given_nodes(plan, [done, running[0], since, returned]), "another one is done since"


def test_low_numbers_go_to_the_first_domain_and_n2_stands_before_n10() -> None:
    found = gate_lifts(gang({"worker": {"n10": 2, "n2": 1, "n1": 1}}), [pod("worker", at) for at in (3, 1, 0, 2)], FLAT)
    assert [name_of(lift.pod) for lift in found] == [f"worker-{at}" for at in range(4)]
    assert [lift.node for lift in found] in (["n10", "n10", "n1", "n2"], ["n1", "n2", "n10", "n10"])


def first_fit(lifted: Sequence[GateLift], memory: Mapping[str, int], card: int) -> bool:
    """Whether Volcano's deviceshare, on one node with two empty cards, finds one for each pod in the order that it is
    told."""
    left = [card, card]
    for lift in sorted(lifted, key=lambda lift: -(lift.task_priority or 0)):
        asked = memory[labels_of(lift.pod)["volcano.sh/task-spec"]]
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
    found = gate_lifts(replace(plan, device_numbers={role: {"n1": [cell]} for role, cell in cells.items()}), pods, FLAT)
    assert first_fit(found, memory, 10)
    noted = {"op": "add", "path": "/metadata/annotations", "value": {"volcano.sh/task-priority": "1"}}
    assert noted in found[1].json_patch()


def test_a_partition_stays_with_its_siblings() -> None:
    leaves = {f"n{at}": "a" if at < 4 else "b" for at in range(8)}
    pods = [pod("worker", at, "n0" if at == 4 else "", str(at // 4)) for at in range(8)]
    homes: dict[str, set[str]] = {}
    for lift in gate_lifts(gang({"worker": dict.fromkeys(leaves, 1)}), pods, nodes(leaves)):
        homes.setdefault(labels_of(lift.pod)["volcano.sh/partition-id"], set()).add(leaves[lift.node])
    assert homes == {"1": {"a"}, "0": {"b"}}, "the first pod of partition 1 is in domain a already"


def test_the_patch_is_refused_unless_the_pod_is_as_it_was_seen() -> None:
    (lift,) = gate_lifts(ONE, [pod("worker", 0, nodeSelector={"gpu": "h100"})], FLAT)
    operations = lift.json_patch()
    tests = {operation["path"]: operation["value"] for operation in operations if operation["op"] == "test"}
    assert tests == {
        "/metadata/uid": "worker-0",
        "/spec/schedulingGates": [GATE],
        "/spec/nodeSelector": {"gpu": "h100"},
    }
    assert {"op": "add", "path": "/spec/nodeSelector/kubernetes.io~1hostname", "value": "host-n1"} in operations
    assert operations[-1] == {"op": "remove", "path": "/spec/schedulingGates"}


def test_gates_of_others_are_left() -> None:
    other = {"name": "example.com/quota"}
    (lift,) = gate_lifts(ONE, [pod("worker", 0, schedulingGates=[other, GATE])], FLAT)
    assert lift.json_patch()[-1] == {"op": "replace", "path": "/spec/schedulingGates", "value": [other]}


PROTECTED = {"annotations": {"volcano.sh/preemptable": "false"}}


@pytest.mark.parametrize(
    ("plan", "second", "gone"),
    [
        (gang({}, "evict"), {}, ["worker-0", "worker-1", "worker-2"]),
        (ONE_EACH, {}, ["worker-1"]),
        (ONE_EACH, PROTECTED, ["worker-0"]),
        (ONE_EACH, ENDING, []),
    ],
    ids=["a gang that goes", "one that shrinks", "a protected pod", "a pod on its way out is not replaced as a victim"],
)
def test_a_gang_loses_what_the_plan_takes_away(plan: PlannedGang, second: dict[str, Any], gone: list[str]) -> None:
    pods = [pod("worker", 0, "n1"), pod("worker", 1, "n1", **second), pod("worker", 2, "n2"), pod("worker", 3)]
    assert evicted(plan, pods) == gone


def closed(*taints: dict[str, str], ready: str = "True", cordoned: bool = False) -> NodeIndex:
    """FLAT with n2 in trouble."""
    made = []
    for name in FLAT.leaf_of:
        spec = {"taints": list(taints), "unschedulable": cordoned} if name == "n2" else {}
        conditions = [{"type": "Ready", "status": ready if name == "n2" else "True"}]
        meta = {"name": name, "labels": {HOSTNAME_LABEL: f"host-{name}"}}
        made.append({"metadata": meta, "spec": spec, "status": {"conditions": conditions}})
    return NodeIndex.from_facts([*map(facts_of_node, made)], FLAT.leaf_of)


TAINT = {"key": "broken", "value": "yes", "effect": "NoExecute"}


@pytest.mark.parametrize("trouble", [closed(ready="Unknown"), closed(TAINT), closed(cordoned=True)])
def test_a_pod_is_never_given_a_node_that_does_not_take_it(trouble: NodeIndex) -> None:
    """S8: a pod of a running gang comes back; the plan in force, made after the node was lost, keeps it there."""
    pods = [pod("worker", 0, "n1", nodeName="n1"), pod("worker", 1)]
    assert given_nodes(ONE_EACH, pods) == {"worker-1": "n2"}
    assert given_nodes(ONE_EACH, pods, trouble) == {}
    assert given_nodes(ONE_EACH, [pod("worker", 0), pods[1]], trouble) == {}, "a gang begins whole or not at all"


@pytest.mark.parametrize("toleration", [{"operator": "Exists"}, TAINT])
def test_a_tolerated_taint_is_no_obstacle_and_readiness_is_never_tolerated(toleration: dict[str, str]) -> None:
    plan, pods = gang({"worker": {"n2": 1}}), [pod("worker", 0, tolerations=[toleration])]
    assert len(gate_lifts(plan, pods, closed(TAINT))) == 1
    assert gate_lifts(plan, pods, closed(TAINT, ready="False")) == ()


@given(seed=st.integers(0, 10_000), replicas=st.integers(1, 12), surplus=st.integers(0, 3))
def test_wherever_a_crash_falls_the_gang_ends_as_planned(seed: int, replicas: int, surplus: int) -> None:
    """Lift some gates, crash, and begin again with exactly the rest until nothing is left: the counts are the plan's,
    and no pod was given two nodes."""
    chance = random.Random(seed)  # noqa: S311 (the seed is the example)
    index = nodes({f"n{at}": "ab"[at % 2] for at in range(4)})
    plan = {"worker": dict(Counter(chance.choice(sorted(index.leaf_of)) for _ in range(replicas)))}
    pods = [pod("worker", at) for at in range(replicas + surplus)]
    while found := gate_lifts(gang(plan), pods, index):
        for lift in found[: chance.randint(1, len(found))]:
            del lift.pod["spec"]["schedulingGates"]
            lift.pod["spec"]["nodeSelector"] = {HOSTNAME_LABEL: lift.hostname}
    assert Counter(filter(None, map(index.node_of, pods))) == plan["worker"]
