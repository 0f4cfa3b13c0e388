"""Queues that left the repository while others have something in them: Volcano deletes such a queue without a question,
and what is in it then neither starts nor is accounted for."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.kubernetes import (
    GROUP_NAME_ANNOTATION,
    annotations_of,
    is_finished_pod,
    is_terminating,
    namespace_of,
    status_of,
    uid_of,
)
from compiler.run_kinds import end_of_run
from reconciler.changes.allowed import PrunePlan
from reconciler.changes.diff import Change
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.observation.volcano import POD_GROUP, VOLCANO_JOB

_QUEUE = "Queue.scheduling.volcano.sh"
_NAMED = 3
"""Objects in a queue that a reason names at most."""


def without_occupied_queues(observation: Observation, plan: PrunePlan) -> PrunePlan:
    """The plan, where the deletion of a queue is held while something runs or waits in it that does not go as well."""
    if not any(change.ref.group_kind == _QUEUE for change in plan.changes):
        return plan
    going = {uid_of(change.live) for change in (*plan.changes, *plan.leaving) if change.live is not None}

    def reason_of(change: Change) -> str:
        is_deleted_queue = change.ref.group_kind == _QUEUE and change.action == "prune"
        return _reason(sorted(_occupants(observation, change.ref.name, going))) if is_deleted_queue else ""

    return plan.holding(reason_of)


def _occupants(observation: Observation, queue: str, going: set[str]) -> Iterator[str]:
    """PodGroups that are not over, and Volcano Jobs without one. going: uids of what is deleted now or was before."""
    groups = [group for group in observation.objects_of_kind(POD_GROUP) if _is_in(group, queue)]
    over = _groups_that_are_over(observation)
    for group in groups:
        is_over = status_of(group).get("phase") == "Completed" or is_terminating(group) or _name(group) in over
        if not is_over and going.isdisjoint((uid_of(group), *_owners(group))):
            yield str(ref_of(group))
    with_group = {uid for group in groups for uid in _owners(group)}
    for job in observation.objects_of_kind(VOLCANO_JOB):
        is_over = end_of_run(job) is not None or is_terminating(job)
        if _is_in(job, queue) and not is_over and uid_of(job) not in going | with_group:
            yield str(ref_of(job))


def _groups_that_are_over(observation: Observation) -> set[tuple[str, str]]:
    """Namespace and name of the PodGroups that have pods, of which none runs or waits any more."""
    finished: set[tuple[str, str]] = set()
    alive: set[tuple[str, str]] = set()
    for pod in observation.objects_of_kind("Pod"):
        if group := annotations_of(pod).get(GROUP_NAME_ANNOTATION):
            (finished if is_finished_pod(pod) else alive).add((namespace_of(pod), group))
    return finished - alive


def _name(group: Object) -> tuple[str, str]:
    return namespace_of(group), str(group["metadata"]["name"])


def _is_in(item: Object, queue: str) -> bool:
    return ((item.get("spec") or {}).get("queue") or "default") == queue


def _owners(item: Object) -> list[str]:
    return [owner["uid"] for owner in item["metadata"].get("ownerReferences") or ()]


def _reason(names: list[str]) -> str:
    """Why a queue in which these are stays; empty where it holds none."""
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"it left the repository, and is deleted when what is in it has gone: {', '.join(names[:_NAMED])}{more}"
