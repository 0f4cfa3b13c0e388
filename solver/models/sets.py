"""The index sets and parameters of one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.problem import Ask, Problem, Vector
from solver.semantics.device_slots import Free, Ints
from solver.semantics.gang_classes import Shape, ShapeRole, broken
from solver.semantics.placements import Placements, fresh
from solver.semantics.queue_limits import Siblings, gang_share, rank, totals
from solver.semantics.topology import ROOT, Tree
from solver.state.pod_rules import NOWHERE, Neighbours
from solver.state.room import Ledger, Room

Class = tuple[int, int, int]
"""(queue, urgency of gangs, shape index)."""

Level = tuple[int, int]
"""(urgency of gangs, priority of their queues): what is decided together. The second is 0 where no plugin looks at it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes of one leaf and one kind, counted together; a single node once packing has shown that counting them
    together was too coarse."""

    leaf: int | None
    kind: int
    nodes: tuple[int, ...]


def aggregate(problem: Problem) -> tuple[Place, ...]:
    """The coarsest places: one for each (leaf, kind), and for each domain of the relations whose domains are more than
    single nodes."""
    wide = [at for at in dict.fromkeys(relation.domains for relation in problem.relations) if len(set(at)) < len(at)]
    keys = [[ROOT if node.leaf is None else node.leaf for node in problem.nodes], [node.kind for node in problem.nodes]]
    keys += [[NOWHERE if d is None else d for d in at] for at in wide]
    column = np.array(keys, dtype=np.int64)
    order = np.lexsort(column[::-1])
    begins = np.flatnonzero((column[:, order[1:]] != column[:, order[:-1]]).any(axis=0)) + 1
    members = (nodes.tolist() for nodes in np.split(order, begins) if len(nodes))
    return tuple(Place(None if keys[0][of[0]] == ROOT else keys[0][of[0]], keys[1][of[0]], tuple(of)) for of in members)


def refine(places: Iterable[Place], coarse: Iterable[int]) -> tuple[Place, ...]:
    """The same places, those with an index in `coarse` split into single nodes."""
    split = set(coarse)
    return tuple(
        part
        for i, place in enumerate(places)
        for part in ([Place(place.leaf, place.kind, (n,)) for n in place.nodes] if i in split else [place])
    )


@dataclass(frozen=True)
class Sets:
    """K: `shapes`; I: `places`; classes (q, p, k) with `waiting` gangs each (N in the formulas).

    free: what may be given. ledger: what the queues hold before the batch. neighbours: who is where before it, for
    relations.
    """

    problem: Problem
    tree: Tree
    places: tuple[Place, ...]
    free: Free
    ledger: Ledger
    shapes: tuple[Shape, ...]
    waiting: Mapping[Class, tuple[int, ...]]
    neighbours: Neighbours | None = None

    def room(self) -> Room:
        """What may be given, to be taken."""
        return Room(self.free, self.neighbours)

    def room_beside(self, placements: Placements) -> Room:
        """What may be given once these gangs have started."""
        room = self.room()
        for j, pods in placements.items():
            room.take_all(self.problem.gangs[j], fresh(self.problem.gangs[j], pods))
        return room

    @cached_property
    def width(self) -> int:
        return len(self.problem.resources)

    @cached_property
    def count(self) -> tuple[int, ...]:
        """Gangs that wait, per shape."""
        number = [0] * len(self.shapes)
        for (_, _, k), gangs in self.waiting.items():
            number[k] += len(gangs)
        return tuple(number)

    @cached_property
    def place_of(self) -> Ints:
        at = np.empty(len(self.problem.nodes), dtype=np.int64)
        for i, place in enumerate(self.places):
            at[list(place.nodes)] = i
        return at

    def per_place(self, figure: Ints) -> list[int]:
        """Sum of a figure per node over each place's nodes."""
        total = np.zeros(len(self.places), dtype=np.int64)
        np.add.at(total, self.place_of, figure)
        return [int(x) for x in total]

    @cached_property
    def domains(self) -> tuple[tuple[int, ...], ...]:
        """k -> the domains of which one must hold a whole gang of the shape; (ROOT,) without a hard limit."""
        return tuple(self._domains(shape) for shape in self.shapes)

    def _domains(self, shape: Shape) -> tuple[int, ...]:
        if shape.alone is not None and shape.fixed and broken(self.tree, self.problem.gangs[shape.alone], shape.fixed):
            return ()
        if shape.tier is None:
            return (ROOT,)
        every = self.tree.domains(shape.tier)
        if not shape.fixed:
            return every
        home = self.tree.domain(self.problem.nodes[shape.fixed[0].node].leaf, shape.tier)
        return tuple(h for h in every if h == home)

    @cached_property
    def _tiers(self) -> tuple[int, ...]:
        wanted = {s.tier for s in self.shapes if s.tier is not None}
        wanted |= {g.topology.tier for s in self.shapes for g in s.subgroups if g.topology.mode == "hard"}
        return tuple(sorted(wanted))

    @cached_property
    def domain_at(self) -> dict[int, tuple[int | None, ...]]:
        """Tier -> place -> the maximal domain of that tier around it."""
        return {tier: tuple(self.tree.domain(place.leaf, tier) for place in self.places) for tier in self._tiers}

    @cached_property
    def places_in(self) -> tuple[dict[int, tuple[int, ...]], ...]:
        """k -> domain of the shape -> the places inside it."""
        known: dict[tuple[int | None, tuple[int, ...]], dict[int, tuple[int, ...]]] = {}
        for shape, domains in zip(self.shapes, self.domains, strict=True):
            if (shape.tier, domains) in known:
                continue
            inside: dict[int, list[int]] = {h: [] for h in domains}
            for i in range(len(self.places)):
                h = ROOT if shape.tier is None else self.domain_at[shape.tier][i]
                if h is not None and h in inside:
                    inside[h].append(i)
            known[shape.tier, domains] = {h: tuple(places) for h, places in inside.items()}
        return tuple(known[shape.tier, domains] for shape, domains in zip(self.shapes, self.domains, strict=True))

    @cached_property
    def limits(self) -> dict[tuple[int, int], dict[int, int]]:
        """(k, t) -> place -> the most pods of role t of all gangs of shape k there; places that can take none are left
        out.

        min( sum over nodes of slots(ask), room_t * N_k )   where the node's kind is open to the role and the topology
        allows it
        """
        found: dict[tuple[int, int], dict[int, int]] = {}
        for k, shape in enumerate(self.shapes):
            for t, role in enumerate(shape.roles):
                places, fits = self._open_to(k, t)
                most = min(role.room, shape.most) * self.count[k]
                found[k, t] = dict(zip(places.tolist(), np.minimum(fits, most).tolist(), strict=True)) if most else {}
        return found

    @property
    def size(self) -> int:
        """Variables of pods that a model over these places has."""
        roles = (
            (k, t, min(role.room, shape.most))
            for k, shape in enumerate(self.shapes)
            for t, role in enumerate(shape.roles)
        )
        return sum(len(self._open_to(k, t)[0]) for k, t, most in roles if most and self.count[k])

    def _open_to(self, k: int, t: int) -> tuple[Ints, Ints]:
        """The places that take pods of role t of shape k, in order, and how many fit each."""
        shape, role = self.shapes[k], self.shapes[k].roles[t]
        parted = tuple(sorted({g.topology.tier for g in shape.subgroups if g.topology.mode == "hard" and t in g.roles}))
        key = role.ask, role.kinds, shape.tier, self.domains[k], parted, self.related(role)
        if key not in self._open:
            fits = np.array(self.per_place(self._slots_beside(role)), dtype=np.int64)
            inside = np.zeros(len(self.places), dtype=np.bool_)
            inside[[i for places in self.places_in[k].values() for i in places]] = True
            inside &= (fits > 0) & np.isin(self._at[1], sorted(role.kinds))
            for tier in parted:
                inside &= np.array([h is not None for h in self.domain_at[tier]], dtype=np.bool_)
            self._open[key] = np.flatnonzero(inside), fits[inside]
        return self._open[key]

    @cached_property
    def _open(self) -> dict[object, tuple[Ints, Ints]]:
        return {}

    @property
    def finest(self) -> int:
        """Variables of pods that a model over single nodes would have, were no gang bound to a domain."""
        found = 0
        for shape in self.shapes:
            for role in shape.roles:
                found += int(
                    np.count_nonzero((self.free.slots(role.ask) > 0) & np.isin(self.tree.kinds, sorted(role.kinds)))
                )
        return found

    def related(self, role: ShapeRole) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """What tells roles apart that relations bind; None for one that none binds."""
        return None if self.neighbours is None or not self.neighbours.relations(role) else (role.bears, role.matches)

    def _slots_beside(self, role: ShapeRole) -> Ints:
        """Node -> pods of the role that fit, as far as relations leave them."""
        slots = self.free.slots(role.ask)
        return slots if self.neighbours is None or self.related(role) is None else self.neighbours.cap(role, slots)

    @cached_property
    def _straddles(self) -> dict[int, tuple[int | None, ...]]:
        return {}

    def domain_in(self, at: Ints) -> tuple[int | None, ...]:
        """Place -> the domain that all its nodes are in; None where it straddles several. at: a partition of
        `neighbours.Standing`."""
        known = self._straddles.get(id(at))
        if known is None:
            inside = (set(at[list(place.nodes)].tolist()) for place in self.places)
            known = self._straddles[id(at)] = tuple(domains.pop() if len(domains) == 1 else None for domains in inside)
        return known

    def reach(self, ask: Ask, kinds: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """For each tier the pods of `ask` that its domains (Tree.line) hold, largest first; only nodes of `kinds`."""
        known = self._reach.get((ask, kinds))
        if known is None:
            known = self._reach[ask, kinds] = self._by_tier(self.free.slots(ask), kinds)
        return known

    def reach_beside(self, role: ShapeRole) -> tuple[tuple[int, ...], ...]:
        """As `reach` for a role, less what relations keep from it whatever else is placed."""
        return (
            self.reach(role.ask, role.kinds)
            if self.related(role) is None
            else self._by_tier(self._slots_beside(role), role.kinds)
        )

    def reach_of(self, r: int, kinds: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """As `reach`, of what is free of resource r."""
        known = self._reach.get((r, kinds))
        if known is None:
            known = self._reach[r, kinds] = self._by_tier(self.free.amounts[:, r], kinds)
        return known

    def _by_tier(self, figure: Ints, kinds: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        amounts, (leaves, kind) = np.array(self.per_place(figure), dtype=np.int64), self._at
        here = np.isin(kind, sorted(kinds))
        found = []
        for domains in self.tree.levels:
            below = domains[leaves[here] - ROOT] - ROOT
            number = np.bincount(below)
            sums = np.zeros(len(number), dtype=np.int64)
            np.add.at(sums, below, amounts[here])
            found.append(tuple(np.sort(sums[number > 0])[::-1].tolist()))
        return tuple(found)

    @cached_property
    def _at(self) -> tuple[Ints, Ints]:
        """Place -> its leaf, ROOT for none; and its kind."""
        leaves = np.array([ROOT if place.leaf is None else place.leaf for place in self.places], dtype=np.int64)
        return leaves, np.array([place.kind for place in self.places], dtype=np.int64)

    @cached_property
    def _reach(self) -> dict[tuple[Ask | int, frozenset[int]], tuple[tuple[int, ...], ...]]:
        return {}

    @cached_property
    def totals(self) -> Vector:
        """Allocatable amount of the whole cluster, the denominator of dominant shares."""
        return totals(self.problem)

    @cached_property
    def demands(self) -> tuple[Vector, ...]:
        """k -> what one gang of the shape asks for (at least, for a shape that is not rigid)."""
        return tuple(shape.demand(self.width) for shape in self.shapes)

    def level(self, q: int, p: int) -> Level:
        return p, rank(self.problem, q)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The highest first."""
        return tuple(sorted({self.level(q, p) for q, p, _ in self.waiting}, reverse=True))

    def sharing(self, level: Level, group: Siblings) -> list[int]:
        """The queues of a group that have gangs of this level, inside them or below."""
        asking = {q for q, p, _ in self.waiting if self.level(q, p) == level}
        return [q for q, inside in sorted(group.members.items()) if asking & inside]

    def turn(self, j: int) -> tuple[float, int, int]:
        """By which the gangs of a queue take turns, the smallest first: what drf says of what they hold, then age."""
        gang = self.problem.gangs[j]
        return gang_share(self.problem, gang, gang.running, self.totals), gang.age, j

    def label(self, level: Level) -> str:
        """The level in an objective's name: the priority, whether it is the overdue's, and that of the queues where it
        makes a difference."""
        priority, overdue = divmod(level[0], 2)
        name = f"{priority}, overdue" if overdue else f"{priority}"
        return name if self.alone(level) else f"{name}, queues {level[1]}"

    def alone(self, level: Level) -> bool:
        """Whether no other level has gangs of the same urgency."""
        return sum(1 for p, _ in self.levels if p == level[0]) == 1

    @cached_property
    def worth(self) -> tuple[int, ...]:
        """k -> a whole number proportional to the dominant share of one gang's demand, at least 1.

        Exact when one resource dominates every demand (GPUs usually do); else in steps of 1/10,000 of the cluster.
        """
        if self.currency is not None:
            r, unit = self.currency
            return tuple(max(1, d[r] // unit) for d in self.demands)
        return tuple(max(1, round(10_000 * max(s, default=0.0))) for s in self._shares)

    @cached_property
    def currency(self) -> tuple[int, int] | None:
        """(resource, unit) in which worth is counted exactly: the resource that dominates every demand, and the
        demands' common divisor."""
        for r in range(self.width):
            if all(s[r] >= max(s, default=0.0) for s in self._shares):
                return r, int(np.gcd.reduce([d[r] for d in self.demands if d[r]] or [1]))
        return None

    @cached_property
    def _shares(self) -> list[list[float]]:
        """k -> what part of the cluster one gang of the shape asks for, per resource."""
        return [[(x / t if t else 0.0) for x, t in zip(d, self.totals, strict=True)] for d in self.demands]

    @cached_property
    def room_for_worth(self) -> float:
        """No more worth than this finds room, whoever starts: what is free of the currency, node by node in whole pods;
        inf where it is not exact.

        sum_v floor(free_v / g) * g / unit          g: the common divisor of what single pods ask for
        """
        if self.currency is None or not all(d[self.currency[0]] for d in self.demands):
            return float("inf")
        r, unit = self.currency
        pod = int(np.gcd.reduce([role.request[r] for shape in self.shapes for role in shape.roles if role.request[r]]))
        return int((self.free.amounts[:, r] // pod).sum()) * pod // unit
