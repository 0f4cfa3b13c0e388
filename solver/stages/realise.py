"""Counts per place -> pods on nodes, place by place through stage C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from solver.costs import Cost, Wholes, nearness
from solver.model.sets import Sets
from solver.options import Options
from solver.problem import Placement, Vector
from solver.room import Room
from solver.stages.admit import Placements
from solver.stages.bounds import beside
from solver.stages.pack import exactly, fresh, merged, pack

Wishes = Mapping[int, Mapping[tuple[int, int], int]]
"""Place -> (gang, role) -> pods."""

EXACT = 200
"""Pairs of gang and node up to which the pods of a place are packed by a model only to open fewer whole nodes."""


def realise(s: Sets, gangs: Iterable[int], wishes: Wishes, options: Options) -> Placements | tuple[int, ...]:
    """Pack every place; the indices of those that cannot be packed if there are any."""
    room = Room(s.free)
    found: dict[int, list[Placement]] = {j: list(s.problem.gangs[j].running) for j in gangs}
    coarse = []
    for i, here in sorted(wishes.items()):
        packed = pack(s.problem, room, s.places[i], here, options)
        if packed is None:
            coarse.append(i)
            continue
        for j, pods in packed.items():
            found[j].extend(pods)
    return tuple(coarse) if coarse else {j: merged(pods) for j, pods in sorted(found.items())}


def cost_of(s: Sets, placements: Placements, wholes: Wholes) -> Cost:
    """What these placements cost; whole nodes are worth nothing where pods are to be scattered."""
    near = [nearness(s.tree, s.problem.gangs[j], pods) for j, pods in placements.items()]
    supernodes, nodes = wholes.opened({j: fresh(s.problem.gangs[j], pods) for j, pods in placements.items()})
    return Cost(sum(torn for torn, _ in near), sum(span for _, span in near), supernodes, 0 if s.problem.policy.scatter else nodes)


def repacked(s: Sets, placements: Placements, wholes: Wholes, options: Options) -> Placements:
    """The same counts per place, packed again where the pods of a place open more whole nodes than their number says they must."""
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    for j, pods in placements.items():
        for p in fresh(s.problem.gangs[j], pods):
            here = wishes.setdefault(int(s.place_of[p.node]), {})
            here[j, p.role] = here.get((j, p.role), 0) + p.pods
    opened = Counter(int(s.place_of[n]) for n in wholes.opened_nodes({j: fresh(s.problem.gangs[j], pods) for j, pods in placements.items()}))
    again: dict[int, list[Placement]] = {}
    changed: set[int] = set()
    for i, nodes in sorted(opened.items()):
        asked: dict[Vector, int] = {}
        for (j, t), number in wishes[i].items():
            request = s.problem.gangs[j].roles[t].request
            asked[request] = asked.get(request, 0) + number
        least = beside(s, wholes, np.array(s.places[i].nodes, dtype=np.intp), asked)[1]
        packed = _tighter(s, i, wishes[i], nodes, least, wholes, options) if nodes > least else None
        if packed is not None:
            changed.add(i)
            for j, places in packed.items():
                again.setdefault(j, []).extend(places)
    if not changed:
        return placements
    stays = {
        j: [*s.problem.gangs[j].running, *(p for p in fresh(s.problem.gangs[j], pods) if int(s.place_of[p.node]) not in changed)]
        for j, pods in placements.items()
    }
    return {j: merged([*pods, *again.get(j, [])]) for j, pods in stays.items()}


def _tighter(
    s: Sets, i: int, wishes: Mapping[tuple[int, int], int], nodes: int, least: int, wholes: Wholes, options: Options
) -> dict[int, list[Placement]] | None:
    """The pods of place i on fewer whole nodes than `nodes`: largest first, and where that is above `least` and the place is small, exactly."""
    best = None
    for way in (pack, partial(exactly, wholes=wholes)) if len(wishes) * len(s.places[i].nodes) <= EXACT else (pack,):
        found = way(s.problem, Room(s.free), s.places[i], wishes, options)
        opened = nodes if found is None else len(wholes.opened_nodes(found))
        best, nodes = (found, opened) if opened < nodes else (best, nodes)
        if nodes <= least:
            break
    return best
