"""The greedy that gives the incumbent and the floor: gang by gang, the tightest domain that holds it, best fit inside.

After Kueue's topology-aware best fit and Volcano's hypernode gradient, described in docs/model.md; exact integers,
always feasible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from solver.greedy.fragmentation import Fragments
from solver.greedy.pod_by_pod import Podwise
from solver.problem import Gang, Placement, Problem, Subgroup, Topology, Vector
from solver.semantics.device_slots import Ints
from solver.semantics.gang_classes import Shape, broken, shape_of, uneven
from solver.semantics.placement_cost import torn
from solver.semantics.placements import merged
from solver.semantics.priorities import urgency
from solver.semantics.queue_limits import gang_share, rank
from solver.semantics.topology import ROOT, Tree
from solver.state.room import Ledger, Room

TRIES = 6
"""Domains of one tier that are really tried, best fit first."""

RELATED_TRIES = 32
"""The same for a gang in relations, of which the count of slots says less."""


class Greedy:
    """Places gangs into a `Room`, one after another."""

    def __init__(
        self, problem: Problem, tree: Tree, room: Room, fragments: Fragments | None = None, largest: bool = False
    ) -> None:
        """fragments: of the same room; pods then go where they leave least of no use to others, instead of where the
        fewest still fit. largest: of a queue's gangs those that ask for most come first, not the oldest."""
        self.problem, self.tree, self.room, self.fragments, self.largest = problem, tree, room, fragments, largest

    def order(self, gangs: Iterable[int], ledger: Ledger, totals: Vector) -> Iterable[int]:
        """Urgency first, then the queue's priority, then the queue with the lowest share at that moment, then age (with
        drf: after what each holds; not in a queue with strict order), or where the `largest` come first what each asks
        for.

        Charge the ledger between two of them.
        """
        waiting: dict[tuple[int, int], dict[int, list[int]]] = {}
        for j in sorted(gangs, key=lambda j: (*self._turn(j, totals), self.problem.gangs[j].age, j), reverse=True):
            queue = self.problem.gangs[j].queue
            waiting.setdefault((-urgency(self.problem.gangs[j]), -rank(self.problem, queue)), {}).setdefault(
                queue, []
            ).append(j)
        for p in sorted(waiting):
            queues = waiting[p]
            while queues:
                q = min(queues, key=ledger.standing)
                yield queues[q].pop()
                if not queues[q]:
                    del queues[q]

    def _turn(self, j: int, totals: Vector) -> tuple[float, float]:
        """What comes before age in a queue: what drf says of what the gang holds, and the part of the cluster that it
        asks for."""
        gang = self.problem.gangs[j]
        if self.problem.queues[gang.queue].strict:
            return 0.0, 0.0
        asked = shape_of(j, gang).demand(len(totals)) if self.largest else (0,) * len(totals)
        return gang_share(self.problem, gang, gang.running, totals), -max(
            (a / t for a, t in zip(asked, totals, strict=True) if t), default=0.0
        )

    def place(self, index: int, shape: Shape | None = None) -> tuple[Placement, ...] | None:
        """The new pods of a gang at their nodes, taken from the room; None (and nothing taken) when this greedy finds
        no way."""
        gang = self.problem.gangs[index]
        shape = shape or shape_of(index, gang)
        if not shape.possible or (shape.fixed and broken(self.tree, gang, shape.fixed)):
            return None
        want = shape.mixed()
        reach = [self.tree.totals(self._slots(shape, t)) for t in range(len(shape.roles))]
        steps = [gang] if self._beside(shape) else [*self._stricter(gang, shape), gang]
        best: tuple[int, tuple[Placement, ...]] | None = None
        for h in self._different(shape, self._near(shape, self._candidates(shape, want, reach))):
            mark = self.room.mark()
            left = list(want)
            placed = tuple(p for step in steps for p in self._try(h, step, shape, left))
            cost = torn(self.tree, gang, placed) if len(steps) > 1 else 0
            done = not any(left) and not (shape.fixed and uneven(self.tree, gang, [*shape.fixed, *placed]))
            if done and not cost:
                return placed
            self.room.undo(mark)
            if done and (best is None or cost < best[0]):
                best = cost, placed
        if best is None:
            return None
        self.room.take_all(gang, best[1])
        return best[1]

    def _stricter(self, gang: Gang, shape: Shape) -> list[Gang]:
        """The gang with its subgroups bound to ever higher tiers: first as many parts as can be are whole in a domain
        of the lowest tier, then of the next one, and only the rest obeys no more than it must. None where all obey the
        lowest tier anyway, or pods run already."""
        if shape.fixed:
            return []
        found = []
        for tier in self.tree.tiers:
            parts = tuple(
                s if s.topology.mode == "hard" and s.topology.tier <= tier else self._bound(s, tier)
                for s in gang.subgroups
            )
            if parts == gang.subgroups:
                break
            found.append(replace(gang, subgroups=parts))
        return found

    @staticmethod
    def _bound(part: Subgroup, tier: int) -> Subgroup:
        return replace(part, topology=Topology("hard", tier))

    def most(self, index: int, shape: Shape) -> int:
        """The most pods of the gang that this greedy gets into one of its domains, short of all of them; the room stays
        as it was."""
        best, want = 0, shape.mixed()
        reach = [self.reach(shape, t) for t in range(len(shape.roles))]
        domains = self.tree.domains(shape.tier) if shape.tier is not None else (ROOT,)
        count = {h: sum(min(below[h], pods) for below, pods in zip(reach, want, strict=True)) for h in domains}
        for h in self._different(shape, sorted(domains, key=lambda h: (-count[h], h))):
            if count[h] <= best:
                break
            mark, left = self.room.mark(), list(want)
            self._try(h, self.problem.gangs[index], shape, left, whole=False)
            self.room.undo(mark)
            best = max(best, sum(want) - sum(left))
        return min(best, shape.least - 1)

    def _different(self, shape: Shape, domains: Iterable[int]) -> Iterator[int]:
        """The domains without those that are built alike and have the same free, node by node, as one before: what
        fails there fails here."""
        alike = not shape.fixed and self.room.neighbours is None and not any(role.ask.portions for role in shape.roles)
        seen: set[object] = set()
        for h in domains:
            if alike:
                nodes = self.tree.laid_out(h)
                free = self.room.free.at(nodes)
                key = self.tree.form(h), self.tree.kinds[nodes].tobytes(), free.amounts.tobytes(), free.cells.tobytes()
                if key in seen:
                    continue
                seen.add(key)
            yield h

    def _beside(self, shape: Shape) -> bool:
        """Whether relations ask where its pods are."""
        return shape.related and self.room.neighbours is not None

    def _try(self, h: int, gang: Gang, shape: Shape, left: list[int], whole: bool = True) -> tuple[Placement, ...]:
        """As many of `left` under h as fit, pod by pod where relations ask who is where; counts `left` down. whole:
        less than all is of no use."""
        if shape.related and self.room.neighbours is not None:
            open_to = [self.tree.open_to(role.kinds) for role in shape.roles]
            one_by_one = Podwise(self.tree, self.room, self.room.neighbours, gang, shape, open_to)
            return () if whole and one_by_one.hopeless(h, left) else merged(one_by_one.fill(h, left))
        return self._fill(h, gang, shape, left)

    def reach(self, shape: Shape, t: int) -> dict[int, int]:
        """Domain -> pods of role t that fit under it by number."""
        return self.tree.sums(self._slots(shape, t))

    def _slots(self, shape: Shape, t: int) -> np.ndarray:
        """Pods of role t that each node holds."""
        role = shape.roles[t]
        found = np.where(self.tree.open_to(role.kinds), self.room.slots(role.ask), 0)
        return found if self.room.neighbours is None else self.room.neighbours.cap(role, found)

    def _slots_of(self, nodes: np.ndarray, shape: Shape, t: int) -> np.ndarray:
        """The same of these nodes only."""
        if self.room.neighbours is not None:
            return np.asarray(self._slots(shape, t)[nodes])
        role = shape.roles[t]
        found: Ints = np.where(self.tree.open_to(role.kinds)[nodes], self.room.slots(role.ask)[nodes], 0)
        return found

    def _candidates(self, shape: Shape, want: list[int], reach: list[Ints]) -> list[int]:
        """Domains in which every role fits by number: lowest tier first; room to grow first, then least left over."""
        holding, found = self._holding(shape, want, reach), list[int]()
        tries = None if shape.fixed else RELATED_TRIES if shape.related else TRIES
        for tier in self.tree.tiers:
            here = np.flatnonzero(holding & (self.tree.tier_of == tier))
            found += self._by_fit(here, shape, want, reach)[:tries]
        if (shape.tier is None or shape.tier > self.tree.top) and all(
            s[0] >= n for s, n in zip(reach, want, strict=True)
        ):
            found.append(ROOT)
        return found

    def _holding(self, shape: Shape, want: list[int], reach: list[Ints]) -> np.ndarray:
        """Per hypernode, whether the wanted pods of each role fit by number where the gang may be."""
        fits = self.tree.tier_of <= (self.tree.top if shape.tier is None else shape.tier)
        for slots, n in zip(reach, want, strict=True):
            fits &= slots[1:] >= n
        homes = (
            {self.tree.domain(self.problem.nodes[p.node].leaf, shape.tier) for p in shape.fixed}
            if shape.tier is not None
            else set()
        )
        if homes:
            fits &= np.array([bool(homes & set(self.tree.path(h))) for h in range(len(fits))], dtype=np.bool_)
        return fits

    @staticmethod
    def _by_fit(domains: np.ndarray, shape: Shape, want: list[int], reach: list[Ints]) -> list[int]:
        """The domains sorted: first those in which the gang could grow to its most, then by the slots that it would
        leave over."""
        cramped, over = np.zeros(len(domains), dtype=np.bool_), np.zeros(len(domains), dtype=np.int64)
        for slots, role, n in zip(reach, shape.roles, want, strict=True):
            cramped |= slots[1:][domains] < role.room
            over += slots[1:][domains] if n else 0
        order: list[int] = domains[np.lexsort((domains, over, cramped))].tolist()
        return order

    def _near(self, shape: Shape, candidates: list[int]) -> list[int]:
        """Pods that join others go where they spread the gang least; without any, the order stands."""
        leaves = {self.problem.nodes[p.node].leaf for p in shape.fixed}
        return (
            sorted(candidates, key=lambda h: self.tree.span({*leaves, None if h == ROOT else h}))
            if leaves
            else candidates
        )

    def _fill(self, h: int, gang: Gang, shape: Shape, left: list[int]) -> tuple[Placement, ...]:
        """Put as many of `left` under h as fit, whole subgroups only; counts `left` down."""
        mark, before = self.room.mark(), list(left)
        placed = self._fill_freely(h, gang, shape, left)
        for part in self._closed(h, gang):
            excess = (sum(before[t] - left[t] for t in part.roles) + self._running(shape, part, h)) % part.size
            if excess:
                self.room.undo(mark)
                left[:] = before
                capped = list(before)
                self._trim(capped, part, sum(p.pods for p in placed if p.role in part.roles) - excess)
                spare = [b - c for b, c in zip(before, capped, strict=True)]
                placed = self._fill_freely(h, gang, shape, capped)
                left[:] = [c + s for c, s in zip(capped, spare, strict=True)]
                if (sum(before[t] - left[t] for t in part.roles) + self._running(shape, part, h)) % part.size:
                    self.room.undo(mark)
                    left[:] = before
                    return ()
        return placed

    @staticmethod
    def _trim(want: list[int], part: Subgroup, total: int) -> None:
        """Lower the wants of the part's roles, the last first, until they sum up to `total`."""
        excess = sum(want[t] for t in part.roles) - max(0, total)
        for t in reversed(part.roles):
            cut = min(excess, want[t])
            want[t] -= cut
            excess -= cut

    def _fill_freely(self, h: int, gang: Gang, shape: Shape, left: list[int]) -> tuple[Placement, ...]:
        placed = self._pack(h, gang, shape, left)
        parts, nodes, starts = self.tree.parts(h)
        if parts and any(left):
            children = list(parts)
            below = [
                np.add.reduceat(self._slots_of(nodes, shape, t), starts).tolist() if left[t] else None
                for t in range(len(shape.roles))
            ]
            reach = [None if sums is None else dict(zip(parts, sums, strict=True)) for sums in below]
            while children and any(left):
                amount = {c: [min(left[t], r[c]) if r else 0 for t, r in enumerate(reach)] for c in children}
                room = {c: sum(r[c] for r in reach if r) for c in children}
                whole = [c for c in children if amount[c] == left]
                # The smallest child that holds all that is left; else the one that holds most of it.
                c = (
                    min(whole, key=lambda c: (room[c], c))
                    if whole
                    else max(children, key=lambda c: (sum(amount[c]), -c))
                )
                children.remove(c)
                if sum(amount[c]):
                    placed += self._fill(c, gang, shape, left)
        return placed

    def _closed(self, h: int, gang: Gang) -> list[Subgroup]:
        """The hard subgroups for which h is a maximal domain."""
        if h == ROOT:
            return []
        return [
            s
            for s in gang.subgroups
            if s.topology.mode == "hard"
            and s.topology.tier <= self.tree.top
            and h in self.tree.domains(s.topology.tier)
        ]

    def _running(self, shape: Shape, part: Subgroup, h: int) -> int:
        leaves = {p.node: self.problem.nodes[p.node].leaf for p in shape.fixed}
        return sum(p.pods for p in shape.fixed if p.role in part.roles and h in self.tree.path(leaves[p.node]))

    def _pack(self, h: int, gang: Gang, shape: Shape, left: list[int]) -> tuple[Placement, ...]:
        """Pods onto the nodes that h itself holds: large requests first, the fullest nodes first."""
        nodes = self.tree.held[h]
        if not len(nodes):
            return ()
        # Outside every domain of a hard subgroup there is no place for its pods.
        barred = {
            t
            for s in gang.subgroups
            for t in s.roles
            if s.topology.mode == "hard" and self.tree.domain(None if h == ROOT else h, s.topology.tier) is None
        }
        placed: list[Placement] = []
        for t in sorted(
            (t for t in range(len(left)) if left[t] and t not in barred), key=lambda t: shape.roles[t].ask, reverse=True
        ):
            ask, fits = shape.roles[t].ask, self._slots_of(nodes, shape, t)
            open_to, fits = nodes[fits > 0], fits[fits > 0]
            order = np.argsort(fits, kind="stable") if self.fragments is None else self.fragments.order(ask, open_to)
            taken = self.room.fill(open_to[order], fits[order], ask, left[t])
            placed += [
                Placement(t, node, pods)
                for node, pods in zip(open_to[order].tolist(), taken.tolist(), strict=True)
                if pods
            ]
            left[t] -= int(taken.sum())
        return tuple(placed)
