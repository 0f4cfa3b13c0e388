"""Which pods go with an object beyond its own: those that its pods make, and those of the runs that it has made.

Watched runs name the uid of what made them (CronJob -> Job -> Pod), and so do pods that another pod makes. What an
operator makes has a label with the object's name. Runs that are not watched are told by their names: an object's name
and a time (Argo's CronWorkflow, ScheduledSparkApplication). At worst more is held than dies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from compiler.kubernetes import (
    ARGO_WORKFLOW_LABEL,
    LEADER_WORKER_SET_LABEL,
    RAY_CLUSTER_LABEL,
    SPARK_APPLICATION_LABEL,
    SPARK_CONNECT_LABEL,
    labels_of,
    uid_of,
)
from reconciler.cluster.objects import Object, group_kind_of, ref_of
from reconciler.inventory.store import InventoryEntry

_MAKERS = {
    "Workflow.argoproj.io": "CronWorkflow.argoproj.io",
    "SparkApplication.sparkoperator.k8s.io": "ScheduledSparkApplication.sparkoperator.k8s.io",
}
"""Group kind of a run that may not be watched -> of what makes it on a schedule."""
_NAME_LABELS = {
    ARGO_WORKFLOW_LABEL: "Workflow.argoproj.io",
    LEADER_WORKER_SET_LABEL: "LeaderWorkerSet.leaderworkerset.x-k8s.io",
    RAY_CLUSTER_LABEL: "RayCluster.ray.io",
    SPARK_APPLICATION_LABEL: "SparkApplication.sparkoperator.k8s.io",
    SPARK_CONNECT_LABEL: "SparkConnect.sparkoperator.k8s.io",
}
"""Label of a pod that names what it belongs to -> the group kind of that."""
_SERVICES = tuple(f"{kind}.apps/" for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"))
"""Beginnings of the keys of services, of which only those count by their pods that are bound to the plan's nodes."""
_TIME_AT_END = re.compile(r"-\d+$")


def pods_of_all(
    entries: Mapping[str, InventoryEntry],
    pods_by_job: Mapping[str, list[Object]],
    objects: Mapping[str, Object],
    pods: Iterable[Object],
) -> dict[str, list[Object]]:
    """Ref.key of a job, or of an inventory's object -> all pods that go with it. pods_by_job: its own."""
    counted = (key for key in entries if not key.startswith(_SERVICES))
    key_of = {entries[key].uid: key for key in counted if entries[key].uid}
    found: dict[str, dict[str, Object]] = {key: {} for key in pods_by_job}
    keys_of_pod: dict[str, set[str]] = {}
    for key, of_job in pods_by_job.items():
        job = objects.get(key) if of_job else None
        named = {key, *(key_of.get(name, name) for name in _makers_of_job(job))} if job else {key}
        for pod in of_job:
            keys_of_pod.setdefault(uid_of(pod), set()).update(named)
            _add_pod(found, named, pod)
    for pod in pods:
        owners = [owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()]
        named = {*_named_by_labels(pod), *(key_of[uid] for uid in owners if uid in key_of)}
        _add_pod(found, named.union(*(keys_of_pod.get(uid, ()) for uid in owners)), pod)
    return {key: list(found[key].values()) for key in found.keys() & (entries.keys() | pods_by_job.keys())}


def _add_pod(found: dict[str, dict[str, Object]], keys: Iterable[str], pod: Object) -> None:
    for key in keys:
        found.setdefault(key, {})[uid_of(pod)] = pod


def _makers_of_job(job: Object) -> Iterator[str]:
    """The uids of the job's owners, and the keys of what makes such owners on a schedule."""
    for owner in job["metadata"].get("ownerReferences") or ():
        yield owner["uid"]
        kind = group_kind_of(owner["apiVersion"], owner["kind"])
        yield from _maker_of_run(kind, ref_of(job).namespace, owner["name"])


def _named_by_labels(pod: Object) -> Iterator[str]:
    """The keys of what the pod's labels name, and of what makes such runs on a schedule."""
    labels, namespace = labels_of(pod), ref_of(pod).namespace
    for label, kind in _NAME_LABELS.items():
        if label in labels:
            yield f"{kind}/{namespace}/{labels[label]}"
            yield from _maker_of_run(kind, namespace, labels[label])


def _maker_of_run(group_kind: str, namespace: str, name: str) -> Iterator[str]:
    """The Ref.key of what may have made a run of this name."""
    if group_kind in _MAKERS and _TIME_AT_END.search(name):
        yield f"{_MAKERS[group_kind]}/{namespace}/{_TIME_AT_END.sub('', name)}"
