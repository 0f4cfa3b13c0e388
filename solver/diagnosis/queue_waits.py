"""What waiting would do: which gangs must end, and when that is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from solver.diagnosis.minimal import minimal_subset, shortest_prefix
from solver.diagnosis.trial import Trial, TrialRunner
from solver.repairs import EndOfGangs
from solver.semantics.priorities import expected_end

TrialWithout = Callable[[Sequence[int]], Trial]


def trial_after_ends(runner: TrialRunner, t: Trial) -> Trial | None:
    """GR109: a few gangs, none of them to spare, whose end lets it start: those after which it starts soonest, as far
    as ends are known."""
    world = runner.case.state
    ends = {
        i: e
        for i in (*world.kept_placements, *world.started_placements)
        if (e := expected_end(world.problem, i)) is not None
    }

    def without(some: Sequence[int]) -> Trial:
        gone = tuple(sorted(some))
        at = max((ends[i] for i in gone), default=0) if ends.keys() >= set(gone) else None
        return replace(
            t, ended_gangs=gone, start_delay=at or 0, changes=(*t.changes, EndOfGangs(gangs=gone, seconds=at))
        )

    return _soonest_trial(runner, ends, without) or _smallest_trial(runner, without)


def _soonest_trial(runner: TrialRunner, ends: dict[int, int], without: TrialWithout) -> Trial | None:
    """The gangs end one after another, T_1 <= T_2 <= ...: it starts at the first T_k at which it fits, for it fits the
    better the more have ended.

    From those that have ended by then whoever need not is dropped, first all that hold nothing of the nodes where it
    would be.
    """
    gangs = runner.case.state.problem.gangs
    line = sorted(ends, key=lambda i: (ends[i], gangs[i].age, i))

    def works(some: Sequence[int]) -> bool:
        return runner.lets_start(without(some))

    chosen = shortest_prefix(line, works)
    if chosen is None:
        return None
    nodes = {p.node for p in runner.placement_of(without(chosen))}
    near = tuple(i for i in chosen if any(p.node in nodes for p in runner.pods_of(runner.initial_trial, i)))
    if len(near) < len(chosen) and near and works(near):
        chosen = near
    return _minimal_trial(runner, chosen, without)


def _smallest_trial(runner: TrialRunner, without: TrialWithout) -> Trial | None:
    """Running gangs whatever is known of their ends: a single one, the smallest first, else the largest."""
    order = sorted(runner.case.state.kept_placements, key=lambda i: (_pod_count(runner, i), i))

    def works(some: Sequence[int]) -> bool:
        return runner.lets_start(without(some))

    chosen = shortest_prefix(order[::-1], works)
    if chosen is None:
        return None
    for i in order[: runner.case.state.options.budget.single_ends]:
        if works((i,)):
            return without((i,))
    return _minimal_trial(runner, chosen, without)


def _minimal_trial(runner: TrialRunner, chosen: tuple[int, ...], without: TrialWithout) -> Trial | None:
    """None of the chosen to spare; None where that would still be too many."""
    most = runner.case.state.options.budget.ended_gangs
    if len(chosen) > 4 * most:
        return None
    least = minimal_subset(chosen, lambda some: runner.lets_start(without(some)))
    return without(least) if len(least) <= most and runner.lets_start(without(least)) else None


def _pod_count(runner: TrialRunner, i: int) -> int:
    return sum(p.pods for p in runner.case.state.kept_placements[i])
