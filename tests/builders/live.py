"""Objects as a cluster holds them, in namespace default, each with its name as its uid."""

from __future__ import annotations

from typing import Any

from reconciler.cluster.objects import Object

BATCH, VOLCANO = "batch/v1", "batch.volcano.sh/v1alpha1"


def live(api_version: str, kind: str, name: str, owner: Object | None = None, **metadata: Any) -> Object:
    """An object; owner: its controller."""
    about: Object = {"namespace": "default", "name": name, "uid": name}
    if owner is not None:
        about["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": api_version, "kind": kind, "metadata": {**about, **metadata}}


def live_pod(name: str, owner: Object | None = None, node: str = "", phase: str = "", **metadata: Any) -> Object:
    """A pod that is bound to this node."""
    spec, status = {"nodeName": node} if node else {}, {"phase": phase} if phase else {}
    return {**live("v1", "Pod", name, owner, **metadata), "spec": spec, "status": status}


def owner_reference(owner: Object) -> Object:
    about = owner["metadata"]
    identity = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": about["name"], "uid": about["uid"]}
    return {**identity, "controller": True}


def with_metadata(item: Object, **metadata: Any) -> Object:
    """The same with these parts of its metadata."""
    return {**item, "metadata": {**item["metadata"], **metadata}}
