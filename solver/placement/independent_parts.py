"""Stage B in parts: gangs that can never meet in a leaf do not mind where the others go, so each part of them is spread
alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from solver.admission.admit import Admission
from solver.mip.executors import Mapper
from solver.models.lexicographic import judge
from solver.models.sets import Sets
from solver.options import Options
from solver.placement.spread import Spread
from solver.placement.spread import spread as spread_together
from solver.semantics.placement_cost import NAMES
from solver.semantics.placements import Placements
from solver.semantics.topology import ROOT

PER_ROW = 2
"""Work of a part for each pair of a gang's role and a place open to it (`Mapper`), measured on worlds of 1,000 and
10,000 nodes."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the parts share. Each of them gets all sets, and is only asked for some of the gangs."""

    sets: Sets
    admission: Admission
    floor: Placements
    options: Options


def spread(s: Sets, admission: Admission, floor: Placements, options: Options, mapper: Mapper) -> Spread:
    """`stages.spread.spread`, part by part. Costs and bounds add up, since no place is open to gangs of two parts."""
    parts = independent(s, admission.admitted)
    if len(parts) < 2:
        return spread_together(s, admission, floor, options)
    rows = sum(len(s.limits[k, t]) * s.count[k] for k, shape in enumerate(s.shapes) for t in range(len(shape.roles)))
    return merged(mapper.map(spread_part, Question(s, admission, floor, options), parts, PER_ROW * rows), options)


def spread_part(question: Question, gangs: tuple[int, ...]) -> Spread:
    """Stage B for some of the admitted gangs."""
    floor = {j: pods for j, pods in question.floor.items() if j in gangs}
    return spread_together(question.sets, replace(question.admission, admitted=gangs), floor, question.options)


def merged(parts: list[Spread], options: Options) -> Spread:
    """All parts as one. Where one of them was too coarse, all must be asked again: the places change."""
    coarse = tuple(sorted(i for part in parts for i in part.coarse))
    if coarse:
        return Spread({}, (), coarse)
    placements = {j: pods for part in parts for j, pods in part.placements.items()}
    said = {name: [o for part in parts for o in part.objectives if o.name == name] for name in NAMES}
    objectives = tuple(
        judge(name, sum(o.value for o in found), sum(o.bound for o in found), options.gap, maximise=False)
        for name, found in said.items()
        if found
    )
    return Spread(dict(sorted(placements.items())), objectives)


def independent(s: Sets, gangs: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The gangs in parts, that of the first gang first.

    Kinds of nodes hang together when they share a leaf, when a gang may use both of them, or when a relation looks at
    gangs on both of them.
    """
    shape_of = {j: k for (_, _, k), js in s.waiting.items() for j in js}
    above: dict[int, int] = {kind: kind for kind in sorted({place.kind for place in s.places})}

    def root(kind: int) -> int:
        while above[kind] != kind:
            kind = above[kind]
        return kind

    def join(kinds: Iterable[int]) -> None:
        first, *rest = sorted({root(kind) for kind in kinds}) or [ROOT]
        above.update(dict.fromkeys(rest, first))

    leaves: dict[int, set[int]] = {}
    for place in s.places:
        if place.leaf is not None:
            leaves.setdefault(place.leaf, set()).add(place.kind)
    open_to = {
        k: {kind for role in s.shapes[k].roles for kind in role.kinds} & above.keys()
        for k in {shape_of[j] for j in gangs}
    }
    related: dict[int, set[int]] = {}
    for k, kinds in open_to.items():
        for role in s.shapes[k].roles:
            for relation in (*role.bears, *role.matches):
                related.setdefault(relation, set()).update(kinds)
    for kinds in (*leaves.values(), *open_to.values(), *related.values()):
        join(kinds)
    found: dict[int, list[int]] = {}
    for j in gangs:
        found.setdefault(min((root(kind) for kind in open_to[shape_of[j]]), default=ROOT), []).append(j)
    return [tuple(part) for part in found.values()]
