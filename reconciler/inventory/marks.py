"""Marks by which an object shows that it is ours: our labels, applied by us, and who wrote its fields first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.kubernetes import (
    ADOPT_ANNOTATION,
    CLUSTER_LABEL,
    MANAGED_BY_LABEL,
    annotations_of,
    created_at,
    labels_of,
)
from reconciler.cluster.objects import FIELD_MANAGER, Object
from reconciler.inventory.store import Origin

_FIELDS_OF_NO_AUTHOR = frozenset({"f:metadata", "f:status"})


def is_marked(item: Object, cluster: str) -> bool:
    """Whether we have applied our labels to this object. Labels alone are no mark: any client can write them."""
    labels = labels_of(item)
    if (labels.get(MANAGED_BY_LABEL), labels.get(CLUSTER_LABEL)) != (FIELD_MANAGER, cluster):
        return False
    return any(_applied_label(entry) for entry in _managers(item))


def origin_of(item: Object, cluster: str) -> Origin:
    """What an object says of where it comes from: created if it carries our mark, and is no older than our fields, or
    no other manager had written its contents before these last changed. One that others may have made, and whose
    fields we may take, counts as taken. It is only asked where nothing else tells."""
    applied_at = [str(entry.get("time") or "") for entry in _managers(item) if _applied_label(entry)]
    if applied_at and is_marked(item, cluster):
        others = [str(entry.get("time") or "") for entry in _managers(item) if _is_others(entry)]
        if "" < applied_at[0] <= created_at(item) or applied_at[0] < min(others, default="~"):
            return "created"
    return "taken" if annotations_of(item).get(ADOPT_ANNOTATION) == "true" else "joined"


def _managers(item: Object) -> list[Mapping[str, Any]]:
    return item["metadata"].get("managedFields") or []


def _applied_label(entry: Mapping[str, Any]) -> bool:
    labels = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
    is_ours = (entry.get("manager"), entry.get("operation")) == (FIELD_MANAGER, "Apply")
    return is_ours and f"f:{CLUSTER_LABEL}" in labels


def _is_others(entry: Mapping[str, Any]) -> bool:
    """Whether another manager has written contents."""
    if entry.get("manager") == FIELD_MANAGER or entry.get("subresource"):
        return False
    return bool((entry.get("fieldsV1") or {}).keys() - _FIELDS_OF_NO_AUTHOR)
