"""The smallest set of things that must be out of the way, and the least of several steps that is enough."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

Item = TypeVar("Item")


def smallest_sufficient(
    items: Sequence[Item], suffices: Callable[[tuple[Item, ...]], bool], max_paired: int
) -> tuple[Item, ...] | None:
    """A set of things that suffices while no part of it does: one thing, else two, else whatever is left when all that
    can be spared is.

    max_paired: every pair of up to so many things is tried. Earlier things are preferred. None where not even all of them suffice. suffices: with more things it must not become
    false.
    """
    for one in items:
        if suffices((one,)):
            return (one,)
    if len(items) < 2 or not suffices(tuple(items)):
        return None
    if 2 < len(items) <= max_paired:
        for pair in combinations(items, 2):
            if suffices(pair):
                return pair
    return minimal_subset(items, suffices)


def minimal_subset(items: Sequence[Item], suffices: Callable[[tuple[Item, ...]], bool]) -> tuple[Item, ...]:
    """What is left of a sufficient set once each thing that the rest can do without is gone, the last first."""
    kept = tuple(items)
    for i in reversed(range(len(items))):
        rest = tuple(thing for thing in kept if thing is not items[i])
        if suffices(rest):
            kept = rest
    return kept


def first_sufficient(steps: Sequence[Item], works: Callable[[Item], bool]) -> Item | None:
    """The first step that works, found by halving; None where not even the last does. works: once a step works, all
    beyond it must."""
    if not steps or not works(steps[-1]):
        return None
    return steps[bisect_left(steps, True, hi=len(steps) - 1, key=works)]


def shortest_prefix(items: Sequence[Item], suffices: Callable[[tuple[Item, ...]], bool]) -> tuple[Item, ...] | None:
    """The shortest beginning of the line that suffices; None where the whole line does not. suffices: as above."""
    number = first_sufficient(range(1, len(items) + 1), lambda number: suffices(tuple(items[:number])))
    return None if number is None else tuple(items[:number])
