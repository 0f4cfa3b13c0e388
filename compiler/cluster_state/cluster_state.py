"""The state: a plain `List` of a cluster's objects, so that a decision can be made against it and replayed anywhere.

`gangplan snapshot` writes it, `plan --state FILE` reads it, and the reconciler builds one from its own caches.
`compiler.cluster_state.observed` decides the meaning of each object; here it is only sorted by kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from typing import Any

import yaml

from compiler import kubernetes as k8s
from compiler.cluster_state.pod_records import PodRecord, read_pods
from compiler.cluster_state.run_records import RUN_RECORDS
from compiler.fields.texts import dotted_path
from compiler.fields.times import epoch_seconds, parse_timestamp
from compiler.session import Session
from compiler.specs.cluster_spec import VolcanoVersion
from compiler.specs.gang_spec import JobKey
from compiler.volcano.releases import releases_of_pods

STATE_SOURCE = "state"
"""In place of a file for what only the cluster knows; files of a repository have an ending."""

_FIELD_OF_KIND: Mapping[str, str] = {
    "Node.": "nodes",
    "Pod.": "pods",
    "PodGroup.scheduling.volcano.sh": "pod_groups",
    "Queue.scheduling.volcano.sh": "queues",
    "NamespaceQueue.scheduling.volcano.sh": "namespace_queues",
    "HyperNode.topology.volcano.sh": "hypernodes",
    "ResourceQuota.": "resource_quotas",
    "Numatopology.nodeinfo.volcano.sh": "numatopologies",
    "PodDisruptionBudget.policy": "disruption_budgets",
    "ConfigMap.": "config_maps",
    f"{RUN_RECORDS}.{k8s.API_GROUP}": "run_records",
}
"""Kind.group -> the field for the object; everything else is a job."""


class StateError(ValueError):
    """The text is not a state; the message has the fault, in one sentence."""


@dataclass(frozen=True)
class ClusterState:
    """The objects of a cluster, as the API server returns them, each tuple sorted by (namespace, name, kind). They do
    not change.

    jobs: objects of all other kinds. finished: (namespace, name, kind) of jobs that are known to have finished although
    they are no longer in the cluster (deleted after their time to live). clock: seconds since the epoch when the
    cluster was read, from which a plan counts (`timed_events`). held: job -> why nothing of it may start now.
    closed_nodes: job -> names of nodes that get no pod of it. former_places: job -> role -> node name -> pods,
    including running ones, by the plan in force. session: of the command or process that plans.
    """

    nodes: tuple[k8s.Object, ...] = ()
    pods: tuple[k8s.Object, ...] = ()
    pod_groups: tuple[k8s.Object, ...] = ()
    jobs: tuple[k8s.Object, ...] = ()
    queues: tuple[k8s.Object, ...] = ()
    namespace_queues: tuple[k8s.Object, ...] = ()
    hypernodes: tuple[k8s.Object, ...] = ()
    resource_quotas: tuple[k8s.Object, ...] = ()
    numatopologies: tuple[k8s.Object, ...] = ()
    disruption_budgets: tuple[k8s.Object, ...] = ()
    config_maps: tuple[k8s.Object, ...] = ()
    run_records: tuple[k8s.Object, ...] = ()
    finished: frozenset[tuple[str, str, str]] = frozenset()
    clock: int | None = None
    held: Mapping[JobKey, str] = field(default_factory=dict)
    closed_nodes: Mapping[JobKey, frozenset[str]] = field(default_factory=dict)
    former_places: Mapping[JobKey, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    session: Session = field(default_factory=Session, compare=False, repr=False)

    @classmethod
    def from_objects(
        cls,
        objects: Iterable[k8s.Object],
        finished: Iterable[tuple[str, str, str]] = (),
        clock: int | None = None,
        session: Session | None = None,
    ) -> ClusterState:
        """Each object needs apiVersion, kind and metadata.name; raises StateError naming the first that lacks one."""
        items, session = tuple(objects), session or Session()
        found_in: dict[str, list[tuple[tuple[str, str, str], k8s.Object]]] = {}
        for at, (item, place) in enumerate(zip(items, session.each("place", zip(items), _place_of), strict=True)):
            if place is None:
                raise _malformed(at, item)
            found_in.setdefault(place[0], []).append((place[1], item))
        by_kind: dict[str, Any] = {
            name: tuple(item for _, item in sorted(found, key=itemgetter(0))) for name, found in found_in.items()
        }
        return cls(**by_kind, finished=frozenset(finished), clock=clock, session=session)

    @cached_property
    def node_facts(self) -> list[tuple[str, bool]]:
        """Return the name of each of `nodes`, and whether it is ready."""
        return self.session.last("node facts", (self.nodes,), self._node_facts)

    def _node_facts(self) -> list[tuple[str, bool]]:
        return [(k8s.name_of(node), k8s.is_ready_node(node)) for node in self.nodes]

    @cached_property
    def pod_records(self) -> tuple[PodRecord, ...]:
        return tuple(read_pods(self.pods, self.pod_groups, self.session))

    def release_in(self, namespace: str) -> VolcanoVersion | None:
        """Return the release of Volcano whose scheduler runs in a namespace: of several the oldest, whose rules both
        have."""
        return min(self.releases_in(namespace), default=None)

    def releases_in(self, namespace: str) -> tuple[VolcanoVersion, ...]:
        return releases_of_pods(pod for pod in self.pods if k8s.namespace_of(pod) == namespace)

    @property
    def now(self) -> int | None:
        """Return the clock's time or, if that is later or there is no clock, that of the newest event."""
        return max((at for at in (self.latest_event_time, self.clock) if at is not None), default=None)

    @cached_property
    def latest_event_time(self) -> int | None:
        """Heartbeats are left out: the answer changes only when something happened."""
        times = [item["metadata"].get("creationTimestamp") for item in (*self.pods, *self.jobs, *self.pod_groups)]
        for pod in self.pods:
            times.append(k8s.status_of(pod).get("startTime"))
            times += [condition.get("lastTransitionTime") for condition in k8s.conditions_of(pod)]
        distinct = {time for time in times if isinstance(time, str | datetime)}
        return max((at for time in distinct if (at := epoch_seconds(time)) is not None), default=None)


def _place_of(item: k8s.Object) -> tuple[str, tuple[str, str, str]] | None:
    """Return the field of an object, and its key there; None for anything but an object with a kind and a name."""
    is_object = (
        isinstance(item, k8s.MAPPING_TYPES) and item.get("kind") and isinstance(item.get("metadata"), k8s.MAPPING_TYPES)
    )
    if not is_object or not item["metadata"].get("name"):
        return None
    return _FIELD_OF_KIND.get(f"{item['kind']}.{k8s.api_group_of(item)}", "jobs"), _object_key(item)


def _malformed(at: int, item: k8s.Object) -> StateError:
    if isinstance(item, Mapping) and item.get("kind") and isinstance(item.get("metadata"), Mapping):
        return StateError(f"item {at} of the state, a {item['kind']}, has no metadata.name")
    return StateError(
        f"item {at} of the state has no kind or no metadata: every item must be a whole Kubernetes object"
    )


def read_objects(text: str | bytes) -> list[k8s.Object]:
    """Return the objects of a file: documents of YAML, or JSON, each an object or a List of them. Raises StateError."""
    found: list[Any] = []
    for document in _parse_documents(text):
        items = document.get("items") if isinstance(document, Mapping) else None
        found += items if isinstance(items, list) else () if document is None else [document]
    for at, item in enumerate(found):
        check_object(item, at)
        if _place_of(item) is None or not item.get("apiVersion"):
            raise _malformed(at, item)
    return found


def load_state(text: str | bytes) -> ClusterState:
    """Read a `List` (JSON or YAML) as `kubectl get ... -o json` or `gangplan snapshot` writes it. Raises StateError."""
    documents = _parse_documents(text)
    data = documents[0] if len(documents) == 1 else None
    if not isinstance(data, Mapping) or not isinstance(data.get("items"), list):
        raise StateError(
            "the state must be one `kind: List` with `items`, as `gangplan snapshot` or `kubectl get -o yaml` writes it"
        )
    seen: dict[tuple[str, ...], int] = {}
    for at, item in enumerate(data["items"]):
        check_object(item, at)
        if isinstance(item, Mapping) and isinstance(item.get("metadata"), Mapping):
            name = str(item["metadata"].get("name"))
            key = k8s.api_group_of(item), str(item.get("kind")), str(item["metadata"].get("namespace") or ""), name
            if seen.setdefault(key, at) != at:
                raise StateError(
                    f"items {seen[key]} and {at} of the state are both {item.get('kind')} {name}: keep one"
                )
    return ClusterState.from_objects(data["items"], clock=_read_clock(data.get("metadata")))


def check_object(item: Any, at: int) -> None:
    """Raises StateError where a field that is read has not its type. at: of the item in its list."""
    _check_shape(item, _OBJECT_SHAPE, ("items", at))
    if isinstance(item, Mapping) and isinstance(item.get("metadata"), Mapping):
        _check_shape(item.get("spec"), _SPEC_SHAPES.get(item.get("kind"), dict), ("items", at, "spec"))


def _read_clock(metadata: object) -> int | None:
    """Return the time in the List's annotation."""
    _check_shape(metadata, {"annotations": _TEXTS_SHAPE}, ("metadata",))
    stated = (
        (metadata.get("annotations") or {}).get(k8s.SNAPSHOT_TIME_ANNOTATION) if isinstance(metadata, Mapping) else None
    )
    try:
        return None if stated is None else parse_timestamp(stated)
    except ValueError:
        raise StateError(
            f"metadata.annotations of the state: {k8s.SNAPSHOT_TIME_ANNOTATION} is {stated!r}, "
            "not a time such as 2026-01-31T12:00:00Z"
        ) from None


_TEXTS_SHAPE: Any = {"*": str}
_CONTAINERS_SHAPE: Any = [{"resources": dict, "restartPolicy": str}]
_OBJECT_SHAPE: Any = {
    "apiVersion": str,
    "kind": str,
    "metadata": {
        "name": str,
        "namespace": str,
        "labels": _TEXTS_SHAPE,
        "annotations": _TEXTS_SHAPE,
        "ownerReferences": [{"apiVersion": str, "kind": str, "name": str}],
    },
    "spec": dict,
    "status": {
        "allocatable": dict,
        "conditions": [{"type": str, "status": str}],
        "phase": str,
        "disruptionsAllowed": int,
    },
}
_RUN_TIMES_SHAPE: Any = {"submitted": str, "started": str, "ended": str, "promise": dict}
_SPEC_SHAPES: Any = {
    "Node": {"taints": [{"key": str, "value": str, "effect": str}]},
    "Pod": {
        "containers": _CONTAINERS_SHAPE,
        "initContainers": _CONTAINERS_SHAPE,
        "nodeName": str,
        "nodeSelector": _TEXTS_SHAPE,
        "schedulingGates": [{"name": str}],
    },
    "PodGroup": {"queue": str},
    "PodDisruptionBudget": {"selector": dict},
    RUN_RECORDS: {"runs": [{"namespace": str, "name": str, "kind": str, **_RUN_TIMES_SHAPE}]},
}
"""The fields that `compiler.cluster_state` reads, with their types: an API server gives no others, but a file may hold
anything. Every field may be missing."""

_TYPE_NAMES: Mapping[type, str] = {dict: "a mapping", list: "a list", str: "text", int: "a whole number"}


def _check_shape(value: Any, shape: Any, path: tuple[str | int, ...]) -> None:
    """Raise StateError at the first part of `value` whose type differs from `shape`."""
    if value is None:
        return
    wanted: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, wanted):
        raise StateError(f"{dotted_path(path)} of the state is not {_TYPE_NAMES[wanted]}")
    if isinstance(shape, list):
        for at, item in enumerate(value):
            _check_shape(item if item is not None else "", shape[0], (*path, at))
    elif isinstance(shape, dict):
        for key in value if "*" in shape else shape:
            _check_shape(value.get(key), shape.get(key, shape.get("*")), (*path, key))


_MOST_LEVELS = 200


class _Loader(yaml.CSafeLoader):  # type: ignore[misc]
    """Times stay texts, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _check_depth(content: str) -> None:
    """Raises RecursionError for YAML so deep that the loader, which is in C, would end the process."""
    depth = 0
    for event in yaml.parse(content, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_LEVELS:
            raise RecursionError


def _parse_documents(text: str | bytes) -> list[Any]:
    try:
        content = text.decode() if isinstance(text, bytes) else text
        if content.lstrip().startswith("{"):
            return [json.loads(content)]
        _check_depth(content)
        return list(yaml.load_all(content, Loader=_Loader))
    except UnicodeDecodeError as error:
        raise StateError(f"the state is not UTF-8 text: byte {error.start} cannot be read") from error
    except RecursionError as error:
        raise StateError("the state nests too deeply") from error
    except (yaml.YAMLError, json.JSONDecodeError) as error:
        raise StateError(f"the state is neither JSON nor YAML: {' '.join(str(error).split())}") from error


def _object_key(item: k8s.Object) -> tuple[str, str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"], item["kind"]
