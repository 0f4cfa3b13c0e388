"""Eviction as owners decide it: which gangs may be evicted, and what run time that would lose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil

from compiler.cluster_state.observed import ObservedState
from compiler.fields.times import go_duration_seconds
from compiler.kubernetes import SYSTEM_PRIORITIES
from compiler.specs.cluster_spec import SchedulerSpec, Specs
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.queue_spec import PriorityClassSpec
from compiler.volcano.eviction_votes import (
    POD_EVICTION_ACTIONS,
    EvictionWords,
    cooldown_text,
    eviction_votes,
    has_cooldown_plugin,
    has_eviction_action,
    pod_eviction_words,
    preemptable_word,
)
from solver.problem import EvictionTerms, Placement


def non_preempting_classes(classes: Iterable[PriorityClassSpec]) -> frozenset[str]:
    """Priority classes with preemptionPolicy Never."""
    return frozenset(spec.name for spec in classes if spec.preemption_policy == "Never")


def eviction_terms(gang_indices: Iterable[int], specs: Specs, observed: ObservedState) -> dict[int, EvictionTerms]:
    """Return the gangs that may be evicted where the scheduler evicts at all, each with its terms as far as its owner
    decides.

    A gang that waits may be evicted where that lets it borrow a dedicated domain of another queue.
    """
    _, reclaim_votes = eviction_votes(specs.scheduler)
    lends = reclaim_votes is not None and any(queue.dedicated_domains for queue in specs.queues)
    found = {}
    for j in gang_indices:
        gang = specs.gangs[j]
        if j not in observed.running_pods:
            if lends and _is_evictable_from_start(gang, observed, specs.scheduler):
                found[j] = EvictionTerms(evictable=True)
        elif _is_evictable(gang, specs.scheduler):
            protected = _protected_pods(j, gang, observed, specs.scheduler)
            if sum(protected.values()) < observed.running_pod_count(j):
                found[j] = EvictionTerms(
                    evictable=True,
                    loss=_seconds_lost(j, observed),
                    protected=tuple([Placement(t, n, pods) for (t, n), pods in sorted(protected.items())]),
                    reports_checkpoint=bool(observed.checkpoint_times(j)),
                )
    return found


def _is_evictable(gang: GangSpec, scheduler: SchedulerSpec | None) -> bool:
    """Return whether the gang may lose those of its pods that are not protected.

    Not in kube-system or with a system priority class (Volcano's plugin conformance); not where its job is declared not
    preemptable, and all evicting actions respect that (Volcano, utils.IsJobPreemptableForGangEviction).
    """
    if gang.namespace == "kube-system" or gang.priority_class in SYSTEM_PRIORITIES:
        return False
    plain = not has_eviction_action(scheduler) or any(
        action in scheduler.actions for action, *_ in POD_EVICTION_ACTIONS if scheduler is not None
    )
    return plain or preemptable_word(*_job_texts(gang)) is not False


def _protected_pods(
    j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None
) -> Counter[tuple[int, int]]:
    """Return (role, node) -> running pods that may not be evicted, each by its own words, else by its template's: not
    preemptable, of a system priority class, or guarded by the plugin cdp while they run for less than their cooldown.
    Pods that hold less than their role requests are protected too: a plan would count on amounts that they do not
    have."""
    guards_young, protected = has_cooldown_plugin(scheduler), Counter[tuple[int, int]]()
    templates = [_template_words(gang, role) for role in gang.roles]
    for t, node, record in observed.running_records.get(j, ()):
        words = record.eviction_words.completed_by(templates[t])
        is_guarded = guards_young and _is_young(words, record.start_time, observed.now)
        if _refuses(words) or is_guarded or record.key in observed.foreign.lighter_pods:
            protected[t, node] += 1
    return protected


def _template_words(gang: GangSpec, role: RoleSpec) -> EvictionWords:
    """Return the words that the controller writes into the role's pods: the job's annotations over the template's, and
    the job's labels over the template's. Bare pods have no template."""
    if role.pod_documents:
        return EvictionWords()
    job_annotations, job_labels = _job_texts(gang)
    texts = {**role.annotations, **job_annotations}, {**role.labels, **job_labels}
    return EvictionWords(preemptable_word(*texts), cooldown_text(*texts), role.pod.priority_class in SYSTEM_PRIORITIES)


def _refuses(words: EvictionWords) -> bool:
    return words.preemptable is False or words.is_critical is True


def _is_young(words: EvictionWords, start: int | None, now: int | None) -> bool:
    """Return whether the pod's cooldown is not over, or it is not known since when it runs."""
    cooldown = go_duration_seconds(words.cooldown or "")
    return cooldown > 0 and (start is None or now is None or now - start < cooldown)


def cooldown_ends(j: int, gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> set[int]:
    """When the cooldowns of its running pods are over, in seconds since the epoch, as far as it is known since when
    these run."""
    if not has_cooldown_plugin(scheduler):
        return set()
    templates, found = [_template_words(gang, role) for role in gang.roles], set[int]()
    for t, _, record in observed.running_records.get(j, ()):
        cooldown = go_duration_seconds(record.eviction_words.completed_by(templates[t]).cooldown or "")
        if cooldown and record.start_time is not None:
            found.add(record.start_time + ceil(cooldown))
    return found


def _is_evictable_from_start(gang: GangSpec, observed: ObservedState, scheduler: SchedulerSpec | None) -> bool:
    """Return whether the gang, which waits, could be evicted from the moment it starts: as `_is_evictable`, none of its
    pods is protected or has a cooldown, and no disruption budget selects any."""
    guards_young = has_cooldown_plugin(scheduler)
    for role in gang.roles:
        bare = [pod_eviction_words(document.data) for document in role.pod_documents]
        for words in bare or [_template_words(gang, role)]:
            if _refuses(words) or (guards_young and _is_young(words, None, observed.now)):
                return False
    return _is_evictable(gang, scheduler) and not any(
        budget.selects(gang.namespace, role.labels) for budget in observed.budget_selections for role in gang.roles
    )


def seconds_run(j: int, observed: ObservedState) -> int:
    """Seconds that the gang's first pod has run, at the newest time that the state knows; 0 where that is not known."""
    start = observed.started_at(j)
    return 0 if start is None or observed.now is None else max(0, observed.now - start)


def _seconds_lost(j: int, observed: ObservedState) -> int:
    """Return the seconds of its run that a pod of gang j would lose, on average, rounded up: since its last reported
    checkpoint, else since the gang's first pod started. A future checkpoint counts as now."""
    checkpoints, run, pods = observed.checkpoint_times(j), seconds_run(j, observed), observed.running_pod_count(j)
    if not checkpoints or observed.now is None:
        return run
    lost = sum(max(0, observed.now - max(start or saved, saved)) for start, saved in checkpoints)
    return -(-(lost + run * (pods - len(checkpoints))) // pods)


def _job_texts(gang: GangSpec) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """(annotations, labels) of the job."""
    metadata = gang.document.data.get("metadata") or {}
    annotations, labels = (
        {str(k): str(v) for k, v in (metadata.get(key) or {}).items()} for key in ("annotations", "labels")
    )
    return annotations, labels
