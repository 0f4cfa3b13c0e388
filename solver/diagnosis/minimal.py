"""The smallest set of things that must be out of the way, and the least of several steps that is enough."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

Thing = TypeVar("Thing")

FEW = 6
"""Up to so many things every pair is tried."""


def smallest(things: Sequence[Thing], suffices: Callable[[tuple[Thing, ...]], bool]) -> tuple[Thing, ...] | None:
    """A set of things that suffices while no part of it does: one thing, else two, else whatever is left when all that
    can be spared is.

    Earlier things are preferred. None where not even all of them suffice. suffices: with more things it must not become
    false.
    """
    for one in things:
        if suffices((one,)):
            return (one,)
    if len(things) < 2 or not suffices(tuple(things)):
        return None
    if 2 < len(things) <= FEW:
        for pair in combinations(things, 2):
            if suffices(pair):
                return pair
    return spared(things, suffices)


def spared(things: Sequence[Thing], suffices: Callable[[tuple[Thing, ...]], bool]) -> tuple[Thing, ...]:
    """What is left of a sufficient set once each thing that the rest can do without is gone, the last first."""
    kept = tuple(things)
    for i in reversed(range(len(things))):
        rest = tuple(thing for thing in kept if thing is not things[i])
        if suffices(rest):
            kept = rest
    return kept


def first(steps: Sequence[Thing], works: Callable[[Thing], bool]) -> Thing | None:
    """The first step that works, found by halving; None where not even the last does. works: once a step works, all
    beyond it must."""
    if not steps or not works(steps[-1]):
        return None
    return steps[bisect_left(steps, True, hi=len(steps) - 1, key=works)]


def beginning(line: Sequence[Thing], suffices: Callable[[tuple[Thing, ...]], bool]) -> tuple[Thing, ...] | None:
    """The shortest beginning of the line that suffices; None where the whole line does not. suffices: as above."""
    number = first(range(1, len(line) + 1), lambda number: suffices(tuple(line[:number])))
    return None if number is None else tuple(line[:number])
