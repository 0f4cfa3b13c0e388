"""Objects of a cluster as far as they can be read: a damaged one blocks only itself.

Readers of an object rely on the types of its fields, and must not fail because of a single one. An API server ensures
the types of built-in kinds. Those of custom resources follow from a definition that may have changed since an object
was stored, and texts and amounts may be anything. So each object is checked once, when it is read. A field of another
type than its kind's is removed. Facts that depend on it take the safe value: a node gets nothing new, a pod's node gets
nothing new, a budget allows no eviction. An object that passes and on which code fails nevertheless is held out
(`held_out`): only its identity is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any, NamedTuple

from compiler import kubernetes as k8s
from compiler.cluster_state.cluster_state import StateError
from compiler.cluster_state.disruption_budgets import read_budgets
from compiler.cluster_state.nodes import drafts_of_hypernode, numa_topology_spec, observed_node, state_document
from compiler.cluster_state.pods import RequestCache
from compiler.fields.quantity import read_quantity
from compiler.run_kinds import RUN_KINDS, run_kind_of

Path = tuple[str | int, ...]
"""Path of a field within an object."""


class Fault(NamedTuple):
    """An unreadable part of an object. path: of the field; empty where it is not one field. problem: the cause.
    holds_out: whether the object is held out for it."""

    path: Path
    problem: str
    holds_out: bool = False

    @property
    def hides_amounts(self) -> bool:
        """Return whether a pod may ask for more than what can be read of it."""
        return self.path[:1] not in (("metadata",), ("status",))

    def __str__(self) -> str:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).removeprefix(".")
        return f"{path} {self.problem}".strip()


class _Whole(dict[str, Any]):
    """The shape of a row that is nothing without each of its fields."""


_MISSING: Any = object()
_TEXTS: Any = {"*": str}
_OWNER = _Whole(apiVersion=str, kind=str, name=str, uid=str)
_METADATA_SHAPE: Any = {
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "ownerReferences": [_OWNER],
    "finalizers": [str],
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "managedFields": [{"manager": str, "operation": str, "subresource": str, "time": str, "fieldsV1": dict}],
}
_TERMINATION: Any = {"terminated": {"finishedAt": str}}
_CONTAINERS: Any = [{"name": str, "image": str, "resources": {"requests": dict, "limits": dict}, "restartPolicy": str}]
_CONDITIONS: Any = [{"type": str, "status": str, "reason": str, "message": str, "lastTransitionTime": str}]
_AMOUNTS: Any = {"capability": dict, "deserved": dict, "guarantee": {"resource": dict}}
_JOB_SHAPE: Any = {"spec": dict, "status": {"state": {"phase": str}, "conditions": _CONDITIONS}}
_SHAPES: Mapping[str, Any] = {
    "Node.": {
        "spec": {"taints": [_Whole(key=str, effect=str)]},
        "status": {"allocatable": dict, "capacity": dict, "conditions": _CONDITIONS},
    },
    "Pod.": {
        "spec": {
            "containers": _CONTAINERS,
            "initContainers": _CONTAINERS,
            "overhead": dict,
            "resources": {"requests": dict, "limits": dict},
            "nodeName": str,
            "nodeSelector": _TEXTS,
            "schedulingGates": [_Whole(name=str)],
            "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
            "affinity": {"podAntiAffinity": dict},
        },
        "status": {
            "phase": str,
            "startTime": str,
            "reason": str,
            "conditions": _CONDITIONS,
            "containerStatuses": [{"lastState": _TERMINATION, "state": _TERMINATION}],
        },
    },
    "PodGroup.scheduling.volcano.sh": {"spec": {"queue": str}, "status": {"phase": str, "conditions": _CONDITIONS}},
    "Queue.scheduling.volcano.sh": {
        "spec": {**_AMOUNTS, "parent": str, "allowedNamespaces": [str]},
        "status": {"state": str, "allocated": dict, "reservation": dict},
    },
    "NamespaceQueue.scheduling.volcano.sh": {
        "spec": {**_AMOUNTS, "parent": str},
        "status": {"state": str, "conditions": _CONDITIONS},
    },
    "HyperNode.topology.volcano.sh": {"spec": dict},
    "Numatopology.nodeinfo.volcano.sh": {"spec": dict},
    "PodDisruptionBudget.policy": {"spec": {"selector": dict}, "status": {"disruptionsAllowed": int}},
    "Job.batch.volcano.sh": _JOB_SHAPE,
}
"""Kind.group -> the fields that are read, each with its type. Any may be missing. Of a kind that only passes through,
only the metadata is read."""
_TYPE_NAMES: Mapping[type, str] = {dict: "a mapping", list: "a list", str: "text", int: "a whole number"}


class SoundObjects:
    """Looks at objects, and remembers what pods ask for, of which many are alike."""

    def __init__(self) -> None:
        self._requests = RequestCache()
        self._readers: Mapping[str, Callable[[k8s.Object], object]] = {
            "Node.": observed_node,
            "Pod.": self._read_pod,
            "HyperNode.topology.volcano.sh": lambda item: drafts_of_hypernode(state_document(item)),
            "Numatopology.nodeinfo.volcano.sh": numa_topology_spec,
            "PodDisruptionBudget.policy": lambda budget: read_budgets([budget]),
        }

    def look_at(self, item: k8s.Object) -> tuple[k8s.Object, tuple[Fault, ...]]:
        """Return the object, or a copy without what cannot be read of it, and what that is."""
        faults: list[Fault] = []
        sound, kind = _sound_part(item, {"metadata": _METADATA_SHAPE}, faults), run_kind_of(item)
        shape = _SHAPES.get(kind) or (_JOB_SHAPE if kind in RUN_KINDS or k8s.is_planned_job(sound) else {})
        sound = _sound_part(sound, shape, faults)
        is_readable = self._reads(kind, sound, faults)
        if faults and kind == "Pod.":
            sound = sound if is_readable else _pod_without_amounts(sound)
        elif faults and kind in _SUBSTITUTES:
            sound = _SUBSTITUTES[kind](sound)
        return sound, tuple(faults)

    def _reads(self, kind: str, item: k8s.Object, faults: list[Fault]) -> bool:
        """Return whether what plans read of the object can be read; notes why not."""
        if kind in self._readers:
            try:
                self._readers[kind](item)
            except Exception as error:  # any: no reader of all objects may meet it
                text = str(error) if isinstance(error, StateError) else f"{type(error).__name__}: {error}"
                faults.append(Fault((), text[:200]))
                return False
        return True

    def _read_pod(self, pod: k8s.Object) -> None:
        if (pod.get("spec") or {}).get("containers"):
            self._requests.requests_of(pod)


def _sound_part(item: k8s.Object, shape: Mapping[str, Any], faults: list[Fault]) -> k8s.Object:
    """Return the item itself where it has this shape, which is nearly always so; else a copy without what has not."""
    found: k8s.Object = item if _is_sound(item, shape) else _sound_value(item, shape, (), faults)
    return found


def _is_sound(value: Any, shape: Any) -> bool:
    """Return whether `_sound_value` finds no fault. Asked of each object that a watch shows, so it is quick."""
    if isinstance(shape, type):
        return isinstance(value, shape) and not (shape is int and isinstance(value, bool))
    if isinstance(shape, list):
        return isinstance(value, list) and all(_is_sound(each, shape[0]) for each in value)
    if not isinstance(value, dict) or (isinstance(shape, _Whole) and not all(map(value.get, shape))):
        return False
    if shape is _TEXTS:
        return {*map(type, value.values())} <= {str}
    for key, below in shape.items():
        each = value.get(key)
        if each is None or type(each) is below:
            continue
        if not _is_sound(each, below):
            return False
    return True


def _sound_value(value: Any, shape: Any, path: Path, faults: list[Fault]) -> Any:
    """Return the value itself if it has this shape; else a copy without the invalid parts; _MISSING if nothing
    remains."""
    if value is None:
        return value
    wanted: Any = shape if isinstance(shape, type) else dict if isinstance(shape, dict) else list
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        faults.append(Fault(path, f"is not {_TYPE_NAMES[wanted]}"))
        return _MISSING
    if isinstance(shape, list):
        found = [_sound_row(each, shape[0], (*path, at), faults) for at, each in enumerate(value)]
        is_sound = all(map(is_, found, value))
        return value if is_sound else [each for each in found if each is not _MISSING]
    if isinstance(shape, dict):
        return _sound_fields(value, shape, path, faults)
    return value


def _sound_row(value: Any, shape: Any, path: Path, faults: list[Fault]) -> Any:
    """As `_sound_value`, for a row of a list, which is never null, and is removed if it is incomplete."""
    if value is None:
        faults.append(Fault(path, "is null"))
        return _MISSING
    row = _sound_value(value, shape, path, faults)
    lacking = [name for name in shape if not row.get(name)] if isinstance(shape, _Whole) and row is not _MISSING else []
    if lacking:
        faults.append(Fault(path, f"has no {' and no '.join(lacking)}"))
        return _MISSING
    return row


def _sound_fields(value: dict[str, Any], shape: dict[str, Any], path: Path, faults: list[Fault]) -> dict[str, Any]:
    if shape is _TEXTS:
        bad = [key for key, each in value.items() if not isinstance(each, str)]
        faults += [Fault((*path, key), "is not text") for key in bad]
        return {key: each for key, each in value.items() if key not in bad} if bad else value
    changed: dict[str, Any] = {}
    for key in shape:
        if (before := value.get(key)) is not None:
            after = _sound_value(before, shape[key], (*path, key), faults)
            if after is not before:
                changed[key] = after
    if not changed:
        return value
    return {key: each for key, each in {**value, **changed}.items() if each is not _MISSING}


# --- meanings of fields, beyond their types


def _closed_node(node: k8s.Object) -> k8s.Object:
    """Return the node, which takes nothing new, with the amounts that can be read."""
    status = dict(k8s.status_of(node))
    for name in ("allocatable", "capacity"):
        if name in status:
            status[name] = {key: amount for key, amount in status[name].items() if _is_amount(amount)}
    return {**node, "spec": {**(node.get("spec") or {}), "unschedulable": True}, "status": status}


def _is_amount(value: object) -> bool:
    amount = read_quantity(value)
    return amount is not None and amount >= 0


def _pod_without_amounts(pod: k8s.Object) -> k8s.Object:
    spec = {key: each for key, each in pod["spec"].items() if key not in ("overhead", "resources", "initContainers")}
    return {**pod, "spec": {**spec, "containers": []}}


def _with_spec(spec: Mapping[str, Any], **status: Any) -> Callable[[k8s.Object], k8s.Object]:
    return lambda item: {**item, "spec": dict(spec), **({"status": status} if status else {})}


_SUBSTITUTES: Mapping[str, Callable[[k8s.Object], k8s.Object]] = {
    "Node.": _closed_node,
    "HyperNode.topology.volcano.sh": _with_spec({"tier": 1, "members": []}),
    "Numatopology.nodeinfo.volcano.sh": _with_spec({}),
    "PodDisruptionBudget.policy": _with_spec({"selector": {}}, disruptionsAllowed=0),
}
"""Kind.group -> what an object that cannot be read counts as."""


# --- objects on which code fails although they can be read

_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences"})
_OF_POD = frozenset({"nodeName", "nodeSelector", "schedulingGates"})


def held_out(item: k8s.Object, *, is_bare: bool) -> dict[str, Any]:
    """Return a sound object without what anybody may write there: where it is, and whether it is there still.

    is_bare: labels and annotations are left out too, but for the digest of its run.
    """
    kind, kept = run_kind_of(item), {key: each for key, each in item["metadata"].items() if key in _IDENTITY}
    digest = {key: text for key, text in k8s.annotations_of(item).items() if key == k8s.DIGEST_ANNOTATION}
    kept |= (
        {"annotations": digest} if is_bare else {"annotations": k8s.annotations_of(item), "labels": k8s.labels_of(item)}
    )
    if "deletionTimestamp" in item["metadata"]:
        kept["deletionTimestamp"] = item["metadata"]["deletionTimestamp"]
    made: dict[str, Any] = {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": kept,
        "spec": {},
        "status": {},
    }
    if kind == "Node.":
        ready = [
            {"type": "Ready", "status": row.get("status")} for row in k8s.conditions_of(item) if _is_ready_row(row)
        ]
        amounts = {} if is_bare else {"allocatable": k8s.status_of(item).get("allocatable") or {}}
        return dict(_closed_node({**made, "status": {"conditions": ready, **amounts}}))
    if kind == "Pod.":
        spec = {key: each for key, each in (item.get("spec") or {}).items() if key in _OF_POD}
        return {**made, "spec": {**spec, "containers": []}, "status": {"phase": k8s.status_of(item).get("phase")}}
    return dict(_SUBSTITUTES[kind](made)) if kind in _SUBSTITUTES else made


def _is_ready_row(row: Mapping[str, Any]) -> bool:
    return row.get("type") == "Ready"
