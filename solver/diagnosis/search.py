"""The search for repairs: sets of changes, the cheapest first, each with the least of them that lets a gang start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import first_sufficient, minimal_subset
from solver.diagnosis.world import Family, World

ChangeSet = tuple[Family[Any], ...]
"""In the order in which the changes are made."""


@dataclass(frozen=True)
class Section:
    """Sets of changes, made where fewer than `enough` repairs are found before, and tried until `most` are."""

    enough: int
    most: int
    sets: Callable[[], Iterable[ChangeSet]]


def alone(families: Iterable[Family[Any]]) -> Iterator[ChangeSet]:
    """Yield each change that can be made at all as a set of its own."""
    return ((family,) for family in families if family.steps)


def cheapest_worlds(
    case: GangDiagnosis, start: World, sections: Iterable[Section], accepts: Callable[[World], bool]
) -> list[World]:
    """Return the worlds in which the gang starts; none after a change, with others, that suffices without these."""
    found: dict[frozenset[object], World] = {}
    for section in sections:
        for some in section.sets() if len(found) < section.enough else ():
            if len(found) >= section.most:
                break
            if any(kinds <= {family.key for family in some} for kinds in found):
                continue
            needed, w = least_world(case, start, some)
            is_new = w is not None and not any(set(known.changes) <= set(w.changes) for known in found.values())
            if w is not None and is_new and accepts(w):
                found[frozenset(family.key for family in needed)] = w
    return list(found.values())


def least_world(case: GangDiagnosis, start: World, some: ChangeSet) -> tuple[ChangeSet, World | None]:
    """Return a part of the set of which nothing can be spared, and the world after the least step of each, the
    costliest first; no world where not even the last steps of all suffice."""

    @cache
    def world_after(*steps: tuple[Family[Any], int]) -> World | None:
        """Return the world after these steps, by their numbers; None where the gang does not start in it."""
        w = start
        for family, number in steps:
            if family.leaves_nodes and not case.fits_nodes(w):
                return None
            w = family.make(w, family.steps[number])
        return w if w.changes and case.lets_start(w) else None

    def tried(numbers: Mapping[Family[Any], int]) -> World | None:
        return world_after(*((family, numbers[family]) for family in some if family in numbers))

    most = {family: len(family.steps) - 1 for family in some}
    if tried(most) is None:
        return some, None
    needed: Sequence[Family[Any]] = sorted(some, key=lambda family: family.cost)
    if len(some) > 1:
        needed = minimal_subset(needed, lambda rest: tried({family: most[family] for family in rest}) is not None)
    numbers = {family: most[family] for family in needed}
    for family in reversed(needed):
        least = first_sufficient(range(len(family.steps)), partial(_starts_at, tried, numbers, family))
        if least is None:  # the last step sufficed before, and no further question may be asked
            return some, None
        numbers[family] = least
    w = tried(numbers)
    for family in needed:
        w = None if w is None else family.finish(w)
    return tuple(needed), w


def _starts_at(
    tried: Callable[[Mapping[Family[Any], int]], World | None],
    numbers: Mapping[Family[Any], int],
    family: Family[Any],
    number: int,
) -> bool:
    return tried({**numbers, family: number}) is not None
