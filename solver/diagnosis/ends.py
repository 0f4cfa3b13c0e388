"""Waiting: families of the ends of running gangs after which a gang starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import minimal_subset
from solver.diagnosis.world import Family, World
from solver.repairs import EndOfGangs, EndOfPods


def ends_of_gangs(case: GangDiagnosis) -> list[Family[Any]]:
    """Return the soonest ends, where ends are known; else the fewest gangs, the largest first, whatever their ends;
    else any pods."""
    state, kept = case.state, case.state.kept_placements
    soonest = sorted(state.expected_ends, key=lambda i: (state.expected_ends[i], state.problem.gangs[i].age, i))
    smallest = sorted(kept, key=lambda i: (sum(p.pods for p in kept[i]), i))
    prefixes = (soonest, partial(_without_distant, case)), (smallest[::-1], partial(_one_alone, case, smallest))
    found: list[Family[Any]] = [
        Family(EndOfGangs, range(1, len(order) + 1), partial(_end_first, case, order), kind="ends", finish=finish)
        for order, finish in prefixes
    ]
    return [*found, Family(EndOfPods, [()], _end_pods, kind="ends")]


def _end_first(case: GangDiagnosis, order: Sequence[int], w: World, number: int) -> World:
    """Return the world after the first ends: more ended gangs leave more room."""
    return _ended(case, w.with_change(EndOfGangs(())), order[:number])


def _end_pods(w: World, _: tuple[()]) -> World:
    return w.with_change(EndOfPods(), with_running=False)


def _ended(case: GangDiagnosis, w: World, some: Sequence[int]) -> World:
    """Return the world after the end of these gangs instead of those that its change names."""
    gone, ends = tuple(sorted(some)), case.state.expected_ends
    at = max((ends[i] for i in gone), default=0) if ends.keys() >= set(gone) else None
    changes = tuple(EndOfGangs(gone, at) if isinstance(change, EndOfGangs) else change for change in w.changes)
    return replace(w, changes=changes, ended_gangs=gone, start_delay=at or 0)


def _without_distant(case: GangDiagnosis, w: World) -> World | None:
    """Return the world without the ends of gangs that it does not need, first of all without pods on its nodes."""
    nodes, chosen = {p.node for p in case.question(w).placement() or ()}, w.ended_gangs
    near = tuple(i for i in chosen if nodes & {p.node for p in case.state.pods_of(i, with_plan=True)})
    is_enough = 0 < len(near) < len(chosen) and case.lets_start(_ended(case, w, near))
    return _least_ends(case, w, near if is_enough else chosen)


def _one_alone(case: GangDiagnosis, smallest: Sequence[int], w: World) -> World | None:
    """Return the world after the end of the smallest gang that suffices alone, else of no more than it needs."""
    for i in smallest[: case.state.options.budget.single_ends]:
        if case.lets_start(alone := _ended(case, w, (i,))):
            return alone
    return _least_ends(case, w, w.ended_gangs)


def _least_ends(case: GangDiagnosis, w: World, chosen: tuple[int, ...]) -> World | None:
    """Return the world after the end of a minimal part of the chosen gangs; None where that is still too many."""
    most = case.state.options.budget.ended_gangs
    if len(chosen) > 4 * most:
        return None
    least = minimal_subset(chosen, lambda some: case.lets_start(_ended(case, w, some)))
    ended = _ended(case, w, least)
    return ended if len(least) <= most and case.lets_start(ended) else None
