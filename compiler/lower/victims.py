"""Which gangs may be evicted as far as their owners decide, and what run time that would lose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import ceil

from compiler.cluster_state.observed import ObservedState
from compiler.fields.duration import go_duration_seconds
from compiler.kubernetes import COOLDOWN_ANNOTATION, PREEMPTABLE_ANNOTATION
from compiler.lower.gang_order import SYSTEM_PRIORITIES
from compiler.specs import GangSpec, PriorityClassSpec, SchedulerSpec, Specs
from compiler.volcano.eviction_votes import TRUE_WORDS, eviction_votes, has_cooldown_plugin


def non_preempting_classes(classes: Iterable[PriorityClassSpec]) -> frozenset[str]:
    """Priority classes with preemptionPolicy Never."""
    return frozenset(spec.name for spec in classes if spec.preemption_policy == "Never")


def eviction_losses(
    gang_indices: Iterable[int], specs: Specs, observed: ObservedState, clock: int | None = None
) -> dict[int, int | None]:
    """Gang -> seconds of its run that its eviction would lose; None: it may not be evicted. clock: until when it ran;
    else until the newest event.

    A gang that waits may be evicted (loss 0) where that lets it borrow a dedicated domain of another queue.
    """
    preempt_votes, reclaim_votes = eviction_votes(specs.scheduler)
    evicts = preempt_votes is not None or reclaim_votes is not None
    seen = replace(observed, now=max(clock, observed.now or clock)) if clock is not None else observed
    lends = reclaim_votes is not None and any(queue.dedicated_domains for queue in specs.queues)

    def loss(j: int) -> int | None:
        gang = specs.gangs[j]
        if j not in observed.running_pods:
            return 0 if lends and _is_evictable_from_start(j, gang, observed, specs.scheduler) else None
        evictable = evicts and _is_evictable(j, gang, observed, specs.scheduler)
        return seconds_run(j, seen) if evictable else None

    return {j: loss(j) for j in gang_indices}


def _is_evictable(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> bool:
    """Whether the running gang may lose pods.

    Not where the job, a role of it or one of its pods says `volcano.sh/preemptable` other than true (nothing said is
    true); not in kube-system or with a system priority class (Volcano's plugin conformance); not while the plugin cdp
    guards a pod that runs for less than its cooldown time.
    """
    said = [*_annotations_and_labels(gang), *observed.eviction_notes.get(j, ())]
    if any(PREEMPTABLE_ANNOTATION in notes and notes[PREEMPTABLE_ANNOTATION] not in TRUE_WORDS for notes in said):
        return False
    if gang.namespace == "kube-system" or gang.priority_class in SYSTEM_PRIORITIES:
        return False
    wait = _cooldown_seconds(j, gang, observed, scheduler)
    return not wait or seconds_run(j, observed, last_pod=True) >= wait


def cooldown_end(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> int | None:
    """When the cooldown of its youngest pod is over, in seconds since the epoch; None where none guards it, or nobody
    knows since when it runs."""
    wait, starts = _cooldown_seconds(j, gang, observed, scheduler), observed.start_times.get(j)
    return max(starts) + ceil(wait) if wait and starts else None


def _cooldown_seconds(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> float:
    """Seconds; 0 for none."""
    if not has_cooldown_plugin(scheduler):
        return 0.0
    said = [*_annotations_and_labels(gang), *observed.eviction_notes.get(j, ())]
    return max(
        (go_duration_seconds(notes[COOLDOWN_ANNOTATION]) for notes in said if COOLDOWN_ANNOTATION in notes), default=0.0
    )


def _is_evictable_from_start(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> bool:
    """Whether the gang, which waits, could be evicted from the moment it starts: as `_evictable`, and no disruption
    budget selects its pods."""
    namespace = gang.namespace
    return _is_evictable(j, gang, observed, scheduler) and not any(
        budget.selects(namespace, role.labels) for budget in observed.budget_selections for role in gang.roles
    )


def seconds_run(j: int, observed: ObservedState, last_pod: bool = False) -> int:
    """Seconds that the gang's first pod (its last one) has run, at the newest time that the state knows; 0 where that
    is not known."""
    starts = observed.start_times.get(j)
    return (
        max(0, observed.now - (max(starts) if last_pod else min(starts))) if starts and observed.now is not None else 0
    )


def _annotations_and_labels(gang: GangSpec) -> Iterable[Mapping[str, str]]:
    """Of the job and of its roles' pods; labels count as well."""
    metadata = gang.document.data.get("metadata") or {}
    for found in (metadata.get("annotations"), metadata.get("labels"), *(role.annotations for role in gang.roles)):
        yield {str(key): str(value) for key, value in (found or {}).items()}
