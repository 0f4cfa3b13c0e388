"""What is suspended: objects that the reconciler leaves alone, since git or an operator says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from compiler.kubernetes import SUSPEND_ANNOTATION, annotations_of
from reconciler.changes.diff import Change
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.context import Reconciler
from reconciler.ownership.guard import PrunePlan

SUSPENDED = "it is suspended, so nothing of it is written, started, evicted or deleted"
"""Why a change is held."""
BY_REQUEST = "`gangplan suspend` holds it"
"""Why a job is not planned."""


def is_suspended(r: Reconciler, item: Object) -> bool:
    """Whether the annotation of an object, in git or in the cluster, or an operator's request suspends it."""
    return annotations_of(item).get(SUSPEND_ANNOTATION) == "true" or r.request_poller.current().suspends(ref_of(item))


def suspended_keys(r: Reconciler, objects: Mapping[str, Object]) -> set[str]:
    """Which of these objects, by Ref.key, are suspended."""
    if r.request_poller.current().suspended:
        return {key for key, item in objects.items() if is_suspended(r, item)}
    return {key for key, item in objects.items() if annotations_of(item).get(SUSPEND_ANNOTATION) == "true"}


def suspended_jobs(r: Reconciler, refs: Iterable[Ref]) -> Iterator[tuple[str, str]]:
    """Ref.key of each job that a request suspends, with why it is not planned."""
    requests = r.request_poller.current()
    for ref in refs if requests.suspended else ():
        if requests.suspends(ref):
            yield ref.key, BY_REQUEST


def without_suspended(r: Reconciler, plan: PrunePlan) -> PrunePlan:
    """The plan, where what is suspended is held, be it to be deleted or given back."""
    suspended = [change for change in (*plan.changes, *plan.releases) if _is_left_alone(r, change)]
    return replace(
        plan,
        changes=tuple(change for change in plan.changes if change not in suspended),
        releases=tuple(change for change in plan.releases if change not in suspended),
        held_changes=(*plan.held_changes, *(replace(each, action="held", reason=SUSPENDED) for each in suspended)),
    )


def _is_left_alone(r: Reconciler, change: Change) -> bool:
    return change.live is not None and is_suspended(r, change.live)
