"""Situations of Volcano's own scheduler tests, planned: who starts, who loses pods, what stays as it is.

Compared with what Volcano 1.15.1 did when its tests ran: per gang the pods that it got and lost. Nodes may differ where
several are equally good. Volcano's cases of `preempt` or `reclaim` alone leave idle room unused; here it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.cluster_state.cluster_state import ClusterState
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository

Object = dict[str, Any]
FIXTURE = yaml.load(
    (Path(__file__).parents[1] / "fixtures" / "volcano_cases.yaml").read_bytes(), Loader=yaml.CSafeLoader
)
CASES: dict[str, Object] = {case["case"]: case for case in FIXTURE["cases"]}
DIFFERENT = {
    "a gang that cannot start whole": {"pg-victim": -1, "pg-preemptor": 1},
    "queue priorities where the plugin limits nothing": {"pg3": 1},
}
"""Case -> what Volcano does there; docs/reliability/volcano-differences.md says why the plan does not."""

FLAGS = (
    "enablePreemptable", "enableReclaimable", "enabledAllocatable", "enableJobOrder", "enableQueueOrder",
    "enableHierarchy", "enablePredicate", "enableNodeOrder", "enableJobEnqueued",
)  # fmt: skip
GROUP, VOLCANO = "scheduling.volcano.sh/v1beta1", "volcano.sh/"


@pytest.mark.parametrize("name", CASES)
def test_each_gang_gets_and_loses_as_many_pods(name: str) -> None:
    case = CASES[name]
    assert changes(case) == case["then"]


@pytest.mark.parametrize("name", DIFFERENT)
def test_known_differences_from_volcano_remain(name: str) -> None:
    assert CASES[name]["then"] != DIFFERENT[name]


def changes(case: Object) -> dict[str, int]:
    """Gang -> the pods that it gets or, below 0, loses."""
    gangs, pods = list(gang_objects(case)), list(pod_objects(case))
    files = {
        "cluster-specs/t/all.yaml": _text([*cluster_objects(case), *queue_objects(case)]),
        "jobs/all.yaml": _text([*gangs, *(declared(pod) for pod in pods)]),
    }
    outcome = compile_repository(
        Repository(files), state=ClusterState.from_objects([*queue_objects(case), *gangs, *pods])
    )
    errors = [found for found in outcome.diagnostics if found.severity == "error"]
    assert {found.code for found in errors} <= {"GP435"}  # Volcano's unit tests do without predicates
    found = {}
    for decision in outcome.decisions:
        new = decision.pod_count - decision.running_count if decision.grows else 0
        if change := new - decision.evicted_count:
            found[decision.gang.document.name] = change
    return found


def _text(objects: list[Object]) -> bytes:
    return "\n---\n".join(map(json.dumps, objects)).encode()


def _object(api: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


def cluster_objects(case: Object) -> Iterator[Object]:
    scheduler = FIXTURE["schedulers"][case["scheduler"]]
    spec = {"actions": scheduler["actions"], "tiers": [{"plugins": [*map(_plugin, t)]} for t in scheduler["tiers"]]}
    yield _object("gangplan.dev/v1alpha1", "Cluster", "t", spec={"binding": "gated"})
    yield _object("gangplan.dev/v1alpha1", "SchedulerConfiguration", "volcano-scheduler-configmap", spec=spec)
    for names, amounts in case["nodes"].items():
        labels = amounts.get("labels", {})
        status = {"allocatable": {"pods": 110} | {key: amounts[key] for key in amounts if key != "labels"}}
        for name in names.split():
            node = _object("v1", "Node", name, status=status)
            node["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
            yield node
    for name, (tier, members, *tier_name) in case.get("hypernodes", {}).items():
        kind = "HyperNode" if members[0] in case["hypernodes"] else "Node"
        below = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
        tiers = {"tier": tier, "members": below} | ({"tierName": tier_name[0]} if tier_name else {})
        yield _object("topology.volcano.sh/v1alpha1", "HyperNode", name, spec=tiers)
    for name, value in case.get("classes", {}).items():
        yield _object("scheduling.k8s.io/v1", "PriorityClass", name, value=value)


def _plugin(written: Object) -> Object:
    """The flags that a plan reads: off unless written, as in Volcano's tests."""
    ((name, flags),) = ((key, value) for key, value in written.items() if key != "arguments")
    arguments = {"arguments": written["arguments"]} if "arguments" in written else {}
    return {"name": name, **{flag: flag in flags for flag in FLAGS}, **arguments}


def queue_objects(case: Object) -> Iterator[Object]:
    for name, written in case["queues"].items():
        spec = {key: value for key, value in written.items() if key != "closed"}
        state = "Closed" if written.get("closed") else "Open"
        yield _object(GROUP, "Queue", name, spec=spec, status={"state": state})


def gang_objects(case: Object) -> Iterator[Object]:
    for name, spec in case["gangs"].items():
        group = _object(GROUP, "PodGroup", name, spec=spec)
        group["metadata"]["namespace"] = "ns"
        yield group


def pod_objects(case: Object) -> Iterator[Object]:
    """The pods as the cluster shows them."""
    index = 0
    for gang, number, amounts, *rest in case["pods"]:
        more = rest[0] if rest else {}
        own = {f"{VOLCANO}task-spec": more.get("role"), f"{VOLCANO}preemptable": more.get("preemptable")}
        labels = {key: str(value) for key, value in own.items() if value is not None} | more.get("labels", {})
        devices = {key: amount for key, amount in amounts.items() if "/" in key}
        resources = {"requests": amounts, "limits": devices}
        container = {"name": "main", "image": "none", "resources": resources}
        spec = {"schedulerName": "volcano", "containers": [container], **more.get("spec", {})}
        for _ in range(number):
            pod = _object("v1", "Pod", f"{gang}-{index}", spec=dict(spec), status={"phase": "Pending"})
            notes = {"scheduling.k8s.io/group-name": gang, **more.get("annotations", {})}
            pod["metadata"] |= {"namespace": "ns", "labels": labels, "annotations": notes}
            if "at" in more:
                pod["spec"]["nodeName"] = more["at"]
                pod["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
            index += 1
            yield pod


def declared(pod: Object) -> Object:
    """The pod as its owner wrote it: without what the cluster adds."""
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "priority")}
    return {key: value for key, value in pod.items() if key != "status"} | {"spec": spec}
