"""The state: a plain `List` of what a cluster holds, so that a decision can be made against it and replayed anywhere.

`gangplan snapshot` writes it, `plan --state FILE` reads it, and the reconciler makes one from its own caches. What each object means
is settled by `compiler.lower.live`; here it is only sorted by kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import yaml

Object = Mapping[str, Any]

_FIELDS: Mapping[str, str] = {
    "Node.": "nodes",
    "Pod.": "pods",
    "PodGroup.scheduling.volcano.sh": "pod_groups",
    "Queue.scheduling.volcano.sh": "queues",
    "HyperNode.topology.volcano.sh": "hypernodes",
    "ResourceQuota.": "resource_quotas",
}
"""Kind.group -> where the object goes; everything else is a job."""


class StateError(ValueError):
    """The text is no state: what is wrong with it, in one sentence."""


@dataclass(frozen=True, slots=True)
class State:
    """What a cluster holds, as the API server gives it, each tuple sorted by (namespace, name, kind).

    jobs: objects of every kind that is none of the others. finished: (namespace, name, kind) of jobs that are known to have
    finished although they are no longer in the cluster (deleted after their time to live).
    """

    nodes: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    pod_groups: tuple[Object, ...] = ()
    jobs: tuple[Object, ...] = ()
    queues: tuple[Object, ...] = ()
    hypernodes: tuple[Object, ...] = ()
    resource_quotas: tuple[Object, ...] = ()
    finished: frozenset[tuple[str, str, str]] = frozenset()

    @classmethod
    def from_objects(cls, objects: Iterable[Object], finished: Iterable[tuple[str, str, str]] = ()) -> State:
        """Each object needs apiVersion, kind and metadata.name; raises StateError naming the first that lacks one."""
        sorted_in: dict[str, list[Object]] = {}
        for at, item in enumerate(objects):
            if not isinstance(item, Mapping) or not item.get("kind") or not isinstance(item.get("metadata"), Mapping):
                raise StateError(f"item {at} of the state has no kind or no metadata: every item must be a whole Kubernetes object")
            if not item["metadata"].get("name"):
                raise StateError(f"item {at} of the state, a {item['kind']}, has no metadata.name")
            sorted_in.setdefault(_FIELDS.get(f"{item['kind']}.{group_of(item)}", "jobs"), []).append(item)
        return cls(**{name: tuple(sorted(found, key=_order)) for name, found in sorted_in.items()}, finished=frozenset(finished))


def load_state(text: str | bytes) -> State:
    """Read a `List` (JSON or YAML) as `kubectl get ... -o json` or `gangplan snapshot` writes it. Raises StateError."""
    data = _parse(text)
    if not isinstance(data, Mapping) or not isinstance(data.get("items"), list):
        raise StateError("the state must be one `kind: List` with `items`, as `gangplan snapshot` or `kubectl get -o yaml` writes it")
    return State.from_objects(data["items"])


def _parse(text: str | bytes) -> Any:
    try:
        content = text.decode() if isinstance(text, bytes) else text
        parse = json.loads if content.lstrip().startswith("{") else partial(yaml.load, Loader=yaml.CSafeLoader)
        return parse(content)
    except UnicodeDecodeError as error:
        raise StateError(f"the state is not UTF-8 text: byte {error.start} cannot be read") from error
    except (yaml.YAMLError, json.JSONDecodeError) as error:
        raise StateError(f"the state is neither JSON nor YAML: {' '.join(str(error).split())}") from error


def group_of(item: Object) -> str:
    """The API group: "batch.volcano.sh" of batch.volcano.sh/v1alpha1, "" of v1."""
    return str(item.get("apiVersion", "")).rpartition("/")[0]


def _order(item: Object) -> tuple[str, str, str]:
    return item["metadata"].get("namespace") or "", item["metadata"]["name"], item["kind"]
