"""Repairs: each change was tried, and is the least of its kind. One change where one suffices, else two.

In order of `Repair.rank`: what the owner can change without giving up pods; waiting; fewer pods; a higher priority; the
queues; the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from solver.diagnosis.blocking_facts import away_nodes
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.ends import trial_after_ends
from solver.diagnosis.gang_changes import (
    fewer_pods_steps,
    node_class_steps,
    request_steps,
    steps_with_all_pods,
    with_fitting_requests,
    with_open_roles,
)
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.node_changes import node_addition_steps
from solver.diagnosis.precedence import (
    evicting_priority,
    higher_priority,
    larger_entitlement,
    priority_steps,
    with_later_gangs,
)
from solver.diagnosis.queue_changes import (
    group_limit_steps,
    node_group_steps,
    with_queue_changes,
    with_smaller_shares,
)
from solver.diagnosis.rivals import others_may_start_instead
from solver.diagnosis.world import Step, StepSequence, World
from solver.facts import Borrowing, Fact, PrecedingGangs, ShareLimit, Undecided
from solver.repairs import EndOfPods, Repair, ReturnOfNodes


def gang_repairs(case: GangDiagnosis, facts: Sequence[Fact]) -> tuple[Repair, ...]:
    """A few, the cheapest first; none for a gang of which nothing is proved."""
    if any(isinstance(fact, Undecided) for fact in facts):
        return ()
    budget = case.state.options.budget
    singles = islice(_single_trials(case, facts), budget.repairs)
    found = list({trial.changes: trial for trial in singles}.values())  # two facts may want the same change
    enough = 1 if all(isinstance(fact, PrecedingGangs | Borrowing) for fact in facts) else budget.enough_repairs
    unblocked = () if found else _unblocked_trials(case, facts)
    for trials in (unblocked, _node_trials(case), _double_trials(case)):
        for trial in trials if len(found) < enough else ():
            if others_may_start_instead(case, trial):
                continue
            # Nothing that contains a repair which suffices without the rest.
            if len(found) <= enough and not any(set(known.changes) <= set(trial.changes) for known in found):
                found.append(trial)
    if not found or (len(found) < enough and any(fact.never for fact in facts)):
        found += islice(_later_trials(case), 1)
    changes = (with_smaller_shares(case, trial).changes for trial in found)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in changes)


def _single_trials(case: GangDiagnosis, facts: Sequence[Fact]) -> Iterator[World]:
    """Sufficient trials of one kind of change, the cheapest first."""
    start = case.tried_world
    roles = range(len(start.gang.roles))
    allowed = case.fits_queues(start)
    if allowed:
        yield from case.least_of_each(start, steps_with_all_pods(case, start))
    yield from _waiting_trials(case, start, facts)
    yield from case.least_of_each(start, fewer_pods_steps(start))
    yield from list(higher_priority(case, start)) or evicting_priority(case, start)
    for fact in facts:
        if isinstance(fact, Borrowing):
            yield from larger_entitlement(case, start, fact)
    if not allowed:
        beside_plan = list(case.sufficient(with_queue_changes(case, start)))
        shares = (fact for fact in facts if isinstance(fact, ShareLimit))
        yield from beside_plan or (trial for fact in shares for trial in larger_entitlement(case, start, fact))
        return
    yield from islice(case.least_of_each(start, node_group_steps(case)), 1)
    yield from islice(case.least_of_each(start, group_limit_steps(case)), 1)
    yield from case.least_of_each(start, [request_steps(case, role, start) for role in roles])
    for role in roles:
        yield from islice(case.least_of_each(start, node_class_steps(case, role, start)), 1)


def _node_trials(case: GangDiagnosis) -> Iterator[World]:
    """More nodes, the most costly to try and to have."""
    start = case.tried_world
    if case.fits_queues(start):
        yield from islice(case.least_of_each(start, node_addition_steps(case, start)), 1)


def _waiting_trials(case: GangDiagnosis, t: World, facts: Sequence[Fact]) -> Iterator[World]:
    """Nodes that come back; gangs that end, or any pods where no gang is known to help."""
    if away := away_nodes(facts):
        yield from case.sufficient(t.with_change(ReturnOfNodes(away), returned_nodes=away))
    if not any(fact.never for fact in facts):
        yield from case.sufficient(_after_ends(case, t))


def _unblocked_trials(case: GangDiagnosis, facts: Sequence[Fact]) -> Iterator[World]:
    """Where waiting alone never helps: smaller pods, or other nodes for a role or several, or both, and with it what
    else is in the way."""
    if not any(fact.never for fact in facts):
        return
    start = case.tried_world
    kinds = (steps[0](start) for role in range(len(start.gang.roles)) for steps in node_class_steps(case, role, start))
    opened = with_open_roles(case, start)
    for base in (start, *kinds, *([opened] if len(opened.changes) > 1 else [])):
        t = with_fitting_requests(case, base)
        if t is not None and t.changes:
            yield from _completed_trials(case, t)


def _completed_trials(case: GangDiagnosis, t: World) -> Iterator[World]:
    """The trial with what the gang then lacks: room, by a wider topology, ends of gangs or fewer pods, else by more
    nodes, else by a higher priority; and what its queues lack, else with fewer pods."""
    if case.fits_nodes(t):
        allowed = list(case.sufficient(with_queue_changes(case, t)))
        yield from allowed or case.least_of_each(t, fewer_pods_steps(t))
        return
    found = list(_roomy_trials(case, t))
    found = found or list(_trials_with_queue_changes(case, t, node_addition_steps(case, t)[:1]))
    yield from found or higher_priority(case, t)


def _roomy_trials(case: GangDiagnosis, t: World) -> Iterator[World]:
    yield from _trials_with_queue_changes(case, t, steps_with_all_pods(case, t))
    if case.fits_queues(t):
        yield from case.sufficient(_after_ends(case, t))
    yield from _trials_with_queue_changes(case, t, fewer_pods_steps(t))


def _double_trials(case: GangDiagnosis) -> Iterator[World]:
    """Trials of two kinds of change: of the gang or the nodes and of the queues, of the gang twice, of the gang and its
    priority."""
    start = case.tried_world
    kinds = [*steps_with_all_pods(case, start), *fewer_pods_steps(start)]
    if not case.fits_queues(start) and not case.fits_nodes(start):
        yield from _trials_with_queue_changes(case, start, [*kinds, *node_addition_steps(case, start)[:1]])
    for a, one in enumerate(kinds):
        for two in kinds[a + 1 :]:
            yield from _paired_trials(case, one, two)
    priorities = priority_steps(case)
    for steps in kinds if priorities else ():
        step = first_sufficient(steps, lambda step: case.lets_start(priorities[-1](step(start))))
        if step is not None and (trial := case.least(step(start), priorities)) is not None:
            yield with_later_gangs(case, trial)


def _later_trials(case: GangDiagnosis) -> Iterator[World]:
    """Fewer pods that start once others end, where nothing helps now and waiting alone never does."""
    start = case.tried_world
    for steps in fewer_pods_steps(start):
        if case.least(start, steps) is not None:
            continue  # fewer pods start now
        step = first_sufficient(steps, lambda step: any(case.sufficient(_after_ends(case, step(start)))))
        if step is not None:
            yield _after_ends(case, step(start))


def _after_ends(case: GangDiagnosis, t: World) -> World:
    """The trial after the end of gangs, or of any pods where none is known to help."""
    return trial_after_ends(case, t) or t.with_change(EndOfPods(), with_running=False)


def _trials_with_queue_changes(case: GangDiagnosis, t: World, kinds: Iterable[Sequence[Step]]) -> Iterator[World]:
    """The least step of each kind with which the gang finds room, and what the queues then lack."""
    for steps in kinds:
        least = case.least(t, steps, case.fits_nodes)
        if least is not None:
            yield from case.sufficient(with_queue_changes(case, least))


def _paired_trials(case: GangDiagnosis, one: Sequence[Step], two: Sequence[Step]) -> Iterator[World]:
    """The least second step beside the greatest first one, then the least first step beside that."""
    start = case.tried_world
    least = first_sufficient(two, lambda step: case.lets_start(step(one[-1](start)))) if one else None
    if least is not None:
        steps = StepSequence(range(len(one)), lambda at: lambda t: least(one[at](t)))
        yield from case.least_of_each(start, [steps])
