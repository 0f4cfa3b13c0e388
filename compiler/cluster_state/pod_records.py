"""The parts of a state's pods that plans read, whatever the specs: read once, since many plans are made against one
state. And the job, role and queue to which a pod belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

from compiler import kubernetes as k8s
from compiler.fields.times import epoch_seconds
from compiler.session import Session
from compiler.specs.gang_spec import GangSpec
from compiler.specs.namespace_queues import workload_queue
from compiler.volcano.eviction_votes import EvictionWords, pod_eviction_words


@dataclass(frozen=True, slots=True)
class PodRecord:
    """key: (namespace, name). node_name: where it is bound, else "". group: its PodGroup. owners: possible ones, the
    surest first. marked_owner: the job that its template names, and Kind.group of its controller. start_time: seconds
    since the epoch. checkpoint_time: of its last one, as it reports. eviction_words: its own annotations."""

    pod: k8s.Object
    key: tuple[str, str]
    node_name: str
    selected_hostname: str
    group: k8s.Object | None
    owners: tuple[JobIdentity, ...]
    marked_owner: tuple[JobIdentity, str] | None
    role_name: str | None
    is_terminating: bool
    start_time: int | None
    checkpoint_time: int | None
    eviction_words: EvictionWords


def read_pods(pods: Sequence[k8s.Object], pod_groups: Sequence[k8s.Object], session: Session) -> list[PodRecord]:
    """Return a record of each pod that has not finished."""
    unfinished = (pod for pod in pods if not k8s.is_finished_pod(pod))
    return session.each("pod record", _with_groups(unfinished, pod_groups), _pod_record)


def read_succeeded_pods(pods: Sequence[k8s.Object], pod_groups: Sequence[k8s.Object]) -> list[PodRecord]:
    """Return a record of each pod that has ended well and is not being deleted."""
    return list(starmap(_pod_record, _with_groups(filter(_has_ended_well, pods), pod_groups)))


def _has_ended_well(pod: k8s.Object) -> bool:
    return k8s.is_succeeded_pod(pod) and not k8s.is_terminating(pod)


def _with_groups(
    pods: Iterable[k8s.Object], pod_groups: Sequence[k8s.Object]
) -> Iterator[tuple[k8s.Object, k8s.Object | None]]:
    """Return each pod with its PodGroup."""
    groups = {(k8s.namespace_of(group), k8s.name_of(group)): group for group in pod_groups}
    named = ((pod, (k8s.namespace_of(pod), k8s.annotations_of(pod).get(k8s.GROUP_NAME_ANNOTATION, ""))) for pod in pods)
    return ((pod, groups.get(name)) for pod, name in named)


def _pod_record(pod: k8s.Object, group: k8s.Object | None) -> PodRecord:
    annotations = k8s.annotations_of(pod)
    return PodRecord(
        pod,
        (k8s.namespace_of(pod), k8s.name_of(pod)),
        k8s.bound_node(pod),
        k8s.selected_hostname(pod),
        group,
        tuple(possible_owners(pod, group)),
        marked_owner(pod),
        role_name_of(pod),
        k8s.is_terminating(pod),
        epoch_seconds(k8s.status_of(pod).get("startTime")),
        epoch_seconds(annotations.get(k8s.CHECKPOINT_ANNOTATION)),
        pod_eviction_words(pod),
    )


def pods_of_roles(
    records: Iterable[PodRecord], gangs: Sequence[GangSpec], index: Mapping[JobIdentity, int]
) -> Iterator[tuple[PodRecord, int, int]]:
    """(pod, its gang, its role) of the pods that are of a role of a gang in the index."""
    roles = RoleLookup(gangs)
    for record in records:
        j = gang_of_pod(record, gangs, index)
        t = None if j is None else roles.role_of(j, record.key[1], record.role_name)
        if j is not None and t is not None:
            yield record, j, t


def gang_of_pod(record: PodRecord, gangs: Sequence[GangSpec], index: Mapping[JobIdentity, int]) -> int | None:
    """Return the pod's gang by its owners; else the gang that its template names, if that may own pods through a
    controller of its kind."""
    for owner in record.owners:
        if (found := index.get(owner)) is not None:
            return found
    job, controller = record.marked_owner or (None, "")
    j = None if job is None else index.get(job)
    return j if j is not None and controller in gangs[j].controller.pod_owners else None


JobIdentity = tuple[str, str, str, str]
"""(namespace, name, kind, API group)."""


def gang_identity(gang: GangSpec) -> JobIdentity:
    return gang.namespace, gang.document.name, gang.document.kind, gang.document.group


def object_identity(item: k8s.Object) -> JobIdentity:
    return k8s.namespace_of(item), k8s.name_of(item), str(item["kind"]), k8s.api_group_of(item)


def possible_owners(pod: k8s.Object, group: k8s.Object | None) -> Iterator[JobIdentity]:
    """Possible owners, the surest first: the controller, the labels of job controllers, the PodGroup and its owner, and
    itself. group: the pod's PodGroup."""
    yield from _owner_references(pod)
    labels = k8s.labels_of(pod)
    for label, kinds in k8s.JOB_NAME_LABELS.items():
        if label in labels:
            for kind, api_group in kinds:
                yield k8s.namespace_of(pod), labels[label], kind, api_group
    if group is not None:
        yield from group_identities(group)
    yield k8s.namespace_of(pod), k8s.name_of(pod), "Pod", ""


def group_identities(group: k8s.Object) -> Iterator[JobIdentity]:
    """Yield a PodGroup itself, and its owners."""
    yield object_identity(group)
    yield from _owner_references(group)


def marked_owner(pod: k8s.Object) -> tuple[JobIdentity, str] | None:
    """Return the job that the pod's template names, and Kind.group of the pod's controller, by which it must be
    owned."""
    if (marked := k8s.marked_job(pod)) is None or (controller := k8s.controller_of(pod)) is None:
        return None
    kind, _, group = marked[0].partition(".")
    group_kind = f"{controller.get('kind')}.{k8s.api_group_of(controller)}".removesuffix(".")
    return (k8s.namespace_of(pod), marked[1], kind, group), group_kind


def _owner_references(item: k8s.Object) -> Iterator[JobIdentity]:
    for reference in item["metadata"].get("ownerReferences") or ():
        yield k8s.namespace_of(item), reference.get("name", ""), reference.get("kind", ""), k8s.api_group_of(reference)


def role_name_of(pod: k8s.Object) -> str | None:
    """Return the role's name by the controller's label or annotation, case ignored (Kubeflow writes "worker" for
    Worker)."""
    name = _first_value(pod, k8s.ROLE_KEYS, ("labels", "annotations"))
    return name.lower() if name else None


class RoleLookup:
    """Finds the role of a pod within its gang; each gang's names are indexed once."""

    def __init__(self, gangs: Sequence[GangSpec]) -> None:
        self.gangs = gangs
        self._names: dict[int, tuple[dict[str, int], dict[str, int]]] = {}

    def role_of(self, j: int, pod_name: str, role_name: str | None) -> int | None:
        """Return the pod's role: by the pod's name for bare pods, else by the role's name; a gang of one role needs
        neither."""
        names = self._names.get(j)
        if names is None:
            roles = tuple(enumerate(self.gangs[j].roles))[::-1]  # of equal names the first role's counts
            by_pod = {document.name: t for t, role in roles for document in role.pod_documents}
            names = self._names[j] = by_pod, {role.name.lower(): t for t, role in roles}
        by_pod, by_name = names
        if pod_name in by_pod:
            return by_pod[pod_name]
        if role_name:
            return by_name.get(role_name)
        return 0 if len(self.gangs[j].roles) == 1 else None


def queue_of(pod: k8s.Object, group: k8s.Object | None) -> str | None:
    """Return the name of the pod's queue: its own annotation or label, else its PodGroup's queue."""
    for where in ("annotations", "labels"):
        if name := _first_value(pod, k8s.QUEUE_KEYS, (where,)):
            return workload_queue(k8s.namespace_of(pod), name)
    return spec_queue(group) if group else None


def spec_queue(item: k8s.Object) -> str:
    """Return the name of the queue of a PodGroup or a Volcano Job."""
    return workload_queue(k8s.namespace_of(item), str((item.get("spec") or {}).get("queue") or "default"))


def _first_value(pod: k8s.Object, keys: Sequence[str], sections: Sequence[str]) -> str | None:
    for key in keys:
        for section in sections:
            if value := (pod["metadata"].get(section) or {}).get(key):
                return str(value)
    return None
