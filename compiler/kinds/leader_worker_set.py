"""LeaderWorkerSet (leaderworkerset.x-k8s.io/v1, lws 0.7): groups of a leader and its workers.

Each group is a gang of its own, as in LWS and in Volcano (a PodGroup for each): the set starts with one, and adds more
as there is room for whole ones; all together if the object declares it (`gangplan.dev/gang`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from compiler import kubernetes as k8s
from compiler.kinds.common.job_kinds import job_kind, job_row
from compiler.kinds.common.jobs import annotation_value, is_gang, with_annotated_queue
from compiler.specs.gang_spec import ExclusiveUnits, GangSpec, RoleSpec
from compiler.syntax.documents import Document
from compiler.syntax.paths import parse_path, value_at

_GROUP = "spec.leaderWorkerTemplate"


def _labels(document: Document, role: str) -> Mapping[str, str]:
    labels = (k8s.LEADER_WORKER_SET_LABEL, k8s.LEADER_WORKER_GROUP_LABEL, k8s.LEADER_WORKER_SUBGROUP_LABEL)
    return dict.fromkeys(labels, document.name)


def _amend(gang: GangSpec) -> GangSpec:
    """A group has `size` pods, the first of which is the leader; it has the workers' template where it has no own."""
    spec = gang.document.data["spec"]
    size = value_at(spec, ("leaderWorkerTemplate", "size"))
    size = int(size) if isinstance(size, int | float) else 1  # the schema reports any other value
    workers = size - (len(gang.roles) > 1)

    comes_together = is_gang(gang.document)

    def with_group_size(role: RoleSpec) -> RoleSpec:
        of_group = 1 if role.name == "leader" else workers
        pods = role.replicas * of_group
        return replace(role, replicas=pods, minimum=pods if comes_together else min(pods, of_group), unit=of_group)

    roles = tuple(map(with_group_size, gang.roles))
    is_late = (
        spec.get("startupPolicy") == "LeaderReady"
        or annotation_value(gang.document, k8s.LEADER_WORKER_TOPOLOGY_ANNOTATION) is not None
    )
    late = ("worker",) if is_late else ()
    minimum = sum(role.minimum for role in roles)
    gang = gang.with_controller(dependent_roles=late, grows_in_units=not comes_together)
    gang = replace(gang, roles=roles, minimum=minimum)
    return with_annotated_queue(replace(gang, exclusive=tuple(_exclusive_units(gang, size))))


def _exclusive_units(gang: GangSpec, size: int) -> Iterator[ExclusiveUnits]:
    """Yield the groups, and the subgroups, each of which has a domain of its own (lws pod_webhook.go). A leader that
    makes the group one pod larger than its subgroups is in the first of these."""
    names, is_nested = tuple(role.name for role in gang.roles), False
    if isinstance(key := annotation_value(gang.document, k8s.LEADER_WORKER_TOPOLOGY_ANNOTATION), str) and key:
        path = ("metadata", "annotations", k8s.LEADER_WORKER_TOPOLOGY_ANNOTATION)
        yield ExclusiveUnits(key, names, size, k8s.LEADER_WORKER_SET_LABEL, k8s.LEADER_WORKER_GROUP_LABEL, path)
        is_nested = True
    of_subgroup = value_at(gang.document.data, parse_path(f"{_GROUP}.subGroupPolicy.subGroupSize"))
    key = annotation_value(gang.document, k8s.LEADER_WORKER_SUBGROUP_TOPOLOGY_ANNOTATION)
    if not (isinstance(key, str) and key and isinstance(of_subgroup, int) and of_subgroup > 0):
        return
    path = ("metadata", "annotations", k8s.LEADER_WORKER_SUBGROUP_TOPOLOGY_ANNOTATION)
    largest = of_subgroup + (size % of_subgroup != 0)
    obstacle = "the leader's subgroup has a pod more than the others" if of_subgroup < largest < size else ""
    obstacle = "subgroups lie within an exclusive topology of groups" if is_nested else obstacle
    labels = (k8s.LEADER_WORKER_SET_LABEL, k8s.LEADER_WORKER_SUBGROUP_LABEL)
    yield ExclusiveUnits(key, names, largest, *labels, path, obstacle)


KIND = job_kind(job_row("LeaderWorkerSet.leaderworkerset.x-k8s.io", labels=_labels, amend=_amend))
