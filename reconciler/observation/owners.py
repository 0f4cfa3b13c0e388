"""Which pods are whose: by controller, by mark, by PodGroup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """The keys of a pod without a controller: of the PodGroup that it names, and its own. Volcano gives a pod that
    names none a PodGroup, and writes its name into the pod."""
    if pod["metadata"].get("ownerReferences"):
        return
    ref = ref_of(pod)
    if group := annotations_of(pod).get(GROUP_NAME_ANNOTATION):
        yield Ref("scheduling.volcano.sh/v1beta1", "PodGroup", ref.namespace, group).key
    yield ref.key


def pods_by_job(pods: Sequence[Object], jobs: Mapping[str, Object]) -> tuple[dict[str, list[Object]], set[str]]:
    """Ref.key of a live job -> its pods; and the keys of jobs whose former namesakes (by uid) still have pods.

    A pod may be a job's through another job that owns it (JobSet -> Job -> Pod), which the uids prove; or through an
    object that is not watched (RayJob -> RayCluster -> Pod): see `_is_marked_pod`.
    """
    return OwnershipMemory().pods_by_job(pods, jobs)


@dataclass(frozen=True, slots=True)
class _Owners:
    """The owners of a pod: Ref.key of the live jobs that it belongs to, and of its former owners. missed: of what was
    looked for among the jobs and was not there."""

    pod: Object
    uid: str
    jobs: frozenset[str]
    former: frozenset[str]
    missed: frozenset[str]


class _Lookups(Mapping[str, Object]):
    """The jobs, and the keys that were looked for in vain."""

    def __init__(self, jobs: Mapping[str, Object]) -> None:
        self.jobs, self.missed = jobs, set[str]()

    def __getitem__(self, key: str) -> Object:
        return self.jobs[key]

    def __contains__(self, key: object) -> bool:
        if key in self.jobs:
            return True
        self.missed.add(str(key))
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


_OWNERSHIP_FIELDS = ("uid", "name", "namespace", "ownerReferences", "labels", "annotations", "creationTimestamp")


@dataclass(slots=True)
class OwnershipMemory:
    """The jobs each pod belongs to, remembered while what it says of its owners and the relevant fields of the jobs are
    unchanged: most of what changes of a pod is its status. known: by the pod's id(), which its owners keep alive.
    identities: Ref.key -> a job, and its relevant fields."""

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
            owners = known.get(id(pod))
            if owners is None:
                owners = _owners_of_changed_pod(pod, by_uid.get(uid_of(pod)), jobs)
            self.known[id(pod)] = owners
            for key in owners.jobs:
                found[key].append(pod)
            if owners.former:
                former |= owners.former
        return found, former

    def _still_known(self, jobs: Mapping[str, Object]) -> Mapping[int, _Owners]:
        """What still holds with these jobs: a new one changes the owners of pods that were looked for there."""
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


def _owners_of_changed_pod(pod: Object, before: _Owners | None, jobs: Mapping[str, Object]) -> _Owners:
    """The owners of a pod. before: those of its former state."""
    if before is None or not _says_the_same(before.pod, pod):
        return _owners_of_pod(pod, jobs)
    return replace(before, pod=pod)


def _says_the_same(one: Object, other: Object) -> bool:
    """Whether two states of a pod say the same of whose it is."""
    was, now = one["metadata"], other["metadata"]
    return all(was.get(name) == now.get(name) for name in _OWNERSHIP_FIELDS)


def _job_identity(job: Object) -> tuple[Any, ...]:
    """The fields of a job that decide which pods are its own."""
    metadata = job["metadata"]
    between = annotations_of(job).get(POD_OWNERS_ANNOTATION)
    return uid_of(job), metadata.get("ownerReferences"), metadata.get("creationTimestamp"), between


def _owners_of_pod(pod: Object, live_jobs: Mapping[str, Object]) -> _Owners:
    jobs, owners, former = _Lookups(live_jobs), set[str](), set[str]()
    if (bare := next(filter(jobs.__contains__, _bare_pod_keys(pod)), None)) is not None:
        owners.add(bare)
    for at in _owners(pod, jobs):
        if isinstance(at, str):
            former.add(at)
        else:
            owners.add(ref_of(at).key)
    if (marked := marked_job(pod)) is not None:
        key = f"{marked[0]}/{ref_of(pod).namespace}/{marked[1]}"
        if key in jobs and key not in owners and _is_marked_pod(pod, jobs[key], jobs):
            owners.add(key)
    return _Owners(pod, uid_of(pod), frozenset(owners), frozenset(former), frozenset(jobs.missed))


def _owners(item: Object, jobs: Mapping[str, Object], depth: int = 3) -> Iterator[Object | str]:
    """The live jobs that own the object, near and far, each by its uid; of other owners the keys."""
    namespace = ref_of(item).namespace
    for owner in item["metadata"].get("ownerReferences") or ():
        key = Ref(owner["apiVersion"], owner["kind"], namespace, owner["name"]).key
        if key in jobs and uid_of(jobs[key]) == owner["uid"]:
            yield jobs[key]
            if depth:
                yield from _owners(jobs[key], jobs, depth - 1)
        else:
            yield key


def _is_marked_pod(pod: Object, job: Object, jobs: Mapping[str, Object]) -> bool:
    """Whether a pod whose template names the job is of its present run: its owners are of kinds that the job says stand
    between them, up to one that is not watched (else its uid would have told), and the pod is not older than the
    job."""
    between = annotations_of(job).get(POD_OWNERS_ANNOTATION, "").split(",")
    born, since = created_at(pod), created_at(job)
    item, seen = pod, set[str]()
    while (controller := controller_of(item)) is not None and uid_of(item) not in seen:
        seen.add(uid_of(item))
        owner = Ref(controller["apiVersion"], controller["kind"], ref_of(pod).namespace, controller["name"])
        if owner.group_kind not in between:
            return False
        if owner.key not in jobs:
            return born >= since
        if uid_of(jobs[owner.key]) != controller["uid"]:
            return False
        item = jobs[owner.key]
    return False
