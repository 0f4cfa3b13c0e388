"""Which pods are whose: by controller, by mark, by PodGroup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.kubernetes import (
    GROUP_NAME_ANNOTATION,
    POD_OWNERS_ANNOTATION,
    annotations_of,
    controller_of,
    created_at,
    marked_job,
    uid_of,
)
from reconciler.cluster.objects import Object, Ref, ref_of


def _bare_pod_keys(pod: Object) -> Iterator[str]:
    """Yield the keys of a pod without a controller: of the PodGroup that it names, and its own. Volcano gives a pod
    that names none a PodGroup, and writes its name into the pod."""
    if pod["metadata"].get("ownerReferences"):
        return
    ref = ref_of(pod)
    if group := annotations_of(pod).get(GROUP_NAME_ANNOTATION):
        yield Ref("scheduling.volcano.sh/v1beta1", "PodGroup", ref.namespace, group).key
    yield ref.key


def pods_by_job(pods: Sequence[Object], jobs: Mapping[str, Object]) -> tuple[dict[str, list[Object]], set[str]]:
    """Return Ref.key of a live job -> its pods; and the keys of jobs whose former namesakes (by uid) still have
    pods.

    A pod may be a job's through another job that owns it (JobSet -> Job -> Pod), which the uids prove; or through an
    object that is not watched (RayJob -> RayCluster -> Pod): see `_is_marked_pod`.
    """
    return OwnershipMemory().pods_by_job(pods, jobs)


@dataclass(frozen=True, slots=True)
class _Owners:
    """The owners of a pod: Ref.key of the live jobs that it belongs to, and of its former owners. missed: keys looked
    for among the jobs and not found."""

    pod: Object
    uid: str
    jobs: frozenset[str]
    former: frozenset[str]
    missed: frozenset[str]


Find = Callable[[str], Object | None]
"""The job of a Ref.key."""
_OWNERSHIP_FIELDS = ("uid", "name", "namespace", "ownerReferences", "labels", "annotations", "creationTimestamp")


@dataclass(slots=True)
class OwnershipMemory:
    """The jobs of each pod, kept while its owner fields and the relevant fields of the jobs are unchanged: most changes
    of a pod are in its status. known: by the pod's id(), which its owners keep alive. identities: Ref.key -> a job, and
    its relevant fields."""

    known: dict[int, _Owners] = field(default_factory=dict)
    identities: dict[str, tuple[Object, tuple[Any, ...]]] = field(default_factory=dict)

    def pods_by_job(
        self, pods: Sequence[Object], jobs: Mapping[str, Object]
    ) -> tuple[dict[str, list[Object]], set[str]]:
        """`pods_by_job`, the function, with this memory."""
        known = self._still_known(jobs)
        by_uid = {owners.uid: owners for owners in known.values()}
        self.known = {}
        found: dict[str, list[Object]] = {key: [] for key in jobs}
        former: set[str] = set()
        for pod in pods:
            if (owners := known.get(id(pod))) is None:
                before = by_uid.get(uid_of(pod))
                is_same = before is not None and _ownership_of(before.pod) == _ownership_of(pod)
                owners = replace(before, pod=pod) if before and is_same else _owners_of_pod(pod, jobs)
            self.known[id(pod)] = owners
            for key in owners.jobs:
                found[key].append(pod)
            if owners.former:
                former |= owners.former
        return found, former

    def _still_known(self, jobs: Mapping[str, Object]) -> Mapping[int, _Owners]:
        """Return the owners that are still valid with these jobs: a new job changes the owners of pods that were looked
        for there."""
        before, self.identities = self.identities, {}
        new, is_changed = set[str](), False
        for key, job in jobs.items():
            former = before.get(key)
            if former is None:
                new.add(key)
            if former is None or former[0] is not job:
                identity = _job_identity(job)
                is_changed |= former is not None and former[1] != identity
                former = job, identity
            self.identities[key] = former
        if is_changed or len(jobs) - len(new) < len(before):
            return {}
        if not new:
            return self.known
        return {at: owners for at, owners in self.known.items() if owners.missed.isdisjoint(new)}


def _ownership_of(pod: Object) -> list[Any]:
    """Return the fields of a pod that name its owners."""
    return [pod["metadata"].get(name) for name in _OWNERSHIP_FIELDS]


def _job_identity(job: Object) -> tuple[Any, ...]:
    """Return the fields of a job that decide which pods are its own."""
    metadata = job["metadata"]
    between = annotations_of(job).get(POD_OWNERS_ANNOTATION)
    return uid_of(job), metadata.get("ownerReferences"), metadata.get("creationTimestamp"), between


def _owners_of_pod(pod: Object, jobs: Mapping[str, Object]) -> _Owners:
    missed, owners, former = set[str](), set[str](), set[str]()

    def find(key: str) -> Object | None:
        if key not in jobs:
            missed.add(key)
        return jobs.get(key)

    if (bare := next(filter(find, _bare_pod_keys(pod)), None)) is not None:
        owners.add(bare)
    for key, is_live in _owner_keys(pod, find):
        (owners if is_live else former).add(key)
    if (marked := marked_job(pod)) is not None:
        key = f"{marked[0]}/{ref_of(pod).namespace}/{marked[1]}"
        if (job := find(key)) is not None and key not in owners and _is_marked_pod(pod, job, find):
            owners.add(key)
    return _Owners(pod, uid_of(pod), frozenset(owners), frozenset(former), frozenset(missed))


def _owner_keys(item: Object, find: Find, depth: int = 3) -> Iterator[tuple[str, bool]]:
    """Yield the keys of what owns the object, near and far, each with whether it is a live job, by its uid."""
    namespace = ref_of(item).namespace
    for owner in item["metadata"].get("ownerReferences") or ():
        key = Ref(owner["apiVersion"], owner["kind"], namespace, owner["name"]).key
        job = find(key)
        is_live = job is not None and uid_of(job) == owner["uid"]
        yield key, is_live
        if job is not None and is_live and depth:
            yield from _owner_keys(job, find, depth - 1)


def _is_marked_pod(pod: Object, job: Object, find: Find) -> bool:
    """Return whether a pod whose template names the job is of its present run: its owners are of the kinds that the job
    lists as between them, up to one that is not watched (a watched one would have the job's uid), and the pod is not
    older than the job."""
    between = annotations_of(job).get(POD_OWNERS_ANNOTATION, "").split(",")
    born, since = created_at(pod), created_at(job)
    item, seen = pod, set[str]()
    while (controller := controller_of(item)) is not None and uid_of(item) not in seen:
        seen.add(uid_of(item))
        owner = Ref(controller["apiVersion"], controller["kind"], ref_of(pod).namespace, controller["name"])
        if owner.group_kind not in between:
            return False
        if (found := find(owner.key)) is None:
            return born >= since
        if uid_of(found) != controller["uid"]:
            return False
        item = found
    return False
