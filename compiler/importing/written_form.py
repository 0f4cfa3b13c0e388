"""An object of a cluster as somebody would have written it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from compiler import kubernetes as k8s
from compiler.fields.quantity import is_same_quantity
from compiler.openapi.schemas import find_schema
from compiler.openapi.shape import pod_paths
from compiler.run_kinds import run_kind_of

Data = dict[str, Any]


class Imported(NamedTuple):
    """Documents of a repository, and a sentence for each thing that they leave out."""

    documents: list[Data]
    notes: list[str]


@cache
def _server_written() -> Mapping[str, Any]:
    return tomllib.loads((files("compiler.importing") / "server_written.toml").read_text("utf-8"))


def written_form(item: k8s.Object) -> Data:
    """Return the object without what servers wrote. Where kubectl kept the file that was applied, and all of it still
    holds, it is that file."""
    applied = _last_applied(item)
    found: Data = deepcopy(dict(item if applied is None else applied))
    _remove_bookkeeping(found)
    if applied is None:
        _remove_defaults(found)
    head = {key: found[key] for key in ("apiVersion", "kind", "metadata") if key in found}
    return head | found


def _last_applied(item: k8s.Object) -> Data | None:
    try:
        applied = json.loads(k8s.annotations_of(item).get(k8s.LAST_APPLIED_ANNOTATION, ""))
    except ValueError:
        return None
    same = isinstance(applied, dict) and all(applied.get(key) == item.get(key) for key in ("apiVersion", "kind"))
    return applied if same and _holds(applied, item) else None


def _holds(applied: Any, live: Any) -> bool:
    """Return whether all applied fields still have their values; null and empty values do not count."""
    if applied is None or applied in ({}, []):
        return True
    if isinstance(applied, Mapping):
        return isinstance(live, Mapping) and all(_holds(value, live.get(key)) for key, value in applied.items())
    if isinstance(applied, list):
        same = isinstance(live, list) and len(applied) == len(live)
        return same and all(_holds(value, of) for value, of in zip(applied, live, strict=True))
    return bool(applied == live) or is_same_quantity(applied, live)


# ---- what servers write always


def _remove_bookkeeping(item: Data) -> None:
    always = _server_written()["always"]
    item.pop("status", None)
    metadata = item["metadata"] = dict(item["metadata"])
    for key in always["metadata"]:
        metadata.pop(key, None)
    for part, of_servers in (("annotations", always["annotations"]), ("labels", always["template_labels"])):
        own = [key for key in metadata.get(part) or () if key.startswith(k8s.ANNOTATION_PREFIX)]
        _remove_keys(metadata, part, {*of_servers, *own} - {*k8s.KNOWN_ANNOTATIONS})
    spec = item.get("spec")
    if isinstance(spec, dict):
        for key in always["kinds"].get(run_kind_of(item), ()):
            spec.pop(key, None)
    for template in _templates(item):
        before = dict(template["metadata"])
        template["metadata"].pop("creationTimestamp", None)
        _remove_keys(template["metadata"], "labels", always["template_labels"])
        if template["metadata"] != before and not template["metadata"]:
            del template["metadata"]  # servers alone wrote it


def _remove_keys(metadata: Data, part: str, keys: Iterable[str]) -> None:
    """Without these labels or annotations, and without the part where nothing else is in it."""
    kept = {key: value for key, value in (metadata.get(part) or {}).items() if key not in keys}
    if kept:
        metadata[part] = kept
    else:
        metadata.pop(part, None)


def _templates(data: Any) -> Iterator[Data]:
    """Yield every mapping with metadata of its own below the object."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key != "metadata" and isinstance(value, dict) and isinstance(value.get("metadata"), dict):
                yield value
            yield from _templates(value)
    elif isinstance(data, list):
        for value in data:
            yield from _templates(value)


# ---- defaults


def _remove_defaults(item: Data) -> None:
    defaults, kind = _server_written()["defaults"], run_kind_of(item)
    for task in _rows(item.get("spec") or {}, "tasks") if kind == "Job.batch.volcano.sh" else ():
        _remove_equal(task, defaults["kinds"][kind])
    if isinstance(item.get("spec"), dict):
        _remove_equal(item["spec"], defaults["kinds"].get(kind, {}))
    for pod in pod_specs(item):
        _remove_equal(pod, defaults["pod"])
        _remove_admitted(pod)
        for container in (*_rows(pod, "containers"), *_rows(pod, "initContainers")):
            _remove_equal(container, defaults["container"])
            if container.get("imagePullPolicy") == _default_pull_policy(str(container.get("image", ""))):
                del container["imagePullPolicy"]


def _remove_equal(data: Data, defaults: Mapping[str, Any]) -> None:
    for key, value in defaults.items():
        if data.get(key) == value and type(data[key]) is type(value):
            del data[key]


def pod_specs(item: k8s.Object) -> Sequence[Data]:
    """Return every pod spec of the object, where its kind has a schema."""
    schema = find_schema(run_kind_of(item), str(item["apiVersion"]).rpartition("/")[2])
    found = []
    for path in () if schema is None else pod_paths(item, schema):
        pod: Any = item
        for step in path:
            pod = pod[step]
        found.append(pod)
    return found


def _rows(data: Mapping[str, Any], key: str) -> list[Data]:
    rows = data.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


_ADMITTED_TOLERATIONS = tuple(
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in k8s.DEFAULT_TOLERATIONS
)


def _remove_admitted(pod: Data) -> None:
    """The token volume and the two tolerations that admission adds to pods."""
    token = {row.get("name") for row in _rows(pod, "volumes") if str(row.get("name")).startswith("kube-api-access-")}
    _keep_rows(pod, "volumes", lambda row: row["name"] not in token)
    for container in (*_rows(pod, "containers"), *_rows(pod, "initContainers")) if token else ():
        _keep_rows(container, "volumeMounts", lambda row: row["name"] not in token)
    _keep_rows(pod, "tolerations", lambda row: row not in _ADMITTED_TOLERATIONS)


def _keep_rows(data: Data, key: str, keeps: Callable[[Any], bool]) -> None:
    if isinstance(data.get(key), list):
        data[key] = list(filter(keeps, data[key]))
        if not data[key]:
            del data[key]


def _default_pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].rpartition(":")
    return "Always" if not tag[1] or tag[2] == "latest" else "IfNotPresent"
