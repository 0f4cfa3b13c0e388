"""The managers of an object's fields, by its managedFields, and how we release our fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compiler.fields.texts import dotted_path
from compiler.kubernetes import ANNOTATION_PREFIX, CLUSTER_LABEL, MANAGED_BY_LABEL, annotations_of, labels_of, uid_of
from compiler.syntax.documents import FieldPath
from reconciler.changes.pods import escape_json_pointer
from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref


def applied_fields(live: Object) -> Mapping[str, Any]:
    """Our applied field set, without metadata beyond labels and annotations."""
    for entry in filter(is_our_apply, managers_of(live)):
        fields = dict(entry.get("fieldsV1") or {})
        meta = fields.get("f:metadata") or {}
        fields["f:metadata"] = {k: v for k, v in meta.items() if k in ("f:labels", "f:annotations")}
        return fields
    return {}


def is_annotation_overwritten(live: Object, name: str) -> bool:
    """Return whether we have applied our fields to the object, and this annotation of it is no longer ours."""
    owned = applied_fields(live)
    return bool(owned) and f"f:{name}" not in (owned["f:metadata"].get("f:annotations") or {})


def own_fields(live: Object) -> frozenset[str]:
    """Return the fields that only we hold, spelled as the API server spells them in a conflict."""
    ours, others = set[str](), set[str]()
    for entry in managers_of(live):
        (ours if is_our_apply(entry) else others).update(_paths(entry.get("fieldsV1") or {}, ""))
    return frozenset(ours - others)


def other_holders(live: Object, paths: Iterable[FieldPath]) -> list[tuple[str, str]]:
    """Return the fields that another manager also holds, as the server names them, each with that manager."""
    others = [entry for entry in managers_of(live) if not is_our_apply(entry)]
    found = []
    for path in paths:
        holders = (entry for entry in others if _is_held(entry.get("fieldsV1") or {}, path))
        found += [(f".{dotted_path(path)}", str(entry.get("manager") or "another manager")) for entry in holders]
    return found


def empty_set(ref: Ref) -> Object:
    """Return the fields for a server-side apply that removes every field which only we own."""
    metadata = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata}


def hand_over_patch(live: Object) -> list[dict[str, Any]]:
    """JSON patch that removes our labels, our annotations and our part in the fields, whose values stay."""
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": uid_of(live)}]
    ours = {
        "labels": [key for key in (MANAGED_BY_LABEL, CLUSTER_LABEL) if key in labels_of(live)],
        "annotations": [key for key in annotations_of(live) if key.startswith(ANNOTATION_PREFIX)],
    }
    for part, keys in ours.items():
        operations += [{"op": "remove", "path": f"/metadata/{part}/{escape_json_pointer(key)}"} for key in keys]
    for index, entry in reversed([*enumerate(managers_of(live))]):
        if entry.get("manager") == FIELD_MANAGER:
            path = f"/metadata/managedFields/{index}"
            operations.append({"op": "test", "path": f"{path}/manager", "value": FIELD_MANAGER})
            operations.append({"op": "remove", "path": path})
    return operations


def managers_of(live: Object) -> list[Mapping[str, Any]]:
    return live["metadata"].get("managedFields") or []


def is_our_apply(entry: Mapping[str, Any]) -> bool:
    is_ours = entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
    return is_ours and not entry.get("subresource")


def _is_held(owned: Mapping[str, Any], steps: FieldPath) -> bool:
    """Return whether a field is in this set, by itself or within a value that is held whole. Items of lists are not
    found."""
    for step in steps:
        if f"f:{step}" not in owned:
            return False
        owned = owned[f"f:{step}"]
        if not owned:
            return True
    return False


def _paths(fields: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, below in fields.items():
        if below:
            yield from _paths(below, at + _step(name))
        else:
            yield at if name == "." else at + _step(name)


def _step(name: str) -> str:
    """f:image, k:{"name":"main"} and v:"text" as .image, [name="main"] and [="text"]."""
    kind, _, rest = name.partition(":")
    if kind == "k":
        return "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
    return {"f": f".{rest}", "v": f"[={rest}]"}.get(kind, f"[{rest}]")
