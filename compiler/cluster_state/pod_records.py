"""The parts of a state's pods that plans read, whatever the specs: read once, since many plans are made against one
state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

from compiler import kubernetes as k8s
from compiler.cluster_state.owners import JobIdentity, RoleLookup, marked_owner, possible_owners, role_name_of
from compiler.fields.timestamp import epoch_seconds
from compiler.session import Session
from compiler.specs.gang_spec import GangSpec
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
