"""The greedy's way with gangs in relations: pod after pod, each where the relations leave it room, near the pods that
are placed already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, Placement, Subgroup
from solver.semantics.device_slots import Ints
from solver.semantics.gang_classes import Shape
from solver.semantics.topology import ROOT, Tree
from solver.state.pod_rules import Neighbours
from solver.state.room import Room

Flags = npt.NDArray[np.bool_]

PART_TRIES = 8
"""Domains that are tried for one part of a subgroup, best fit first."""

MOST_COMPANY = 1 << 20
"""Slots of one node beyond this count no more when domains are compared."""


class Podwise:
    """Fills domains with one gang. open_to: role -> node -> whether its kind is open to the role."""

    def __init__(
        self, tree: Tree, room: Room, neighbours: Neighbours, gang: Gang, shape: Shape, open_to: Sequence[Flags]
    ) -> None:
        self.tree, self.room, self.neighbours, self.gang, self.shape, self.open = (
            tree,
            room,
            neighbours,
            gang,
            shape,
            open_to,
        )
        self.touched = np.zeros(len(tree.kinds), dtype=np.bool_)
        for p in shape.fixed:
            self._touch(p.node)

    def hopeless(self, h: int, want: Sequence[int]) -> bool:
        """Whether relations alone keep the gang from being whole under h."""
        nodes = self.tree.under(h)
        return any(want[t] > self.neighbours.most(role, h, nodes) for t, role in enumerate(self.shape.roles) if want[t])

    def slots(self, t: int) -> Ints:
        """Node -> pods of the role that fit, lasting rules minded."""
        role = self.shape.roles[t]
        return self.neighbours.cap(role, np.where(self.open[t], self.room.slots(role.ask), 0))

    def fill(self, h: int, left: list[int]) -> tuple[Placement, ...]:
        """As many of `left` (pods per role, counted down) under h as come one after another; nothing where a subgroup
        would not be whole."""
        mark, before = self.room.mark(), list(left)
        placed: list[Placement] = []
        nodes = self.tree.under(h)
        for part in self._parts():
            while sum(left[t] for t in part.roles) >= part.size and (more := self._part(part, h, left)):
                placed += more
        in_parts = {t for part in self._parts() for t in part.roles}
        placed += self._pods(nodes, left, [t for t in range(len(left)) if t not in in_parts])
        if self._uneven(placed):
            self.room.undo(mark)
            left[:] = before
            return ()
        return tuple(placed)

    def _parts(self) -> list[Subgroup]:
        """Of the hard subgroups that share roles the largest, in whose domains the parts of the others are formed as it
        goes."""
        hard = [s for s in self.gang.subgroups if s.topology.mode == "hard" and s.topology.tier <= self.tree.top]
        return [
            s
            for n, s in enumerate(hard)
            if not any(set(s.roles) & set(o.roles) and (o.size, -m) > (s.size, -n) for m, o in enumerate(hard))
        ]

    def _part(self, part: Subgroup, h: int, left: list[int]) -> list[Placement]:
        """One whole part inside one domain under h; counts `left` down."""
        want, missing = [0] * len(left), part.size
        for t in part.roles:
            want[t] = min(left[t], missing)
            missing -= want[t]
        reach = self.tree.sums(np.sum([np.minimum(self.slots(t), want[t]) for t in part.roles], axis=0))
        inside = [d for d in self.tree.domains(part.topology.tier) if h == ROOT or h in self.tree.path(d)] or [h]
        able = sorted((d for d in inside if reach[d] >= part.size), key=lambda d: (reach[d], d))
        for d in able[:PART_TRIES]:
            mark, rest = self.room.mark(), list(want)
            placed = self._pods(self.tree.under(d), rest, list(part.roles))
            if not any(rest):
                left[:] = [a - b for a, b in zip(left, want, strict=True)]
                return placed
            self.room.undo(mark)
        return []

    def _pods(self, nodes: Ints, left: list[int], roles: Sequence[int]) -> list[Placement]:
        """Role after role, those that others need beside them and those that ask for most first, until no further pod
        comes."""
        placed: list[Placement] = []
        order = sorted(roles, key=lambda t: (self._follows(t), [-a for a in self.shape.roles[t].request], t))
        progress = True
        while progress and any(left[t] for t in order):
            progress = False
            for t in order:
                while left[t] and (node := self._best(nodes, t)) is not None:
                    self.room.put(node, self.shape.roles[t], 1)
                    self._touch(node)
                    placed.append(Placement(t, node, 1))
                    left[t] -= 1
                    progress = True
        return placed

    def _follows(self, t: int) -> bool:
        """Whether pods of the role need others beside them."""
        relations = self.neighbours.standing.relations
        return any(relations[rho].kind == "together" for rho in self.shape.roles[t].bears)

    def _best(self, nodes: Ints, t: int) -> int | None:
        """The node for one more pod: where the pods of its relations have most room together, then near the gang, then
        the fullest."""
        role = self.shape.roles[t]
        slots = self.slots(t)
        if role.bears or role.matches:
            slots = np.where(self.neighbours.open_to(role), slots, 0)
        able = nodes[slots[nodes] > 0]
        if not len(able):
            return None
        wide = self._company(t, slots)[able]
        return int(able[np.lexsort((able, slots[able], ~self.touched[able], -wide))[0]])

    def _company(self, t: int, slots: Ints) -> Ints:
        """Node -> the slots in its domain, of the widest partition whose pods must stay together; 0 everywhere without
        one."""
        found = np.zeros(len(slots), dtype=np.int64)
        for rho in self.neighbours.relations(self.shape.roles[t]):
            relation = self.neighbours.standing.relations[rho]
            if relation.kind == "together":
                at = self.neighbours.standing.at[rho]
                room = np.bincount(
                    at[at >= 0], weights=np.minimum(slots[at >= 0], MOST_COMPANY), minlength=len(relation.present)
                )
                found += np.append(room, 0).astype(np.int64)[at]
        return found

    def _touch(self, node: int) -> None:
        leaf = self.tree.leaf_of[node]
        if leaf == ROOT:
            self.touched[node] = True
        else:
            self.touched |= self.tree.leaf_of == leaf

    def _uneven(self, placed: Sequence[Placement]) -> bool:
        """Whether a subgroup, with the pods that run, has a part that is not whole in one of its domains, or pods
        outside them."""
        for part in self.gang.subgroups:
            inside: dict[int | None, int] = {}
            for p in (*self.shape.fixed, *placed):
                if p.role in part.roles:
                    hard = part.topology.mode == "hard"
                    d = self.tree.domain(self.tree.problem.nodes[p.node].leaf, part.topology.tier) if hard else ROOT
                    inside[d] = inside.get(d, 0) + p.pods
            if None in inside or any(pods % part.size for pods in inside.values()):
                return True
        return False
