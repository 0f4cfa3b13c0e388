"""The search for repairs: sets of changes, the cheapest first, each with the least of them that lets a gang start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import first_sufficient, minimal_subset
from solver.diagnosis.world import Family, World

ChangeSet = tuple[Family[Any], ...]
"""In the order in which the changes are made."""
Steps = dict[Family[Any], Any]
"""How much of each change."""


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

    def made(steps: Steps) -> World | None:
        w = start
        for family in some:
            if family in steps:
                if family.leaves_nodes and not case.fits_nodes(w):
                    return None
                w = family.make(w, steps[family])
        return w

    def starts(steps: Steps) -> bool:
        w = made(steps)
        return w is not None and bool(w.changes) and case.lets_start(w)

    most = {family: family.steps[-1] for family in some}
    if not starts(most):
        return some, None
    cheapest_first: Sequence[Family[Any]] = sorted(some, key=lambda family: family.cost)
    if len(some) > 1:
        cheapest_first = minimal_subset(cheapest_first, lambda rest: starts({family: most[family] for family in rest}))
    steps = {family: most[family] for family in cheapest_first}
    for family in [family for family in reversed(cheapest_first) if len(family.steps) > 1]:
        least = first_sufficient(family.steps, partial(_starts_at, starts, steps, family))
        if least is None:  # the last step sufficed before, and no further question may be asked
            return some, None
        steps[family] = least
    w = made(steps)
    for family in steps:
        w = None if w is None else family.finish(w)
    return tuple(steps), w


def _starts_at(starts: Callable[[Steps], bool], steps: Steps, family: Family[Any], step: object) -> bool:
    return starts({**steps, family: step})
