"""Plan after plan of one cluster: what has begun is finished where it began, and only what is concerned moves."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import pytest

from compiler.kubernetes import DIGEST_ANNOTATION, HOSTNAME_LABEL, SCHEDULING_GATE
from reconciler.planning.compile.inputs import CompileRequest
from reconciler.planning.compile.process import compile_request
from reconciler.planning.snapshot import Snapshot

VOLCANO, GPU, COUNT = "batch.volcano.sh/v1alpha1", "nvidia.com/gpu", 12
CONTAINER = {
    "name": "c",
    "image": "train",
    "resources": {"requests": {"cpu": "4", GPU: "1"}, "limits": {GPU: "1"}},
}
POD_SPEC: Mapping[str, Any] = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [CONTAINER]}
ALLOCATABLE = {"cpu": "96", "pods": "110", "memory": "1Ti", GPU: "8"}


def node(name: str, *, ready: bool = True) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {HOSTNAME_LABEL: name}},
        "status": {"allocatable": ALLOCATABLE, "conditions": conditions},
    }


def job(name: str) -> dict[str, Any]:
    task = {"name": "w", "replicas": 8, "template": {"spec": POD_SPEC}}
    spec = {"minAvailable": 8, "schedulerName": "volcano", "queue": "team", "tasks": [task]}
    return {"apiVersion": VOLCANO, "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pods(name: str, node_name: str, given: int) -> Iterable[dict[str, Any]]:
    """The eight pods of the job; the first of them have got the node."""
    owner = {"apiVersion": VOLCANO, "kind": "Job", "name": name, "uid": f"job-{name}", "controller": True}
    for k in range(8):
        has_node = {"nodeSelector": {HOSTNAME_LABEL: node_name}}
        is_gated = {"schedulingGates": [{"name": SCHEDULING_GATE}]}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-w-{k}",
                "namespace": "default",
                "uid": f"{name}-{k}",
                "ownerReferences": [owner],
                "labels": {"volcano.sh/task-spec": "w"},
                "annotations": {"volcano.sh/task-spec": "w"},
            },
            "spec": {**POD_SPEC, **(has_node if k < given else is_gated)},
            "status": {"phase": "Pending"},
        }


CLUSTER = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: test}\nspec: {binding: gated}\n"
QUEUES = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: team}\nspec: {weight: 1}\n"
NAMES = [f"{i:02}" for i in range(COUNT)]
FILES = {
    "cluster-specs/test/cluster.yaml": CLUSTER.encode(),
    "cluster-specs/test/queues.yaml": QUEUES.encode(),
    "cluster-specs/test/nodes.yaml": "---\n".join(f"{json.dumps(node(f'n{i}'))}\n" for i in NAMES).encode(),
    **{f"jobs/g{i}.yaml": json.dumps(job(f"g{i}")).encode() for i in NAMES},
}


def compiled(state: list[dict[str, Any]], in_force: Snapshot | None = None) -> Snapshot:
    gangs = in_force.gangs.values() if in_force else ()
    request = CompileRequest(
        "c0ffee",
        "test",
        FILES,
        {},
        state=state,
        executor="local",
        clock=1000,
        former_places=[((gang.job.namespace, gang.job.name, gang.job.kind), gang.pods) for gang in gangs],
    )
    made = compile_request(request)
    assert made.ok, made.diagnostics
    assert compile_request(request).as_json() == made.as_json()
    return made


@cache
def first_plan() -> Snapshot:
    """Each gang on the node of its number."""
    return compiled([node(f"n{i}") for i in NAMES])


def live_jobs() -> Iterable[dict[str, Any]]:
    for manifest in first_plan().manifests:
        if manifest.run_digest:
            made = copy.deepcopy(dict(manifest.object))
            about = {"uid": f"job-{made['metadata']['name']}", "creationTimestamp": "1970-01-01T00:10:00Z"}
            noted = {**made["metadata"].get("annotations", {}), DIGEST_ANNOTATION: manifest.run_digest}
            yield {**made, "metadata": {**made["metadata"], **about, "annotations": noted}}


def seen(given: Mapping[str, int], lost: Iterable[str] = (), gated: Iterable[str] = ()) -> list[dict[str, Any]]:
    """given: number of a gang -> its pods that have got their node. lost: nodes that are not ready. gated: gangs that
    have pods, and none with a node."""
    nodes = [node(f"n{i}", ready=i not in lost) for i in NAMES]
    there = {**dict.fromkeys(gated, 0), **given}
    return [*nodes, *live_jobs(), *(pod for i, number in there.items() for pod in pods(f"g{i}", f"n{i}", number))]


def places(plan: Snapshot) -> dict[str, dict[str, int]]:
    """Gang -> node -> pods."""
    return {gang.job.name: {node: n for (_, node), n in gang.pods_by_place().items()} for gang in plan.gangs.values()}


def moved(before: Snapshot, after: Snapshot) -> dict[str, dict[str, int]]:
    old = places(before)
    return {name: at for name, at in places(after).items() if at != old[name]}


BEGUN = dict.fromkeys(NAMES[:5], 8)
SCATTERED = dict.fromkeys(("00", "03", "05", "09"), 8)


@pytest.mark.parametrize(
    "state",
    [
        seen(BEGUN),
        seen(BEGUN, lost=["03"]),
        seen(SCATTERED),
        seen(SCATTERED, lost=["03"]),
        seen({**BEGUN, "06": 3}),
        seen({**BEGUN, "06": 3}, lost=["03"]),
        seen({**BEGUN, "06": 3, "08": 1, "11": 7}),
        seen(BEGUN, gated=["07", "08", "10"]),
    ],
    ids=[
        "five begun",
        "a node with running pods is lost",
        "begun out of order",
        "out of order, a node is lost",
        "half given",
        "half given, a node is lost",
        "three half given",
        "gated pods",
    ],
)
def test_nobody_moves(state: list[dict[str, Any]]) -> None:
    assert moved(first_plan(), compiled(state, first_plan())) == {}


def test_a_gang_whose_node_is_lost_takes_that_of_the_last_which_waits() -> None:
    plan = compiled(seen(BEGUN, lost=["07"]), first_plan())
    assert moved(first_plan(), plan) == {"g07": {"n11": 8}, "g11": {}}


def test_a_node_that_comes_back_moves_nobody() -> None:
    lost = compiled(seen(BEGUN, lost=["07"]), first_plan())
    back = compiled(seen(BEGUN), lost)
    assert moved(lost, back) == {"g11": {"n07": 8}}


def test_a_half_given_gang_whose_node_is_lost_is_finished_first_and_moves_alone() -> None:
    """Nothing is free for its missing pods but what the last gang was to get."""
    plan = compiled(seen({**BEGUN, "06": 3}, lost=["06"]), first_plan())
    assert moved(first_plan(), plan) == {"g06": {"n06": 3, "n11": 5}, "g11": {}}


def test_a_younger_gang_that_has_begun_is_finished_before_older_ones() -> None:
    """Its five missing pods and four of the six others have room on five nodes."""
    plan = compiled(seen({**BEGUN, "11": 3}, lost=["06", "11"]), first_plan())
    after = places(plan)
    assert after["g11"].keys() == {"n11", "n10"}
    assert (after["g06"], after["g09"], after["g10"]) == ({"n09": 8}, {}, {})
    assert moved(first_plan(), plan).keys() == {"g06", "g09", "g10", "g11"}
