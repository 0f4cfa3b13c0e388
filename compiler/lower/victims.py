"""Eviction as owners decide it: which gangs may be evicted, and what run time that would lose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from compiler.cluster_state.observed import ObservedState
from compiler.fields.duration import go_duration_seconds
from compiler.lower.gang_order import SYSTEM_PRIORITIES
from compiler.specs import GangSpec, PriorityClassSpec, SchedulerSpec, Specs
from compiler.volcano.eviction_votes import (
    POD_EVICTION_ACTIONS,
    cooldown_times,
    eviction_votes,
    has_cooldown_plugin,
    preemptable_word,
)


def non_preempting_classes(classes: Iterable[PriorityClassSpec]) -> frozenset[str]:
    """Priority classes with preemptionPolicy Never."""
    return frozenset(spec.name for spec in classes if spec.preemption_policy == "Never")


@dataclass(frozen=True, slots=True)
class EvictionTerms:
    """On what terms a gang may be evicted as far as its owner decides. loss: seconds of its run that one pod would
    lose. protected: (role, node) -> running pods that may not go. tells_checkpoint: some pod says when its last one
    was."""

    loss: int
    protected: Mapping[tuple[int, int], int]
    tells_checkpoint: bool = False


def eviction_terms(gang_indices: Iterable[int], specs: Specs, observed: ObservedState) -> dict[int, EvictionTerms]:
    """The gangs that may be evicted, each with its terms.

    A gang that waits may be evicted where that lets it borrow a dedicated domain of another queue.
    """
    preempt_votes, reclaim_votes = eviction_votes(specs.scheduler)
    evicts = preempt_votes is not None or reclaim_votes is not None
    lends = reclaim_votes is not None and any(queue.dedicated_domains for queue in specs.queues)
    found = {}
    for j in gang_indices:
        gang = specs.gangs[j]
        if j not in observed.running_pods:
            if lends and _is_evictable_from_start(j, gang, observed, specs.scheduler):
                found[j] = EvictionTerms(0, {})
        elif evicts and _is_evictable(j, gang, observed, specs.scheduler):
            protected = _protected_pods(j, gang, observed)
            if sum(protected.values()) < observed.running_pod_count(j):
                found[j] = EvictionTerms(_seconds_lost(j, observed), protected, j in observed.checkpoint_times)
    return found


def _is_evictable(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> bool:
    """Whether the gang may lose those of its pods that are preemptable.

    Not in kube-system or with a system priority class (Volcano's plugin conformance); not while the plugin cdp guards a
    pod that runs for less than its cooldown time; not where its job says that it is not preemptable, and only actions
    evict that ask the job (Volcano, utils.IsJobPreemptableForGangEviction).
    """
    if gang.namespace == "kube-system" or gang.priority_class in SYSTEM_PRIORITIES:
        return False
    asks_pods = scheduler is not None and any(plain in scheduler.actions for plain, *_ in POD_EVICTION_ACTIONS)
    if not asks_pods and preemptable_word(*_job_texts(gang)) is False:
        return False
    wait = _cooldown_seconds(j, gang, observed, scheduler)
    return not wait or seconds_run(j, observed, last_pod=True) >= wait


def _protected_pods(j: int, gang: GangSpec, observed: ObservedState) -> Counter[tuple[int, int]]:
    """(role, node) -> running pods that are not preemptable: by what they say themselves, otherwise by their role."""
    protected = Counter[tuple[int, int]]()
    for (t, node, said), pods in observed.preemptable.get(j, Counter()).items():
        if not (_is_role_preemptable(gang, t) if said is None else said):
            protected[t, node] += pods
    return protected


def _is_role_preemptable(gang: GangSpec, t: int) -> bool:
    """Whether the controller makes preemptable pods of the role: it writes the job's annotation over the template's,
    and the job's label over the template's. Nothing said is true."""
    job_annotations, job_labels = _job_texts(gang)
    role = gang.roles[t]
    return preemptable_word({**role.annotations, **job_annotations}, {**role.labels, **job_labels}) is not False


def cooldown_end(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> int | None:
    """When the cooldown of its youngest pod is over, in seconds since the epoch; None without a cooldown, and where it
    is not known since when the pods run."""
    wait, starts = _cooldown_seconds(j, gang, observed, scheduler), observed.start_times.get(j)
    return max(starts) + ceil(wait) if wait and starts else None


def _cooldown_seconds(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> float:
    """Seconds; 0 for none."""
    if not has_cooldown_plugin(scheduler):
        return 0.0
    said = cooldown_times(*_job_texts(gang), *(role.annotations for role in gang.roles))
    return max(map(go_duration_seconds, (*said, *observed.cooldowns.get(j, ()))), default=0.0)


def _is_evictable_from_start(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> bool:
    """Whether the gang, which waits, could be evicted from the moment it starts: as `_is_evictable`, all of its roles
    are preemptable, and no disruption budget selects its pods."""
    namespace = gang.namespace
    if not all(_is_role_preemptable(gang, t) for t in range(len(gang.roles))):
        return False
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


def _seconds_lost(j: int, observed: ObservedState) -> int:
    """Seconds of its run that a pod of gang j would lose, on average, rounded up: since its last checkpoint where it
    says when that was, else since the gang's first pod started. A checkpoint that is yet to come counts as now."""
    told, run, pods = observed.checkpoint_times.get(j, ()), seconds_run(j, observed), observed.running_pod_count(j)
    if not told or observed.now is None:
        return run
    lost = sum(max(0, observed.now - max(start or saved, saved)) for start, saved in told)
    return -(-(lost + run * (pods - len(told))) // pods)


def _job_texts(gang: GangSpec) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """(annotations, labels) of the job."""
    metadata = gang.document.data.get("metadata") or {}
    annotations, labels = (
        {str(k): str(v) for k, v in (metadata.get(key) or {}).items()} for key in ("annotations", "labels")
    )
    return annotations, labels
