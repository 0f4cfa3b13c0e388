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
from solver.diagnosis.question import ModelBudget
from solver.diagnosis.queue_changes import (
    group_limit_steps,
    node_group_steps,
    with_queue_changes,
    with_smaller_shares,
)
from solver.diagnosis.rivals import others_may_start_instead
from solver.diagnosis.trial import Step, StepSequence, Trial, TrialRunner
from solver.facts import Borrowing, Fact, PrecedingGangs, ShareLimit, Undecided
from solver.repairs import EndOfPods, Repair, ReturnOfNodes


def gang_repairs(case: GangDiagnosis, facts: Sequence[Fact]) -> tuple[Repair, ...]:
    """A few, the cheapest first; none for a gang of which nothing is proved."""
    if any(isinstance(fact, Undecided) for fact in facts):
        return ()
    budget = case.state.options.budget
    runner = TrialRunner(case, budget.repair_questions, ModelBudget(budget.repair_models))
    singles = islice(_single_trials(runner, facts), budget.repairs)
    found = list({trial.changes: trial for trial in singles}.values())  # two facts may want the same change
    enough = 1 if all(isinstance(fact, PrecedingGangs | Borrowing) for fact in facts) else budget.enough_repairs
    unblocked = () if found else _unblocked_trials(runner, facts)
    for trials in (unblocked, _node_trials(runner), _double_trials(runner)):
        for trial in trials if len(found) < enough else ():
            if others_may_start_instead(runner, trial):
                continue
            # Nothing that contains a repair which suffices without the rest.
            if len(found) <= enough and not any(set(known.changes) <= set(trial.changes) for known in found):
                found.append(trial)
    if not found or (len(found) < enough and any(fact.never for fact in facts)):
        found += islice(_later_trials(runner), 1)
    changes = (with_smaller_shares(runner, trial).changes for trial in found)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in changes)


def _single_trials(runner: TrialRunner, facts: Sequence[Fact]) -> Iterator[Trial]:
    """Sufficient trials of one kind of change, the cheapest first."""
    start = runner.initial_trial
    roles = range(len(start.scenario.gang.roles))
    allowed = runner.fits_queues(start)
    if allowed:
        yield from runner.least_trials(start, steps_with_all_pods(runner, start))
    yield from _waiting_trials(runner, start, facts)
    yield from runner.least_trials(start, fewer_pods_steps(start))
    yield from list(higher_priority(runner, start)) or evicting_priority(runner, start)
    for fact in facts:
        if isinstance(fact, Borrowing):
            yield from larger_entitlement(runner, start, fact)
    if not allowed:
        beside_plan = list(runner.sufficient_trial(with_queue_changes(runner, start)))
        shares = (fact for fact in facts if isinstance(fact, ShareLimit))
        yield from beside_plan or (trial for fact in shares for trial in larger_entitlement(runner, start, fact))
        return
    yield from islice(runner.least_trials(start, node_group_steps(runner)), 1)
    yield from islice(runner.least_trials(start, group_limit_steps(runner)), 1)
    yield from runner.least_trials(start, [request_steps(runner, role, start) for role in roles])
    for role in roles:
        yield from islice(runner.least_trials(start, node_class_steps(runner, role, start)), 1)


def _node_trials(runner: TrialRunner) -> Iterator[Trial]:
    """More nodes, the most costly to try and to have."""
    start = runner.initial_trial
    if runner.fits_queues(start):
        yield from islice(runner.least_trials(start, node_addition_steps(runner, start)), 1)


def _waiting_trials(runner: TrialRunner, t: Trial, facts: Sequence[Fact]) -> Iterator[Trial]:
    """Nodes that come back; gangs that end, or any pods where no gang is known to help."""
    if away := away_nodes(facts):
        yield from runner.sufficient_trial(t.with_scenario(ReturnOfNodes(away), returned_nodes=away))
    if not any(fact.never for fact in facts):
        yield from runner.sufficient_trial(_after_ends(runner, t))


def _unblocked_trials(runner: TrialRunner, facts: Sequence[Fact]) -> Iterator[Trial]:
    """Where waiting alone never helps: smaller pods, or other nodes for a role or several, or both, and with it what
    else is in the way."""
    if not any(fact.never for fact in facts):
        return
    start = runner.initial_trial
    kinds = (
        steps[0](start)
        for role in range(len(start.scenario.gang.roles))
        for steps in node_class_steps(runner, role, start)
    )
    opened = with_open_roles(runner, start)
    for base in (start, *kinds, *([opened] if len(opened.changes) > 1 else [])):
        t = with_fitting_requests(runner, base)
        if t is not None and t.changes:
            yield from _completed_trials(runner, t)


def _completed_trials(runner: TrialRunner, t: Trial) -> Iterator[Trial]:
    """The trial with what the gang then lacks: room, by a wider topology, ends of gangs or fewer pods, else by more
    nodes, else by a higher priority; and what its queues lack, else with fewer pods."""
    if runner.fits_nodes(t):
        allowed = list(runner.sufficient_trial(with_queue_changes(runner, t)))
        yield from allowed or runner.least_trials(t, fewer_pods_steps(t))
        return
    found = list(_roomy_trials(runner, t))
    found = found or list(_trials_with_queue_changes(runner, t, node_addition_steps(runner, t)[:1]))
    yield from found or higher_priority(runner, t)


def _roomy_trials(runner: TrialRunner, t: Trial) -> Iterator[Trial]:
    yield from _trials_with_queue_changes(runner, t, steps_with_all_pods(runner, t))
    if runner.fits_queues(t):
        yield from runner.sufficient_trial(_after_ends(runner, t))
    yield from _trials_with_queue_changes(runner, t, fewer_pods_steps(t))


def _double_trials(runner: TrialRunner) -> Iterator[Trial]:
    """Trials of two kinds of change: of the gang or the nodes and of the queues, of the gang twice, of the gang and its
    priority."""
    start = runner.initial_trial
    kinds = [*steps_with_all_pods(runner, start), *fewer_pods_steps(start)]
    if not runner.fits_queues(start) and not runner.fits_nodes(start):
        yield from _trials_with_queue_changes(runner, start, [*kinds, *node_addition_steps(runner, start)[:1]])
    for a, one in enumerate(kinds):
        for two in kinds[a + 1 :]:
            yield from _paired_trials(runner, one, two)
    priorities = priority_steps(runner)
    for steps in kinds if priorities else ():
        step = first_sufficient(steps, lambda step: runner.lets_start(priorities[-1](step(start))))
        if step is not None and (trial := runner.least_trial(step(start), priorities)) is not None:
            yield with_later_gangs(runner, trial)


def _later_trials(runner: TrialRunner) -> Iterator[Trial]:
    """Fewer pods that start once others end, where nothing helps now and waiting alone never does."""
    start = runner.initial_trial
    for steps in fewer_pods_steps(start):
        if runner.least_trial(start, steps) is not None:
            continue  # fewer pods start now
        step = first_sufficient(steps, lambda step: any(runner.sufficient_trial(_after_ends(runner, step(start)))))
        if step is not None:
            yield _after_ends(runner, step(start))


def _after_ends(runner: TrialRunner, t: Trial) -> Trial:
    """The trial after the end of gangs, or of any pods where none is known to help."""
    return trial_after_ends(runner, t) or t.with_scenario(EndOfPods(), with_running=False)


def _trials_with_queue_changes(runner: TrialRunner, t: Trial, kinds: Iterable[Sequence[Step]]) -> Iterator[Trial]:
    """The least step of each kind with which the gang finds room, and what the queues then lack."""
    for steps in kinds:
        least = runner.least_trial(t, steps, runner.fits_nodes)
        if least is not None:
            yield from runner.sufficient_trial(with_queue_changes(runner, least))


def _paired_trials(runner: TrialRunner, one: Sequence[Step], two: Sequence[Step]) -> Iterator[Trial]:
    """The least second step beside the greatest first one, then the least first step beside that."""
    start = runner.initial_trial
    least = first_sufficient(two, lambda step: runner.lets_start(step(one[-1](start)))) if one else None
    if least is not None:
        steps = StepSequence(range(len(one)), lambda at: lambda t: least(one[at](t)))
        yield from runner.least_trials(start, [steps])
