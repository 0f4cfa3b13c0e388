"""Which gangs of a large batch are placed again together, and where: one that could be nearer, a domain that would hold
it, and who is in its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.models.sets import Sets
from solver.placement.bounds import Nearness, excess
from solver.problem import Ask
from solver.semantics.device_slots import Ints
from solver.semantics.gang_classes import Shape, ShapeRole
from solver.semantics.placement_cost import nearness
from solver.semantics.placements import Placements, fresh
from solver.semantics.topology import ROOT
from solver.state.room import Room

VARIABLES = 250
"""Pod variables of one vicinity: the root of a larger model takes seconds."""

PLACES = 32
"""Places of the domain that come in, those with most room first; the model is then as large in a large cluster as in a
small one."""

SEVERAL = 3
"""So many gangs must share a model of all places; else the gang moves within a domain, and more of those there with it."""

SPARE = 8
"""Places anywhere, those with most room first, for gangs that make way."""


@dataclass(frozen=True)
class Vicinity:
    """gangs: who is placed again. places: where these may be."""

    gangs: tuple[int, ...]
    places: frozenset[int]


@dataclass(frozen=True)
class Vicinities:
    """What is known of the gangs as they are placed now."""

    s: Sets
    shapes: Mapping[int, Shape]
    placements: Placements
    least: Mapping[int, Nearness]

    def next(self, treated: set[int]) -> Vicinity | None:
        """Around the gang not treated yet that is furthest from what it could be alone; None where every other is as
        near as it could be."""
        first = min(
            (j for j in self.placements if self._now[j] > self.least[j] and j not in treated),
            key=lambda j: (self._apart[j], j),
            default=None,
        )
        if first is None:
            return None
        anywhere = self._around(first, set(range(len(self.s.places))))
        return (
            anywhere
            if len(anywhere.gangs) >= SEVERAL
            else self._around(first, self._touched[first] | self._wanted(first))
        )

    def _around(self, first: int, places: set[int]) -> Vicinity:
        """The gang and, as many as one model holds, those that share most of these places with it."""
        gangs = [first]
        mine = self._touched[first]
        near = [j for j in self.placements if j != first and self._touched[j] & places]
        for j in sorted(
            near, key=lambda j: (-len(self._touched[j] & mine), -len(self._touched[j] & places), self._apart[j], j)
        ):
            more = places | self._touched[j]
            if self._size([*gangs, j], more) > VARIABLES:
                break
            gangs.append(j)
            places = more
        return Vicinity(tuple(sorted(gangs)), frozenset(places))

    def _size(self, gangs: list[int], places: set[int]) -> int:
        """Pod variables of these gangs: a place counts for a role where there is room beside everybody, or one of them
        might leave some."""
        left = set[int]().union(*(self._touched[j] for j in gangs))
        return sum(
            1 for j in gangs for role in self.shapes[j].roles for i in places if i in left or self._vacant(role.ask)[i]
        )

    def _wanted(self, j: int) -> set[int]:
        """The places of the lowest and emptiest domain that would hold the whole gang if nobody else came, and a few
        that have room anyway."""
        s, roles = self.s, self.shapes[j].roles
        held, vacant = (
            [s.tree.totals(self._slots(room, role)) for role in roles] for room in (self._before, self._room)
        )
        room = np.sum([np.minimum(below, role.need) for below, role in zip(vacant, roles, strict=True)], axis=0)
        home = ROOT
        for tier in s.tree.tiers:
            fits = s.tree.tier_of == tier
            for below, role in zip(held, roles, strict=True):
                fits &= below[-ROOT:] >= role.need
            if fits.any():
                home = max(np.flatnonzero(fits).tolist(), key=lambda h: (room[h - ROOT], -h))
                break
        inside = set(s.place_of[s.tree.under(home)].tolist())
        empty = np.sum([self._vacant(role.ask) for role in roles], axis=0)
        order = np.argsort(-empty, kind="stable").tolist()
        return {*[i for i in order if i in inside][:PLACES], *order[:SPARE]}

    def _slots(self, room: Room, role: ShapeRole) -> Ints:
        """Node -> pods of the role that it holds."""
        return np.where(self.s.tree.open_to(role.kinds), room.slots(role.ask), 0)

    def _vacant(self, ask: Ask) -> list[int]:
        """Place -> pods that it holds beside everything that is placed."""
        if ask not in self._known:
            self._known[ask] = self.s.per_place(self._room.slots(ask))
        return self._known[ask]

    @cached_property
    def _known(self) -> dict[Ask, list[int]]:
        return {}

    @cached_property
    def _before(self) -> Room:
        return self.s.room()

    @cached_property
    def _room(self) -> Room:
        """What is left beside everything that is placed."""
        return self.s.room_beside(self.placements)

    @cached_property
    def _now(self) -> dict[int, Nearness]:
        return {j: nearness(self.s.tree, self.s.problem.gangs[j], pods) for j, pods in self.placements.items()}

    @cached_property
    def _apart(self) -> dict[int, Nearness]:
        return {j: excess(self.least[j], now) for j, now in self._now.items()}

    @cached_property
    def _touched(self) -> dict[int, set[int]]:
        """Gang -> the places that its new pods are in."""
        gangs = self.s.problem.gangs
        return {j: {int(self.s.place_of[p.node]) for p in fresh(gangs[j], pods)} for j, pods in self.placements.items()}
