"""Changes of live objects, one field at a time: what the reconciler makes of each, and if the API server takes it."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from reconciler.changes.diff import Change, classify_change
from tests.controlplane import ApiError, ControlPlane
from tests.differential.admission.defaults import MANAGER, emitted
from tests.differential.admission.objects import RESOURCES, Object

Path = tuple[str | int, ...]
_POD: Object = {
    "schedulerName": "volcano",
    "schedulingGates": [{"name": "gangplan.dev/gate"}],
    "containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}],
}
_TEMPLATE: Object = {"metadata": {"labels": {"app": "a"}}, "spec": {**_POD, "restartPolicy": "Never"}}
_SERVICE: Object = {"metadata": {"labels": {"app": "a"}}, "spec": _POD}
_SELECTOR: Object = {"matchLabels": {"app": "a"}}
_VOLUME: Object = {
    "mountPath": "/a",
    "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
OBJECTS: Mapping[str, tuple[str, Object]] = {
    "Job.batch.volcano.sh": (
        "batch.volcano.sh/v1alpha1",
        {"spec": {"plugins": {"pytorch": []}, "volumes": [_VOLUME], "tasks": [{"replicas": 2, "template": _TEMPLATE}]}},
    ),
    "Job.batch": ("batch/v1", {"spec": {"parallelism": 2, "completions": 2, "template": _TEMPLATE}}),
    "Queue.scheduling.volcano.sh": ("scheduling.volcano.sh/v1beta1", {"spec": {}}),
    "PodGroup.scheduling.volcano.sh": ("scheduling.volcano.sh/v1beta1", {"spec": {"minMember": 1, "queue": "default"}}),
    "HyperNode.topology.volcano.sh": (
        "topology.volcano.sh/v1alpha1",
        {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "a"}}}]}},
    ),
    "Deployment.apps": ("apps/v1", {"spec": {"replicas": 0, "selector": _SELECTOR, "template": _SERVICE}}),
    "StatefulSet.apps": ("apps/v1", {"spec": {"replicas": 0, "selector": _SELECTOR, "template": _SERVICE}}),
    "PyTorchJob.kubeflow.org": (
        "kubeflow.org/v1",
        {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": _SERVICE}}}},
    ),
    "Pod.": ("v1", {"spec": {**_POD, "tolerations": [{"key": "a", "operator": "Exists"}]}}),
    "PriorityClass.scheduling.k8s.io": ("scheduling.k8s.io/v1", {"value": 10}),
}
_IMAGE: Path = ("containers", 0, "image")
_WORKER: Path = ("spec", "pytorchReplicaSpecs", "Worker")
_EVERYWHERE: tuple[tuple[Path, Any], ...] = (
    (("metadata", "labels", "a"), "b"),
    (("metadata", "annotations", "a"), "b"),
)
CHANGES: Mapping[str, tuple[tuple[Path, Any], ...]] = {
    "Job.batch.volcano.sh": (
        (("spec", "minAvailable"), 1),
        (("spec", "priorityClassName"), "system-node-critical"),
        (("spec", "tasks", 0, "replicas"), 3),
        (("spec", "tasks", 0, "minAvailable"), 1),
        (("spec", "queue"), "other"),
        (("spec", "maxRetry"), 5),
        (("spec", "ttlSecondsAfterFinished"), 5),
        (("spec", "policies"), [{"event": "PodFailed", "action": "RestartJob"}]),
        (("spec", "networkTopology"), {"mode": "soft"}),
        (("spec", "tasks", 0, "name"), "other"),
        (("spec", "tasks", 0, "maxRetry"), 5),
        (("spec", "tasks", 0, "template", "spec", *_IMAGE), "b"),
    ),
    "Job.batch": (
        (("spec", "parallelism"), 3),
        (("spec", "completions"), 3),
        (("spec", "backoffLimit"), 2),
        (("spec", "suspend"), True),
        (("spec", "activeDeadlineSeconds"), 50),
        (("spec", "ttlSecondsAfterFinished"), 5),
        (("spec", "podReplacementPolicy"), "Failed"),
        (("spec", "completionMode"), "Indexed"),
        (("spec", "backoffLimitPerIndex"), 1),
        (("spec", "template", "spec", *_IMAGE), "b"),
        (("spec", "template", "spec", "priorityClassName"), "system-node-critical"),
    ),
    "Queue.scheduling.volcano.sh": (
        (("spec", "weight"), 2),
        (("spec", "weight"), 0),
        (("spec", "reclaimable"), False),
        (("spec", "capability"), {"cpu": 4}),
        (("spec", "parent"), "default"),
    ),
    "PodGroup.scheduling.volcano.sh": ((("spec", "minMember"), 2), (("spec", "queue"), "other")),
    "HyperNode.topology.volcano.sh": ((("spec", "tier"), 2), (("spec", "tierName"), "a")),
    "Deployment.apps": (
        (("spec", "replicas"), 1),
        (("spec", "template", "spec", *_IMAGE), "b"),
        (("spec", "selector", "matchLabels", "b"), "b"),
    ),
    "StatefulSet.apps": (
        (("spec", "replicas"), 1),
        (("spec", "template", "spec", *_IMAGE), "b"),
        (("spec", "serviceName"), "b"),
        (("spec", "podManagementPolicy"), "Parallel"),
    ),
    "PyTorchJob.kubeflow.org": (
        ((*_WORKER, "replicas"), 2),
        (("spec", "runPolicy"), {"suspend": True}),
        (("spec", "nprocPerNode"), "4"),
        ((*_WORKER, "template", "spec", *_IMAGE), "b"),
    ),
    "Pod.": (
        (("spec", *_IMAGE), "b"),
        (("spec", "nodeSelector"), {"a": "b"}),
        (("spec", "tolerations", 0, "key"), "b"),
        (("spec", "containers", 0, "command"), ["b"]),
    ),
    "PriorityClass.scheduling.k8s.io": ((("value",), 11), (("description",), "a"), (("preemptionPolicy",), "Never")),
}
LEFT_TO_THE_SERVER = frozenset(
    {
        "Deployment.apps spec.selector.matchLabels.b",
        "StatefulSet.apps spec.serviceName",
        "StatefulSet.apps spec.podManagementPolicy",
        "Pod. spec.tolerations.0.key",
        "Pod. spec.containers.0.command",
        "PriorityClass.scheduling.k8s.io value",
        "PriorityClass.scheduling.k8s.io preemptionPolicy",
    }
)
"""Asked for as updates, and refused: the dry run says so before a commit is written."""
NEW_RUNS_ALL_THE_SAME = frozenset(
    {
        "PyTorchJob.kubeflow.org spec.nprocPerNode",
        "PyTorchJob.kubeflow.org " + ".".join(map(str, (*_WORKER, "template", "spec", *_IMAGE))),
    }
)
"""Which the server would take, and no pod would follow."""


class Update(NamedTuple):
    """A change, what the reconciler makes of it, and what the server says to that; empty if it takes it."""

    name: str
    change: Change | None
    refusal: str


def updates(plane: ControlPlane) -> list[Update]:
    """Every change, each of the object as it was made."""
    made = {kind: _made(plane, kind) for kind in OBJECTS}
    time.sleep(0.5)  # controllers write into their objects once
    found = []
    for kind, written in made.items():
        live = plane.api("GET", _url(kind))
        for path, value in ((("metadata", "name"), written["metadata"]["name"]), *_EVERYWHERE, *CHANGES[kind]):
            name = f"{kind} {'.'.join(map(str, path))}"
            found.append(_update(plane, name, kind, _with_value(written, path, value), live))
    for kind in OBJECTS:
        plane.api("DELETE", f"{_url(kind)}?propagationPolicy=Background")
    pods = RESOURCES["Pod."].url()
    plane.wait_until(lambda: not plane.api("GET", pods)["items"], what="the pods to go")
    return found


def _made(plane: ControlPlane, kind: str) -> Object:
    api_version, body = OBJECTS[kind]
    metadata: Object = {"name": _name(kind), **({"namespace": "default"} if RESOURCES[kind].namespaced else {})}
    written = {"apiVersion": api_version, "kind": kind.partition(".")[0], "metadata": metadata, **body}
    _apply(plane, kind, emitted(kind, written).object, "")
    return written


def _url(kind: str) -> str:
    return f"{RESOURCES[kind].url()}/{_name(kind)}"


def _name(kind: str) -> str:
    return f"it-{kind.partition('.')[0].lower()}{kind.count('.')}"


def _apply(plane: ControlPlane, kind: str, thing: Object, more: str) -> None:
    url = f"{_url(kind)}?fieldManager={MANAGER}&force=true{more}"
    plane.api("PATCH", url, json.dumps(thing), "application/apply-patch+yaml")


def _update(plane: ControlPlane, name: str, kind: str, wanted: Object, live: Object) -> Update:
    desired = emitted(kind, wanted)
    change = classify_change(desired, live, finished_digest=None, has_started=True, is_update_refused=False)
    sent = change.desired if change is not None and change.action in ("in-place", "update") else desired
    assert sent is not None
    try:
        _apply(plane, kind, sent.object, "&dryRun=All")
    except ApiError as error:
        return Update(name, change, str(error))
    return Update(name, change, "")


def _with_value(made: Object, path: Path, value: Any) -> Object:
    found = copy.deepcopy(made)
    at: Any = found
    for step in path[:-1]:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    at[path[-1]] = value
    return found
