"""Counts per place -> pods on nodes, place by place through stage C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from solver.models.sets import Sets
from solver.options import Options
from solver.placement.bounds import beside
from solver.placement.pack import exactly, pack
from solver.problem import Placement, Vector
from solver.semantics.placement_cost import Cost, Wholes, nearness
from solver.semantics.placements import Placements, fresh, merged
from solver.state.room import Room

Wishes = Mapping[int, Mapping[tuple[int, int], int]]
"""Place -> (gang, role) -> pods."""

EXACT = 200
"""Pairs of gang and node up to which the pods of a place are packed by a model only to open fewer whole nodes."""


def realise(s: Sets, gangs: Iterable[int], wishes: Wishes, options: Options) -> Placements | tuple[int, ...]:
    """Pack every place; the indices of those that cannot be packed if there are any."""
    room = s.room()
    found: dict[int, list[Placement]] = {j: list(s.problem.gangs[j].running) for j in gangs}
    coarse = []
    for i, here in sorted(wishes.items()):
        packed = pack(s.problem, room, s.places[i], here, options)
        if packed is None:
            coarse.append(i)
            continue
        for j, pods in packed.items():
            found[j].extend(pods)
    coarse += [] if coarse else _straddling(s, room, wishes)
    return tuple(coarse) if coarse else {j: merged(pods) for j, pods in sorted(found.items())}


def _straddling(s: Sets, room: Room, wishes: Wishes) -> list[int]:
    """Where the packed pods break a relation, the places that straddle its domains, over which the model was too
    coarse: of a relation that keeps pods apart those that got pods of it, else all."""
    if room.neighbours is None or not (broken := sorted({rho for rho, _ in room.neighbours.faults()})):
        return []
    found: set[int] = set()
    for rho in broken:
        straddling = [i for i, d in enumerate(s.domain_in(room.neighbours.standing.at[rho])) if d is None]
        if s.problem.relations[rho].kind == "apart":
            straddling = [i for i in straddling if rho in _related(s, wishes.get(i, ()))]
        found.update(straddling)
    if not found:
        raise RuntimeError(f"pods break the relations {broken}, which the model said they keep")
    return sorted(found)


def _related(s: Sets, wishes: Iterable[tuple[int, int]]) -> set[int]:
    """The relations of these pods."""
    roles = [s.problem.gangs[j].roles[t] for j, t in wishes]
    return {rho for role in roles for rho in (*role.bears, *role.matches)}


def cost_of(s: Sets, placements: Placements, wholes: Wholes) -> Cost:
    """What these placements cost; whole nodes are worth nothing where pods are to be scattered."""
    near = [nearness(s.tree, s.problem.gangs[j], pods) for j, pods in placements.items()]
    supernodes, nodes = wholes.opened({j: fresh(s.problem.gangs[j], pods) for j, pods in placements.items()})
    return Cost(
        sum(torn for torn, _ in near),
        sum(span for _, span in near),
        supernodes,
        0 if s.problem.policy.scatter else nodes,
    )


def repacked(s: Sets, placements: Placements, wholes: Wholes, options: Options) -> Placements:
    """The same counts per place, packed again where the pods of a place open more whole nodes than their number says
    they must."""
    wishes: dict[int, dict[tuple[int, int], int]] = {}
    for j, pods in placements.items():
        for p in fresh(s.problem.gangs[j], pods):
            here = wishes.setdefault(int(s.place_of[p.node]), {})
            here[j, p.role] = here.get((j, p.role), 0) + p.pods
    opened = Counter(
        int(s.place_of[n])
        for n in wholes.opened_nodes({j: fresh(s.problem.gangs[j], pods) for j, pods in placements.items()})
    )
    again: dict[int, list[Placement]] = {}
    changed: set[int] = set()
    for i, nodes in sorted(opened.items()):
        asked: dict[Vector, int] = {}
        for (j, t), number in wishes[i].items():
            request = s.problem.gangs[j].roles[t].request
            asked[request] = asked.get(request, 0) + number
        least = beside(s, wholes, np.array(s.places[i].nodes, dtype=np.intp), asked)[1]
        packed = (
            _tighter(s, i, wishes[i], nodes, least, wholes, options)
            if nodes > least and _movable(s, i, wishes[i])
            else None
        )
        if packed is not None:
            changed.add(i)
            for j, places in packed.items():
                again.setdefault(j, []).extend(places)
    if not changed:
        return placements
    stays = {
        j: [
            *s.problem.gangs[j].running,
            *(p for p in fresh(s.problem.gangs[j], pods) if int(s.place_of[p.node]) not in changed),
        ]
        for j, pods in placements.items()
    }
    return {j: merged([*pods, *again.get(j, [])]) for j, pods in stays.items()}


def _movable(s: Sets, i: int, wishes: Iterable[tuple[int, int]]) -> bool:
    """Whether no relation cares on which of the place's nodes these pods are."""
    there = s.neighbours
    return there is None or all(s.domain_in(there.standing.at[rho])[i] is not None for rho in _related(s, wishes))


def _tighter(
    s: Sets, i: int, wishes: Mapping[tuple[int, int], int], nodes: int, least: int, wholes: Wholes, options: Options
) -> dict[int, list[Placement]] | None:
    """The pods of place i on fewer whole nodes than `nodes`: largest first, and where that is above `least` and the
    place is small, exactly."""
    best = None
    for way in (pack, partial(exactly, wholes=wholes)) if len(wishes) * len(s.places[i].nodes) <= EXACT else (pack,):
        found = way(s.problem, Room(s.free), s.places[i], wishes, options)
        opened = nodes if found is None else len(wholes.opened_nodes(found))
        best, nodes = (found, opened) if opened < nodes else (best, nodes)
        if nodes <= least:
            break
    return best
