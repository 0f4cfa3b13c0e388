"""What gives an object back that existed before us."""

from __future__ import annotations

from typing import Any

from compiler.kubernetes import (
    ANNOTATION_PREFIX,
    CLUSTER_LABEL,
    MANAGED_BY_LABEL,
    annotations_of,
    labels_of,
    uid_of,
)
from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref


def empty_set(ref: Ref) -> Object:
    """The fields for a server-side apply that removes every field which only we own."""
    metadata = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata}


def hand_over_patch(live: Object) -> list[dict[str, Any]]:
    """JSON patch that takes away our labels and annotations and our part in the object's fields, and leaves their
    values."""
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": uid_of(live)}]
    ours = {
        "labels": [key for key in (MANAGED_BY_LABEL, CLUSTER_LABEL) if key in labels_of(live)],
        "annotations": [key for key in annotations_of(live) if key.startswith(ANNOTATION_PREFIX)],
    }
    for part, keys in ours.items():
        operations += [
            {"op": "remove", "path": f"/metadata/{part}/{key.replace('~', '~0').replace('/', '~1')}"} for key in keys
        ]
    for index, manager in reversed([*enumerate(live["metadata"].get("managedFields") or ())]):
        if manager.get("manager") == FIELD_MANAGER:
            path = f"/metadata/managedFields/{index}"
            operations.append({"op": "test", "path": f"{path}/manager", "value": FIELD_MANAGER})
            operations.append({"op": "remove", "path": path})
    return operations
