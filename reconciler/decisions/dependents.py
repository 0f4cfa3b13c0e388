"""Which pods go with an object that has none of its own: those of the runs that it has made. Data in, data out.

A run of a kind that is watched names the uid of what made it (CronJob -> Job -> Pod). Other runs are not watched, so
they are told by their names, which the operators form of the object's name and a time: Argo's controller
`<CronWorkflow>-<seconds>`, Spark's operator `<ScheduledSparkApplication>-<time>`. An object of such a name that
somebody else made counts with it, so that at worst more is held than dies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from compiler.kubernetes import ARGO_WORKFLOW_LABEL, SPARK_APPLICATION_LABEL, labels_of
from reconciler.cluster.inventory import InventoryEntry
from reconciler.cluster.objects import Object, group_kind_of, ref_of

_MAKERS = {
    "Workflow.argoproj.io": "CronWorkflow.argoproj.io",
    "SparkApplication.sparkoperator.k8s.io": "ScheduledSparkApplication.sparkoperator.k8s.io",
}
"""Group kind of a run that may not be watched -> of what makes it on a schedule."""
_RUN_LABELS = {
    ARGO_WORKFLOW_LABEL: "Workflow.argoproj.io",
    SPARK_APPLICATION_LABEL: "SparkApplication.sparkoperator.k8s.io",
}
"""Label of a pod that names its run -> the run's group kind."""
_TIME_AT_END = re.compile(r"-\d+$")


def pods_of_dependents(
    entries: Mapping[str, InventoryEntry],
    pods_by_job: Mapping[str, list[Object]],
    objects: Mapping[str, Object],
    pods: Iterable[Object],
) -> dict[str, list[Object]]:
    """Ref.key of an inventory's object that is no job, and has made jobs -> their pods. objects: what is watched.
    pods: all of them, looked through only where an object makes runs that are not watched."""
    by_owner: dict[str, dict[int, Object]] = {}
    for key, of_job in pods_by_job.items():
        job = objects.get(key) if of_job else None
        for name in _makers_of_job(job) if job else ():
            by_owner.setdefault(name, {}).update((id(pod), pod) for pod in of_job)
    if any(entry.ref.group_kind in _MAKERS.values() for entry in entries.values()):
        for pod in pods:
            for name in _makers_of_pod(pod):
                by_owner.setdefault(name, {})[id(pod)] = pod
    found = {}
    for key, entry in entries.items() if by_owner else ():
        made = {**by_owner.get(entry.uid, {}), **by_owner.get(key, {})}
        if made and key not in pods_by_job:
            found[key] = list(made.values())
    return found


def _makers_of_job(job: Object) -> Iterator[str]:
    """The uids of the job's owners, and the keys of what makes such owners on a schedule."""
    for owner in job["metadata"].get("ownerReferences") or ():
        yield owner["uid"]
        yield from _maker_of_run(
            group_kind_of(owner["apiVersion"], owner["kind"]), ref_of(job).namespace, owner["name"]
        )


def _makers_of_pod(pod: Object) -> Iterator[str]:
    labels = labels_of(pod)
    for label, kind in _RUN_LABELS.items():
        if label in labels:
            yield from _maker_of_run(kind, ref_of(pod).namespace, labels[label])


def _maker_of_run(group_kind: str, namespace: str, name: str) -> Iterator[str]:
    """The Ref.key of what may have made a run of this name."""
    if group_kind in _MAKERS and _TIME_AT_END.search(name):
        yield f"{_MAKERS[group_kind]}/{namespace}/{_TIME_AT_END.sub('', name)}"
