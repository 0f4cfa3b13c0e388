"""Decides what may be deleted, on data, without IO.

Deleting cannot be undone, so an error is never read as an empty set: only objects that we created according to the
inventory, by uid, after a commit that compiled as a whole, with every read good, and not more at once than the limits.
The limits count the losses of an hour: objects, running jobs, their pods and devices, a whole kind, and the running
pods of a job that is ended for a new run. Objects older than gangplan are released, never deleted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from compiler import kubernetes as k8s
from compiler.fields.quantity import read_quantity
from compiler.syntax.runs import json_digest
from reconciler.changes.diff import Change
from reconciler.changes.results import PrunePlan
from reconciler.cluster.objects import Object, group_kind_of, ref_of
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.timings import TIMINGS, OwnershipTimings

_CONTAINERS = frozenset({"Namespace", "CustomResourceDefinition.apiextensions.k8s.io"})
"""Group kinds of objects with which others go that gangplan never made, and does not see."""
_STORES = frozenset({"PersistentVolumeClaim", "PersistentVolume"})
"""Group kinds of objects whose data is lost when they are deleted to be recreated."""
_SHARES_OF_DEVICES = ("memory", "cores", "percentage")
"""Ends of the names of resources that measure a part of a device."""


class Toll(NamedTuple):
    """The losses by deletions, or the totals that exist. jobs: running ones."""

    objects: int = 0
    jobs: int = 0
    pods: int = 0
    devices: int = 0


_NOUNS = ("objects", "running jobs", "running pods", "devices in use")


def sum_tolls(tolls: Iterable[Toll]) -> Toll:
    return Toll(*map(sum, zip(*tolls, strict=True)))


@dataclass(frozen=True, slots=True)
class PruneSafety:
    """How far the observation can be trusted. commit: the head. problems: failed reads. allowed: commits and digests
    that annotations release. recent: losses within the hour. status_name: of the ConfigMap to annotate."""

    commit: str
    has_compiled: bool
    problems: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    recent: Toll = field(default_factory=Toll)
    status_name: str = ""
    timings: OwnershipTimings = TIMINGS.ownership


Departure = Literal["deletion", "release", "protected", "leaving", "vanished"]


def prune_plan(
    desired_keys: Collection[str],
    inventory: Inventory,
    live: Mapping[str, Object | None],
    pods: Mapping[str, Sequence[Object]],
    safety: PruneSafety,
    replacements: Sequence[Change] = (),
) -> PrunePlan:
    """Return what to do with the inventory's objects that left the repository, and whether so many jobs may end for a
    new run (`excess`). `live` has only the examined objects. `pods`: by Ref.key of their owner."""
    found = _departures(desired_keys, inventory, live)
    doubts, leaving = tuple(_doubts(safety)), [*found["deletion"], *replacements]
    containers = list(filter(_takes_others, leaving))
    if not safety.allowed.isdisjoint((safety.commit, deletion_digest(containers))):
        containers = []
    deletions = [change for change in found["deletion"] if change not in containers]
    replacements = [change for change in replacements if change not in containers]
    deaths = [*(() if doubts else deletions), *replacements]
    is_allowed = not safety.allowed.isdisjoint((safety.commit, deletion_digest(deaths)))
    excess: tuple[str, ...] = ()
    if deaths and not is_allowed:
        toll = sum_tolls(toll_of_change(change, pods.get(change.ref.key, ())) for change in deaths)
        total = sum_tolls(toll_of(pods.get(key, ())) for key in inventory.entries)
        excess = tuple(_excesses(toll, total, safety))
        if deletions and not doubts:
            excess += tuple(_lost_kinds(deletions, inventory, live, safety.timings.whole_kind))
            excess += ("the repository is empty",) if not desired_keys else ()
        excess += (_way_out(deaths, safety),) if excess else ()
    obstacles = (doubts or excess) if deletions else ()
    held = list(found["protected"])
    if obstacles:
        held += _held(deletions, "; ".join(obstacles))
    if containers:
        with_it = f"everything in it is deleted too, also objects of others; {_way_out(containers, safety)}"
        held += _held(containers, "; ".join(doubts) or with_it)
    return PrunePlan(
        changes=() if obstacles else tuple(deletions),
        releases=() if doubts else tuple(found["release"]),
        held_changes=tuple(held),
        leaving=tuple(found["leaving"]),
        vanished_keys=() if doubts else tuple(change.ref.key for change in found["vanished"]),
        obstacles=obstacles,
        excess=excess,
        waits_for_release=bool(excess or containers) and not doubts,
        counts=not is_allowed,
    )


def _held(changes: Iterable[Change], reason: str) -> Iterator[Change]:
    return (replace(change, action="held", reason=reason) for change in changes)


def _takes_others(change: Change) -> bool:
    """Return whether deleting it deletes other objects, or data."""
    return change.ref.group_kind in _CONTAINERS or takes_data(change)


def takes_data(change: Change) -> bool:
    """Return whether it is a replacement of a volume, its claim, or a StatefulSet that takes its claims with it."""
    if change.action != "replace" or change.live is None:
        return False
    policy = (change.live.get("spec") or {}).get("persistentVolumeClaimRetentionPolicy") or {}
    return change.ref.group_kind in _STORES or policy.get("whenDeleted") == "Delete"


def _departures(
    keep: Collection[str], inventory: Inventory, live: Mapping[str, Object | None]
) -> dict[Departure, list[Change]]:
    """Return the inventory's objects that left the repository, and jobs with a finished run and no object."""
    found: dict[Departure, list[Change]] = {kind: [] for kind in get_args(Departure)}
    for key, entry in sorted(inventory.entries.items()):
        if key not in live or (key in keep and (live[key] is not None or key not in inventory.runs)):
            continue
        kind, change = _departure(entry, live[key])
        found[kind].append(change)
    return found


def _departure(entry: InventoryEntry, item: Object | None) -> tuple[Departure, Change]:
    if item is None or not entry.uid or k8s.uid_of(item) != entry.uid:
        return "vanished", Change("held", entry.ref, live=item)
    ref = entry.ref._replace(api_version=item["apiVersion"])  # the one that is served
    if k8s.is_never_pruned(item):
        return "protected", Change("held", ref, live=item, reason=f"{k8s.PRUNE_ANNOTATION}: disabled protects it")
    if not entry.is_created:
        reason = "it left the repository and existed before gangplan, so it is released and not deleted"
        return "release", Change("release", ref, live=item, reason=reason)
    if k8s.is_terminating(item):
        finalizers = ", ".join(item["metadata"].get("finalizers") or ("its dependents",))
        return "leaving", Change("held", ref, live=item, reason=f"it was deleted and waits for {finalizers}")
    return "deletion", Change("prune", ref, live=item, reason="it is no longer in the repository")


def deletion_digest(deletions: Iterable[Change]) -> str:
    """Return the name of a list of deletions, by which an annotation releases it and no other; uids count."""
    named = sorted([change.ref.key, k8s.uid_of(change.live) if change.live else ""] for change in deletions)
    return json_digest(named)[7:23]


def toll_of(pods: Sequence[Object]) -> Toll:
    unfinished = (pod for pod in pods if not k8s.is_finished_pod(pod))
    running = [pod for pod in unfinished if not k8s.is_gated(pod)]
    return Toll(1, bool(running), len(running), sum(map(_devices_of, running)))


def toll_of_change(change: Change, pods: Sequence[Object]) -> Toll:
    """Return the toll of a deletion or a replacement. A replacement counts only its running pods, since the object
    reappears."""
    toll = toll_of(pods)
    return toll._replace(objects=0) if change.action == "replace" else toll


def _devices_of(pod: Object) -> int:
    """Devices that the pod holds whole: extended resources that are counted one by one."""
    total = 0
    for container in (pod.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.items():
            if "/" in name and not name.startswith("hugepages") and not name.endswith(_SHARES_OF_DEVICES):
                total += int(read_quantity(amount) or 0)
    return total


def _doubts(safety: PruneSafety) -> Iterator[str]:
    if not safety.has_compiled:
        yield "nothing is deleted while the commit does not compile as a whole"
    if safety.problems:
        more = f" (and {len(safety.problems) - 1} more)" if len(safety.problems) > 1 else ""
        yield f"nothing is deleted while a read fails: {safety.problems[0]}{more}"


def _excesses(toll: Toll, total: Toll, safety: PruneSafety) -> Iterator[str]:
    limits, share = safety.timings.prune_limits, safety.timings.prune_share
    for noun, count, of_all, before, always in zip(_NOUNS, toll, total, safety.recent, limits, strict=True):
        limit = max(always, int(share * (of_all + before)))
        if count and count + before > limit:
            earlier = f" after {before} within the last hour" if before else ""
            yield f"{count} of {of_all} {noun} would be deleted{earlier}, the limit is {limit}"


def _lost_kinds(
    deletions: Iterable[Change], inventory: Inventory, live: Mapping[str, Object | None], whole_kind: int
) -> Iterator[str]:
    """Yield the kinds of which nothing would be left of so many objects."""
    present = Counter(entry.ref.kind for key, entry in inventory.entries.items() if live.get(key, entry) is not None)
    for kind, count in sorted(Counter(change.ref.kind for change in deletions).items()):
        if count == present[kind] >= whole_kind:
            yield f"all {count} objects of kind {kind} would be deleted"


def _way_out(deletions: Iterable[Change], safety: PruneSafety) -> str:
    return (
        f"allow it with the annotation {k8s.ALLOW_PRUNE_ANNOTATION}: {safety.commit} on ConfigMap {safety.status_name}"
        f", or {k8s.ALLOW_PRUNE_ANNOTATION}: {deletion_digest(deletions)} there or on the Cluster in the repository"
    )


# --- what is deleted with what

_MAKERS = {
    "Workflow.argoproj.io": "CronWorkflow.argoproj.io",
    "SparkApplication.sparkoperator.k8s.io": "ScheduledSparkApplication.sparkoperator.k8s.io",
}
"""Group kind of a run that may not be watched -> of what makes it on a schedule."""
_NAME_LABELS = {
    k8s.ARGO_WORKFLOW_LABEL: "Workflow.argoproj.io",
    k8s.LEADER_WORKER_SET_LABEL: "LeaderWorkerSet.leaderworkerset.x-k8s.io",
    k8s.RAY_CLUSTER_LABEL: "RayCluster.ray.io",
    k8s.SPARK_APPLICATION_LABEL: "SparkApplication.sparkoperator.k8s.io",
    k8s.SPARK_CONNECT_LABEL: "SparkConnect.sparkoperator.k8s.io",
}
"""Label of a pod that names its owner -> the owner's group kind."""
_SERVICES = tuple(f"{kind}.apps/" for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"))
"""Beginnings of the keys of services, of which only those count by their pods that are bound to the plan's nodes."""
_TIME_AT_END = re.compile(r"-\d+$")


def pods_of_all(
    entries: Mapping[str, InventoryEntry],
    pods_by_job: Mapping[str, list[Object]],
    objects: Mapping[str, Object],
    pods: Iterable[Object],
) -> dict[str, list[Object]]:
    """Return Ref.key of a job, or of an inventory's object -> all pods that are deleted with it. pods_by_job: its own.

    In addition its pods create others, and so do the runs that it has created. Watched runs name the uid of their
    creator (CronJob -> Job -> Pod), and so do pods that another pod creates. Pods that an operator creates have a label
    with the object's name. Runs that are not watched are recognized by their names: an object's name and a time (Argo's
    CronWorkflow, ScheduledSparkApplication). At worst more pods are counted than would be lost.
    """
    counted = (key for key in entries if not key.startswith(_SERVICES))
    key_of = {entries[key].uid: key for key in counted if entries[key].uid}
    found: dict[str, dict[str, Object]] = {key: {} for key in pods_by_job}
    keys_of_pod: dict[str, set[str]] = {}
    for key, of_job in pods_by_job.items():
        job = objects.get(key) if of_job else None
        named = {key, *(key_of.get(name, name) for name in _makers_of_job(job))} if job else {key}
        for pod in of_job:
            keys_of_pod.setdefault(k8s.uid_of(pod), set()).update(named)
            _add_pod(found, named, pod)
    for pod in pods:
        owners = [owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()]
        named = {*_named_by_labels(pod), *(key_of[uid] for uid in owners if uid in key_of)}
        _add_pod(found, named.union(*(keys_of_pod.get(uid, ()) for uid in owners)), pod)
    return {key: list(found[key].values()) for key in found.keys() & (entries.keys() | pods_by_job.keys())}


def _add_pod(found: dict[str, dict[str, Object]], keys: Iterable[str], pod: Object) -> None:
    for key in keys:
        found.setdefault(key, {})[k8s.uid_of(pod)] = pod


def _makers_of_job(job: Object) -> Iterator[str]:
    """Yield the uids of the job's owners, and the keys of what makes such owners on a schedule."""
    for owner in job["metadata"].get("ownerReferences") or ():
        yield owner["uid"]
        kind = group_kind_of(owner["apiVersion"], owner["kind"])
        yield from _maker_of_run(kind, ref_of(job).namespace, owner["name"])


def _named_by_labels(pod: Object) -> Iterator[str]:
    """Yield the keys of what the pod's labels name, and of what makes such runs on a schedule."""
    labels, namespace = k8s.labels_of(pod), ref_of(pod).namespace
    for label, kind in _NAME_LABELS.items():
        if label in labels:
            yield f"{kind}/{namespace}/{labels[label]}"
            yield from _maker_of_run(kind, namespace, labels[label])


def _maker_of_run(group_kind: str, namespace: str, name: str) -> Iterator[str]:
    """Yield the Ref.key of what may have made a run of this name."""
    if group_kind in _MAKERS and _TIME_AT_END.search(name):
        yield f"{_MAKERS[group_kind]}/{namespace}/{_TIME_AT_END.sub('', name)}"
