"""What plans read of a state's pods, whatever the specs: read once, since many plans are made against one state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.cluster_state.owners import JobIdentity, possible_owners, role_name_of
from compiler.fields.timestamp import epoch_seconds
from compiler.kubernetes import (
    EVICTION_KEYS,
    GROUP_NAME_ANNOTATION,
    Object,
    annotations_of,
    bound_node,
    is_finished_pod,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    selected_hostname,
    status_of,
)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """key: (namespace, name). node_name: where it is bound, else "". group: its PodGroup. owners: possible ones,
    the surest first. start_time: seconds since the epoch. eviction_notes: annotations and labels about evictions."""

    pod: Object
    key: tuple[str, str]
    node_name: str
    selected_hostname: str
    group: Object | None
    owners: tuple[JobIdentity, ...]
    role_name: str | None
    is_terminating: bool
    start_time: int | None
    eviction_notes: tuple[Mapping[str, str], ...]


def read_pods(pods: Sequence[Object], pod_groups: Sequence[Object]) -> Iterator[PodRecord]:
    """A record of each pod that has not finished."""
    groups = {(namespace_of(group), name_of(group)): group for group in pod_groups}
    for pod in pods:
        if is_finished_pod(pod):
            continue
        annotations, key = annotations_of(pod), (namespace_of(pod), name_of(pod))
        group = groups.get((key[0], annotations.get(GROUP_NAME_ANNOTATION, "")))
        yield PodRecord(
            pod,
            key,
            bound_node(pod),
            selected_hostname(pod),
            group,
            tuple(possible_owners(pod, group)),
            role_name_of(pod),
            is_terminating(pod),
            epoch_seconds(status_of(pod).get("startTime")),
            tuple(filter(None, map(_eviction_notes, (labels_of(pod), annotations)))),
        )


def _eviction_notes(texts: Mapping[str, str]) -> Mapping[str, str]:
    return {key: str(texts[key]) for key in texts.keys() & EVICTION_KEYS}
