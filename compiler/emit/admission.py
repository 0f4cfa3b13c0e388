"""The defaults of Volcano's admission, filled in beforehand.

Volcano's mutating webhooks act on create only, and their additions would look like drift ever after. The rules are
Volcano's own (`pkg/webhooks/admission/{jobs,queues}/mutate`); the order of new keys is that of Volcano's types.
"""

from __future__ import annotations

from typing import Any

from compiler.kubernetes import HIERARCHY_ANNOTATION, HIERARCHY_WEIGHTS_ANNOTATION, ROOT_QUEUE

MAX_RETRY = 3
PLUGINS_NEEDING_SVC = ("tensorflow", "mpi", "pytorch", "ray")
PLUGINS_NEEDING_SSH = ("mpi",)


def fill_job_defaults(data: dict[str, Any], default_queue: str) -> None:
    """Volcano Job, in place: queue, schedulerName, maxRetry, plugins, and each task's name, minAvailable, maxRetry and
    dnsPolicy."""
    spec = data["spec"]
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "volcano"
    if not spec.get("queue"):
        spec["queue"] = default_queue
    if not spec.get("maxRetry"):
        spec["maxRetry"] = MAX_RETRY
    for at, task in enumerate(spec.get("tasks") or ()):
        _fill_task_defaults(task, at)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(task["minAvailable"] for task in spec.get("tasks") or ())
    plugins = spec.get("plugins")
    if plugins:
        for needed, by in (("svc", PLUGINS_NEEDING_SVC), ("ssh", PLUGINS_NEEDING_SSH)):
            if needed not in plugins and any(name in plugins for name in by):
                plugins[needed] = []


def _fill_task_defaults(task: dict[str, Any], index: int) -> None:
    if not task.get("name"):
        task["name"] = f"default{index}"
    if task.get("minAvailable") is None:
        parts = task.get("partitionPolicy") or {}
        task["minAvailable"] = (
            (parts.get("minPartitions") or 0) * (parts.get("partitionSize") or 0) or task.get("replicas") or 0
        )
    if not task.get("maxRetry"):
        task["maxRetry"] = MAX_RETRY
    pod = task["template"]["spec"]
    if pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"


def fill_queue_defaults(data: dict[str, Any]) -> None:
    """Volcano Queue, in place: weight, reclaimable, parent, and the root of a hierarchy in annotations."""
    spec = data.get("spec")
    if not isinstance(spec, dict):
        spec = data["spec"] = {}
    if not spec.get("weight"):
        spec["weight"] = 1
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if data["metadata"]["name"] != ROOT_QUEUE and not spec.get("parent"):
        spec["parent"] = ROOT_QUEUE
    notes = data["metadata"].get("annotations") or {}
    path, weights = notes.get(HIERARCHY_ANNOTATION), notes.get(HIERARCHY_WEIGHTS_ANNOTATION)
    if path and weights and not path.startswith(ROOT_QUEUE):
        notes |= {HIERARCHY_ANNOTATION: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS_ANNOTATION: f"1/{weights}"}
