"""Smallest sufficient sets, and the first of several steps that is enough."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

Item = TypeVar("Item")


def smallest_sufficient(
    items: Sequence[Item], suffices: Callable[[tuple[Item, ...]], bool], max_paired: int
) -> tuple[Item, ...] | None:
    """Return a set that suffices while no part of it does: one item, else two, else the rest after dropping all that
    can be dropped. Earlier items are preferred. None where not even all of them suffice.

    suffices: monotone. max_paired: up to so many items every pair is tried.
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


def minimal_subset(
    items: Sequence[Item], suffices: Callable[[tuple[Item, ...]], bool], most: int | None = None
) -> tuple[Item, ...]:
    """Return a minimal sufficient subset; items are dropped from the last to the first. More than `most` all stay."""
    kept = tuple(items)
    for i in reversed(range(len(items) if most is None or len(items) <= most else 0)):
        rest = tuple(item for item in kept if item is not items[i])
        if suffices(rest):
            kept = rest
    return kept


def first_sufficient(steps: Sequence[Item], works: Callable[[Item], bool]) -> Item | None:
    """Return the first step that works; None where the last does not. works: monotone, once a step does all beyond it
    do. Mostly an early one works, and late ones are dear to ask about: their number is doubled until one does."""
    if not steps or not works(steps[-1]):
        return None
    least, most = 0, 0
    while most < len(steps) - 1 and not works(steps[most]):
        least, most = most + 1, 2 * most + 1
    return steps[bisect_left(steps, True, least, min(most, len(steps) - 1), key=works)]


def shortest_prefix(items: Sequence[Item], suffices: Callable[[tuple[Item, ...]], bool]) -> tuple[Item, ...] | None:
    """Return the shortest prefix, of one item or more, that suffices; None where not even all items do."""
    length = first_sufficient(range(1, len(items) + 1), lambda length: suffices(tuple(items[:length])))
    return None if length is None else tuple(items[:length])
