"""Why a gang waits: the first sufficient cause, each tested by itself, with its numbers; and what would let it start, tried out.

Codes, for ever: GW101 queue capability, GW102 not enough free, GW103 no node holds a pod, GW104 no domain has room, GW105 others go first,
GW106 kept for guarantees, GW107 no node is open to it, GW108 the empty cluster cannot hold it, GW109 no whole subgroups, GW110 limit reached,
GW112 the queue's proportional share is used up, GW113 the queue takes nothing new GW118 no cell has room
(GW111 is the compiler's).
Repairs: GR101 more capability, GR102 a higher tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from solver.cells import Free, Ints, Uses, positions, whole
from solver.fit import Shortage, holds, shortage
from solver.greedy import Greedy
from solver.options import Options
from solver.plan import Fact, Repair
from solver.problem import Ask, Placement, Problem, Vector
from solver.room import Ledger, Room
from solver.shapes import Shape, shape_of
from solver.tree import Tree


@dataclass
class Reasons:
    """before: free vectors and holdings with only what runs. after: with the plan. started: what the plan starts, gang -> placements;
    uses: on which cells."""

    problem: Problem
    tree: Tree
    free_before: Free
    before: Ledger
    free_after: Free
    after: Ledger
    started: dict[int, tuple[Placement, ...]]
    uses: Uses
    options: Options
    _given: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)
    _blockers: dict[tuple[int, Shape], tuple[Fact, ...]] = field(default_factory=dict)
    _known: dict[object, tuple[tuple[Fact, ...], tuple[Repair, ...]]] = field(default_factory=dict)

    @cached_property
    def _capacity(self) -> Free:
        return whole(self.problem)

    def explain(self, j: int) -> tuple[tuple[Fact, ...], tuple[Repair, ...]]:
        """Facts and repairs of a gang that waits. Gangs of one shape and queue wait for one reason."""
        gang = self.problem.gangs[j]
        shape = shape_of(j, gang)
        key = (gang.queue, shape if shape.fixed else (replace(shape, alone=None), gang.minimum, gang.roles))
        if key not in self._known:
            facts = self._facts(j, shape)
            self._known[key] = facts, tuple(self._repairs(j, shape, facts))
        return self._known[key]

    def _facts(self, j: int, shape: Shape) -> tuple[Fact, ...]:
        """The stages of the question, the hopeless ones first: ever, beside what runs, beside what the plan starts."""
        gang = self.problem.gangs[j]
        fresh = shape_of(j, replace(gang, running=()))
        amount = shape.demand(len(self.problem.resources))
        capacity = self._capacity
        for facts in (
            self._hopeless_roles(fresh, capacity),
            self._hopeless_queue(gang.queue, fresh.demand(len(self.problem.resources))),
            self._no_room(j, fresh, capacity, never=True),
            self._closed(gang.queue),
            self._queue_full(gang.queue, amount, self.before),
            self._no_room(j, shape, self.free_before, never=False),
            self._guaranteed(gang.queue, amount, self.before),
            self._queue_full(gang.queue, amount, self.after),
            self._guaranteed(gang.queue, amount, self.after),
            self._others_first(j, shape),
        ):
            if facts:
                return facts
        return (Fact("GW110"),)

    def _hopeless_roles(self, shape: Shape, capacity: Free) -> tuple[Fact, ...]:
        """GW107: no node's kind is open to a role. GW103, GW118: no open node, empty, holds one of its pods, as a whole or on its cells."""
        found = []
        kinds = np.array([n.kind for n in self.problem.nodes])
        for t, role in enumerate(shape.roles):
            if not role.need:
                continue
            open_nodes = capacity.at(np.isin(kinds, sorted(role.kinds))) if len(kinds) else capacity
            if not len(open_nodes.amounts):
                found.append(Fact("GW107", never=True, role=t))
            elif not open_nodes.slots(Ask(role.request)).any():
                most = open_nodes.amounts.max(axis=0)
                short = [r for r, a in enumerate(role.request) if a > most[r]]
                r = short[0] if short else None
                asked, limit = (None, None) if r is None else (role.request[r], int(most[r]))
                found.append(Fact("GW103", never=True, role=t, resource=r, asked=asked, limit=limit, available=limit))
            elif not open_nodes.slots(role.ask).any():
                found.append(Fact("GW118", never=True, role=t, asked=role.need, available=0))
        return tuple(found)

    def _hopeless_queue(self, queue: int, amount: Vector) -> tuple[Fact, ...]:
        """GW101: the gang alone is more than a capability on its queue's path."""
        for q in self.before.path(queue):
            for r, asked in enumerate(amount):
                limit = self.problem.queues[q].capability[r]
                if limit is not None and asked > limit:
                    return (Fact("GW101", never=True, queue=q, resource=r, asked=asked, limit=limit, available=limit),)
        return ()

    def _closed(self, queue: int) -> tuple[Fact, ...]:
        """GW113: the queue, or one above it, is closed, or takes no gangs because it has children."""
        if self.before.rules.takes[queue]:
            return ()
        return (Fact("GW113", queue=next((q for q in self.before.path(queue) if not self.problem.queues[q].open), queue)),)

    def _queue_full(self, queue: int, amount: Vector, ledger: Ledger) -> tuple[Fact, ...]:
        """GW101, GW106, GW112: with what its queue holds, the gang is more than a capability on the path, than what guarantees leave of it, or than
        the queue's proportional share."""
        over = ledger.over_ceiling(queue, amount)
        if over is None:
            return ()
        ceiling, r = over
        q, limit = ceiling.queue, ceiling.most[r] or 0
        available = max(0, limit - ledger.under_ceiling(ceiling)[r])
        if ceiling.code == "GW106":
            return (Fact("GW106", queue=q, resource=r, asked=amount[r], available=available),)
        inside = tuple(j for j in sorted(self.started) if q in ledger.path(self.problem.gangs[j].queue)) if ledger is self.after else ()
        return (Fact(ceiling.code, queue=q, resource=r, asked=amount[r], limit=limit, available=available, gangs=inside),)

    def _guaranteed(self, queue: int, amount: Vector, ledger: Ledger) -> tuple[Fact, ...]:
        """GW106: what is free is kept for guarantees of other queues."""
        over = ledger.over_guarantee(queue, amount)
        if over is None:
            return ()
        q, r = over
        roots = [i for i, x in enumerate(self.problem.queues) if x.parent is None]
        need = ledger.needs(r)
        limit, used = (ledger.total[r], sum(need[i] for i in roots)) if q is None else (self.problem.queues[q].capability[r] or 0, need[q])
        return (Fact("GW106", queue=queue if q is None else q, resource=r, asked=amount[r], available=max(0, limit - used)),)

    def _no_room(self, j: int, shape: Shape, free: Free, never: bool) -> tuple[Fact, ...]:
        """GW102, GW104, GW108, GW109: alone on these free vectors it does not fit; counted where counting proves it, else by an exact model."""
        short = shortage(self.problem, self.tree, shape, free)
        if short is None:
            answer = holds(self.problem, self.tree, j, shape, free, self.options)
            if answer:
                return ()
            if answer is None:
                return (Fact("GW110"),)
            short = self._partial(j, shape, free)
        code = "GW108" if never and short.code == "GW102" else short.code
        return (
            Fact(
                code, never, role=short.role, resource=short.resource, hypernode=short.hypernode, tier=short.tier,
                asked=short.asked, available=short.available, limit=short.size,
            ),
        )  # fmt: skip

    def _partial(self, j: int, shape: Shape, free: Free) -> Shortage:
        """The numbers for a gang that fits by every count and yet provably not: the pods that the greedy gets in."""
        most = Greedy(self.problem, self.tree, Room(free)).most(j, shape)
        if shape.tier is not None and shape.tier <= self.tree.top:
            return Shortage("GW104", tier=shape.tier, asked=shape.least, available=most)
        return Shortage("GW102", asked=shape.least, available=most)

    def _others_first(self, j: int, shape: Shape) -> tuple[Fact, ...]:
        """GW105: it fits beside what runs but not beside what the plan starts; the gangs without which it would, none of them to spare."""
        gang = self.problem.gangs[j]
        if (
            shortage(self.problem, self.tree, shape, self.free_after) is None
            and holds(self.problem, self.tree, j, shape, self.free_after, self.options) is not False
        ):
            return ()
        key = (gang.priority, shape)
        if key not in self._blockers:
            self._blockers[key] = (self._blocked(j, shape),)
        return self._blockers[key]

    def _blocked(self, j: int, shape: Shape) -> Fact:
        """By how much it does not fit beside the plan, and for whom. Whose queue it is in does not matter."""
        gang = self.problem.gangs[j]
        most = Greedy(self.problem, self.tree, Room(self.free_after)).most(j, shape)
        order = sorted(self.started, key=lambda i: (self.problem.gangs[i].priority, -self.problem.gangs[i].age, -i))
        blockers = self._least_prefix(j, shape, [i for i in order if self.problem.gangs[i].priority >= gang.priority] or order)
        return Fact("GW105", asked=shape.least, available=most, gangs=tuple(sorted(blockers)))

    def _least_prefix(self, j: int, shape: Shape, order: list[int]) -> list[int]:
        """The shortest prefix of `order` without which the gang fits, less the members that it does not need."""

        def fits(without: Iterable[int]) -> bool:
            free = self.free_after.copy()
            for i in without:
                nodes, amounts = self._taken(i)
                np.add.at(free.amounts, nodes, amounts)
                self._give_back_cells(free, i)
            return Greedy(self.problem, self.tree, Room(free)).place(j, shape) is not None

        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(order[:middle]) else (middle + 1, high)
        chosen = order[:low]
        for i in list(chosen) if len(chosen) <= 32 else []:
            rest = [x for x in chosen if x != i]
            if fits(rest):
                chosen = rest
        return chosen

    def _taken(self, i: int) -> tuple[Ints, Ints]:
        """(nodes, amounts) that the plan gives gang i beyond what it runs."""
        if i not in self._given:
            roles = self.problem.gangs[i].roles
            rows = [(p.node, [p.pods * a for a in roles[p.role].request]) for p in self.started[i]]
            rows += [(p.node, [-p.pods * a for a in roles[p.role].request]) for p in self.problem.gangs[i].running]
            self._given[i] = np.array([n for n, _ in rows], dtype=np.int64), np.array([a for _, a in rows], dtype=np.int64)
        return self._given[i]

    def _give_back_cells(self, free: Free, i: int) -> None:
        """What the plan gives gang i of the nodes' cells."""
        for use in self.uses.get(i, ()):
            division, position = self._positions[use.node][use.cell]
            (portion,) = (p for p in self.problem.gangs[i].roles[use.role].portions if p.division == division)
            free.cells[use.node, division, position] += np.array(portion.share, dtype=np.int64) * use.pods

    @cached_property
    def _positions(self) -> list[list[tuple[int, int]]]:
        return positions(self.problem)

    def _repairs(self, j: int, shape: Shape, facts: tuple[Fact, ...]) -> Iterator[Repair]:
        """Only what was tried: with this one change the gang fits beside the plan."""
        queue, amount = self.problem.gangs[j].queue, shape.demand(len(self.problem.resources))
        for fact in facts:
            if fact.code == "GW101" and fact.queue is not None and fact.resource is not None and self._fits_after(j, shape):
                missing = self.after.held[fact.queue][fact.resource] + amount[fact.resource] - (fact.limit or 0)
                if self._only(queue, amount, fact.queue, fact.resource):
                    yield Repair("GR101", queue=fact.queue, resource=fact.resource, amount=missing)
            if fact.code == "GW104" and shape.tier is not None and not shape.fixed and self.after.allows(queue, amount):
                for tier in [*(t for t in self.tree.tiers if t > shape.tier), self.tree.top + 1]:
                    if self._fits_after(j, replace(shape, tier=tier)):
                        yield Repair("GR102", tier=tier)
                        break

    def _fits_after(self, j: int, shape: Shape) -> bool:
        return Greedy(self.problem, self.tree, Room(self.free_after)).place(j, shape) is not None

    def _only(self, queue: int, amount: Vector, q: int, r: int) -> bool:
        """Whether q's capability of r is the only limit that the gang meets beside the plan."""
        queues = list(self.problem.queues)
        queues[q] = replace(queues[q], capability=tuple(None if i == r else x for i, x in enumerate(queues[q].capability)))
        return self.after.under(replace(self.problem, queues=tuple(queues))).allows(queue, amount)
