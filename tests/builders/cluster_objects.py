"""Pods and nodes as a cluster's state lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def volcano_job_pod(name: str, job: str, role: str = "w", **more: Any) -> Object:
    """A pod that Volcano's labels name as one of the job's role. more: as of `pod`."""
    return pod(name, labels={"volcano.sh/job-name": job, "volcano.sh/task-spec": role}, **more)


def pod(
    name: str,
    node: str = "",
    *,
    job: str = "",
    limits: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    phase: str = "Running",
    spec: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Object:
    """A pod of one container, bound to a node where one is given. job: the Volcano Job that owns it. spec: further
    fields. metadata: namespace "team" where none is given."""
    about: Object = {"name": name, "namespace": "team", **metadata}
    if job:
        owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": "u", "controller": True}
        about["ownerReferences"] = [owner]
    given = {"limits": limits, "requests": requests}
    resources = {key: dict(amounts) for key, amounts in given.items() if amounts is not None}
    bound = {"nodeName": node} if node else {}
    container = {"name": "main", "image": "a", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about,
        "spec": {**bound, "containers": [container], **(spec or {})},
        "status": {"phase": phase},
    }


def node(
    name: str, allocatable: Mapping[str, str], *, ready: str = "True", spec: Object | None = None, **metadata: Any
) -> Object:
    """A node with room for 110 pods. ready: the status of that condition. spec: its fields."""
    about = {"name": name, "labels": {"kubernetes.io/hostname": name}, **metadata}
    conditions = [{"type": "Ready", "status": ready}]
    status = {"allocatable": {"pods": "110", **allocatable}, "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Node", "metadata": about, "spec": spec or {}, "status": status}
