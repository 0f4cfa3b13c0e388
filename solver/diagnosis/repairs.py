"""What would let a gang start: each change was tried, and is the least of its kind. One change where one is enough,
else two.

Order: what its owner can change without giving up pods; waiting; fewer pods or a higher priority; the queues; the
cluster. One change before two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from solver.diagnosis.facts import away_nodes
from solver.diagnosis.limits import with_queue_changes
from solver.diagnosis.machines import node_addition_steps
from solver.diagnosis.minimal import first_sufficient
from solver.diagnosis.queue_waits import trial_after_ends
from solver.diagnosis.spec import all_steps, gang_minimum_steps, node_class_steps, replica_steps, request_steps
from solver.diagnosis.trial import Step, StepSequence, Trial, TrialRunner
from solver.diagnosis.world import GangDiagnosis
from solver.facts import Fact, PrecedingGangs, Undecided
from solver.repairs import EndOfPods, HigherPriority, Repair, ReturnOfNodes
from solver.semantics.eviction_rights import is_reclaimable_whole


def gang_repairs(case: GangDiagnosis, facts: Sequence[Fact]) -> tuple[Repair, ...]:
    """At most a few, the cheapest first; none for a gang of which nothing is proved."""
    if any(isinstance(fact, Undecided) for fact in facts):
        return ()
    budget = case.state.options.budget
    bench = TrialRunner(case, budget.repair_questions, budget.repair_models)
    found = [trial.changes for trial in islice(_single_trials(bench, facts), budget.repairs)]
    enough = 1 if all(isinstance(fact, PrecedingGangs) for fact in facts) else budget.enough_repairs
    for trials in (_node_trials(bench), _double_trials(bench)):
        for trial in trials if len(found) < enough else ():
            # Nothing that holds a repair which is enough without the rest.
            if len(found) <= enough and not any(set(known) <= set(trial.changes) for known in found):
                found.append(trial.changes)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in found)


def _single_trials(runner: TrialRunner, facts: Sequence[Fact]) -> Iterator[Trial]:
    """Trials of one kind of change that work, the cheapest first."""
    start = runner.initial_trial
    roles = range(len(start.scenario.gang.roles))
    allowed = runner.fits_queues(start)
    if allowed:
        yield from _least_trials(runner, start, all_steps(runner, start))
    yield from _waiting_trials(runner, start, facts)
    yield from _least_trials(runner, start, _pod_reduction_steps(runner, start))
    yield from _sufficient_trial(runner, with_higher_priority(runner, start))
    if not allowed:
        yield from _sufficient_trial(runner, with_queue_changes(runner, start))
        return
    yield from _least_trials(runner, start, [request_steps(runner, role, start) for role in roles])
    for role in roles:
        yield from islice(_least_trials(runner, start, node_class_steps(runner, role, start)), 1)


def _node_trials(runner: TrialRunner) -> Iterator[Trial]:
    """More nodes, the dearest to try and to have."""
    if runner.fits_queues(runner.initial_trial):
        yield from islice(
            _least_trials(runner, runner.initial_trial, node_addition_steps(runner, runner.initial_trial)), 1
        )


def _waiting_trials(runner: TrialRunner, t: Trial, facts: Sequence[Fact]) -> Iterator[Trial]:
    """GR116: nodes that come back. GR109: running gangs that end; GR103: other pods that do, where no gang is known to
    help."""
    if away := away_nodes(facts):
        yield from _sufficient_trial(
            runner,
            replace(
                t, scenario=replace(t.scenario, returned_nodes=away), changes=(*t.changes, ReturnOfNodes(nodes=away))
            ),
        )
    if not any(fact.never for fact in facts):
        after = trial_after_ends(runner, t)
        freed = replace(t, scenario=replace(t.scenario, with_running=False), changes=(*t.changes, EndOfPods()))
        yield from _sufficient_trial(runner, freed if after is None else after)


def _pod_reduction_steps(runner: TrialRunner, t: Trial) -> list[Sequence[Step]]:
    """Fewer pods: of one role, or of all of them; the change that keeps most of them first."""
    gang = t.scenario.gang
    return [*(replica_steps(role, t) for role in range(len(gang.roles))), gang_minimum_steps(t)]


def _least_trials(runner: TrialRunner, t: Trial, kinds: Sequence[Sequence[Step]]) -> Iterator[Trial]:
    for steps in kinds:
        trial = runner.least_trial(t, steps)
        if trial is not None:
            yield trial


def _sufficient_trial(runner: TrialRunner, trial: Trial | None) -> Iterator[Trial]:
    if trial is not None and trial.changes and runner.lets_start(trial):
        yield trial


def with_higher_priority(runner: TrialRunner, t: Trial) -> Trial | None:
    """GR114: a priority above that of all that the plan starts; then it is decided first, and alone it finds room
    beside what runs. Not of one that may borrow a domain that a queue keeps: that is lent last of all, whatever the
    priority."""
    world = runner.case.state
    top = max((world.problem.gangs[i].priority for i in world.started_placements), default=None)
    lent = any(queue.dedicated_domains for queue in world.problem.queues) and is_reclaimable_whole(
        world.problem, runner.case.gang
    )
    if top is None or lent:
        return None
    return replace(
        t, scenario=replace(t.scenario, with_started=False), changes=(*t.changes, HigherPriority(amount=top))
    )


def _double_trials(runner: TrialRunner) -> Iterator[Trial]:
    """Trials of two kinds of change: of the gang or the nodes and of the queues, of the gang twice, of the gang and its
    priority."""
    start = runner.initial_trial
    kinds = [*all_steps(runner, start), *_pod_reduction_steps(runner, start)]
    if not runner.fits_queues(start) and not runner.fits_nodes(start):
        for steps in kinds:
            yield from _trials_with_queue_changes(runner, start, steps)
        for steps in node_addition_steps(runner, start)[:1]:
            yield from _trials_with_queue_changes(runner, start, steps)
    for a, one in enumerate(kinds):
        for two in kinds[a + 1 :]:
            yield from _paired_trials(runner, start, one, two)
    for steps in kinds:
        above = with_higher_priority(runner, start)
        for trial in _least_trials(runner, above, [steps]) if above is not None else ():
            priority, *others = trial.changes
            yield replace(trial, changes=(*others, priority))


def _trials_with_queue_changes(runner: TrialRunner, start: Trial, steps: Sequence[Step]) -> Iterator[Trial]:
    """The least step with which it finds room, and what the queues then lack."""
    least = runner.least_trial(start, steps, runner.fits_nodes)
    if least is not None:
        yield from _sufficient_trial(runner, with_queue_changes(runner, least))


def _paired_trials(runner: TrialRunner, start: Trial, one: Sequence[Step], two: Sequence[Step]) -> Iterator[Trial]:
    """The least second step beside the greatest first one, then the least first step beside that."""
    least = first_sufficient(two, lambda step: runner.lets_start(step(one[-1](start)))) if one else None
    if least is not None:
        yield from islice(
            _least_trials(runner, start, [StepSequence(range(len(one)), lambda at: _chain_steps(one[at], least))]), 1
        )


def _chain_steps(one: Step, two: Step) -> Step:
    return lambda t: two(one(t))
