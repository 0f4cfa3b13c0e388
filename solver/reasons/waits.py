"""What waiting would do: which running gangs must end."""

from __future__ import annotations

from dataclasses import replace

from solver.plan import Repair
from solver.reasons.minimal import spared
from solver.reasons.trial import Bench, Trial

SINGLES = 8
"""Running gangs that are tried alone, the smallest first."""
MOST = 8
"""A set of more gangs than this is no answer that anybody would wait for."""


def after_others(bench: Bench, t: Trial) -> Trial | None:
    """GR109: a few running gangs, none of them to spare, whose end lets it start; where it is known when they end, those that end first."""
    world = bench.case.world
    order = sorted(world.kept, key=lambda i: (_size(bench, i), i))

    def without(some: tuple[int, ...]) -> Trial:
        gone = tuple(sorted(some))
        return replace(t, gone=gone, changes=(*t.changes, Repair("GR109", gangs=gone)))

    def works(some: tuple[int, ...]) -> bool:
        return bench.works(without(some))

    if not order or not works(tuple(order)):
        return None
    for i in order[:SINGLES]:
        if works((i,)):
            return without((i,))
    large = order[::-1]
    low, high = 1, len(large)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if works(tuple(large[:middle])) else (middle + 1, high)
    chosen = tuple(large[:low])
    if len(chosen) > 4 * MOST:
        return None
    least = spared(chosen, works)
    return without(least) if len(least) <= MOST and works(least) else None


def _size(bench: Bench, i: int) -> int:
    return sum(p.pods for p in bench.case.world.kept[i])
