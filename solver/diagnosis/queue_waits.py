"""What waiting would do: which gangs must end, and when that is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from solver.diagnosis.minimal import beginning, spared
from solver.diagnosis.trial import Bench, Trial
from solver.plan import Repair
from solver.semantics.priorities import end

SINGLES = 8
"""Running gangs that are tried alone, the smallest first."""
MOST = 8
"""A set of more gangs than this is no answer that anybody would wait for."""
Without = Callable[[Sequence[int]], Trial]


def after_others(bench: Bench, t: Trial) -> Trial | None:
    """GR109: a few gangs, none of them to spare, whose end lets it start: those after which it starts soonest, as far
    as ends are known."""
    world = bench.case.world
    ends = {i: e for i in (*world.kept, *world.started) if (e := end(world.problem, i)) is not None}

    def without(some: Sequence[int]) -> Trial:
        gone = tuple(sorted(some))
        at = max((ends[i] for i in gone), default=0) if ends.keys() >= set(gone) else None
        return replace(t, gone=gone, later=at or 0, changes=(*t.changes, Repair("GR109", gangs=gone, seconds=at)))

    return _soonest(bench, ends, without) or _fewest(bench, without)


def _soonest(bench: Bench, ends: dict[int, int], without: Without) -> Trial | None:
    """The gangs end one after another, T_1 <= T_2 <= ...: it starts at the first T_k at which it fits, for it fits the
    better the more have ended.

    From those that have ended by then whoever need not is dropped, first all that hold nothing of the nodes where it
    would be.
    """
    gangs = bench.case.world.problem.gangs
    line = sorted(ends, key=lambda i: (ends[i], gangs[i].age, i))

    def works(some: Sequence[int]) -> bool:
        return bench.works(without(some))

    chosen = beginning(line, works)
    if chosen is None:
        return None
    nodes = {p.node for p in bench.placed(without(chosen))}
    near = tuple(i for i in chosen if any(p.node in nodes for p in bench.holds(bench.start, i)))
    if len(near) < len(chosen) and near and works(near):
        chosen = near
    return _least(bench, chosen, without)


def _fewest(bench: Bench, without: Without) -> Trial | None:
    """Running gangs whatever is known of their ends: a single one, the smallest first, else the largest."""
    order = sorted(bench.case.world.kept, key=lambda i: (_size(bench, i), i))

    def works(some: Sequence[int]) -> bool:
        return bench.works(without(some))

    chosen = beginning(order[::-1], works)
    if chosen is None:
        return None
    for i in order[:SINGLES]:
        if works((i,)):
            return without((i,))
    return _least(bench, chosen, without)


def _least(bench: Bench, chosen: tuple[int, ...], without: Without) -> Trial | None:
    """None of the chosen to spare; None where that would still be too many."""
    if len(chosen) > 4 * MOST:
        return None
    least = spared(chosen, lambda some: bench.works(without(some)))
    return without(least) if len(least) <= MOST and bench.works(without(least)) else None


def _size(bench: Bench, i: int) -> int:
    return sum(p.pods for p in bench.case.world.kept[i])
