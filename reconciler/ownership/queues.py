"""Queues with contents or children: decisions on data, no IO.

Volcano 1.15 deletes a Queue in any case; its contents then neither start nor are accounted for. Volcano 1.16 refuses to
delete a NamespaceQueue that has work or children, and a Queue with NamespaceQueues below it; a deleted one keeps a
finalizer until it is drained. So both are drained before the deletion is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from compiler import kubernetes as k8s
from compiler.cluster_state.pod_records import spec_queue
from compiler.cluster_state.refused_queues import local_parent
from compiler.fields.texts import short_list
from compiler.run_kinds import end_of_run
from compiler.specs.namespace_queues import queue_name
from reconciler.changes.diff import Change
from reconciler.changes.results import Changes, PrunePlan
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.observation.pods import POD_GROUP, VOLCANO_JOB

QUEUE, NAMESPACE_QUEUE = "Queue.scheduling.volcano.sh", "NamespaceQueue.scheduling.volcano.sh"
_QUEUES = (QUEUE, NAMESPACE_QUEUE)


def without_occupied_queues(observation: Observation, plan: PrunePlan) -> PrunePlan:
    """Return the plan, where the deletion of a queue is held while something runs or waits in it that does not go as
    well, or while NamespaceQueues are below it."""
    if not any(change.ref.group_kind in _QUEUES for change in plan.changes):
        return plan
    going = {k8s.uid_of(change.live) for change in (*plan.changes, *plan.leaving) if change.live is not None}

    def reason_of(change: Change) -> str:
        if change.action != "prune" or change.ref.group_kind not in _QUEUES:
            return ""
        below = _named(_children(observation, change))
        if below:
            return f"it left the repository, and is deleted when the queues below it have gone: {below}"
        names = _named(_occupants(observation, change, going))
        return f"it left the repository, and is deleted when what is in it has gone: {names}" if names else ""

    return plan.holding(reason_of)


def without_occupied_replacements(observation: Observation, changes: Changes) -> Changes:
    """Return the changes, where a NamespaceQueue that is to be deleted and recreated waits until it is drained."""
    held: dict[str, Change] = {}
    for change in changes.due:
        if change.action == "replace" and change.ref.group_kind == NAMESPACE_QUEUE:
            names = _named((*_children(observation, change), *_occupants(observation, change, set())))
            reason = f"it is recreated when what is in it and below it has gone: {names}"
            held |= {change.ref.key: replace(change, action="held", reason=reason)} if names else {}
    due = tuple(change for change in changes.due if change.ref.key not in held)
    return replace(changes, due=due, held=(*changes.held, *held.values())) if held else changes


def _named(items: Iterable[Object]) -> str:
    """Return the first of these objects by name, and how many more there are; empty for none."""
    return short_list(sorted(str(ref_of(item)) for item in items))


def _children(observation: Observation, change: Change) -> Iterator[Object]:
    """Yield the NamespaceQueues directly below a queue, including those being deleted."""
    for item in observation.objects_of_kind(NAMESPACE_QUEUE):
        if local_parent(item) == _queue_of(change):
            yield item


def _queue_of(change: Change) -> str:
    """Return the name by which Volcano's scheduler knows the queue."""
    is_local = change.ref.group_kind == NAMESPACE_QUEUE
    return queue_name(change.ref.namespace, change.ref.name) if is_local else change.ref.name


def _occupants(observation: Observation, change: Change, going: set[str]) -> Iterator[Object]:
    """Yield unfinished PodGroups of the queue, and Volcano Jobs without one. going: uids of objects deleted now or
    before; in a NamespaceQueue they count until they do not exist any more."""
    queue, is_strict = _queue_of(change), change.ref.group_kind == NAMESPACE_QUEUE
    going = set() if is_strict else going
    groups = [group for group in observation.objects_of_kind(POD_GROUP) if spec_queue(group) == queue]
    over = _groups_that_are_over(observation)
    for group in groups:
        is_over = (
            k8s.status_of(group).get("phase") == "Completed" or (k8s.namespace_of(group), k8s.name_of(group)) in over
        )
        is_over = is_over or (k8s.is_terminating(group) and not is_strict)
        if not is_over and going.isdisjoint((k8s.uid_of(group), *_owners(group))):
            yield group
    with_group = {uid for group in groups for uid in _owners(group)}
    for job in observation.objects_of_kind(VOLCANO_JOB):
        is_over = end_of_run(job) is not None or (k8s.is_terminating(job) and not is_strict)
        if spec_queue(job) == queue and not is_over and k8s.uid_of(job) not in going | with_group:
            yield job


def _groups_that_are_over(observation: Observation) -> set[tuple[str, str]]:
    """Namespace and name of the PodGroups that have pods, of which none runs or waits any more."""
    finished, alive = set[tuple[str, str]](), set[tuple[str, str]]()
    for pod in observation.objects_of_kind("Pod"):
        if group := k8s.annotations_of(pod).get(k8s.GROUP_NAME_ANNOTATION):
            (finished if k8s.is_finished_pod(pod) else alive).add((k8s.namespace_of(pod), group))
    return finished - alive


def _owners(item: Object) -> list[str]:
    return [owner["uid"] for owner in item["metadata"].get("ownerReferences") or ()]
