"""Growth: elastic gangs take the remaining room, one unit at a time, the queue with the lowest share first; where
queues are first, within their entitlements before beyond them."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace

from solver.greedy.best_fit import GreedyPlacer
from solver.options import Budget
from solver.placement.keep import take_former_places
from solver.problem import Gang, Placement, Problem
from solver.semantics.gang_classes import breaks_topology, growing_class, has_partial_subgroup, pods_per_role
from solver.semantics.order import gang_dominant_share, puts_queues_first, queue_priority, serving_rounds
from solver.semantics.placements import Placements, merge_placements
from solver.state.queue_books import QueueBooks
from solver.state.state import Pods, State


@dataclass(frozen=True, slots=True)
class GrowthRequest:
    """A gang's further growth: whole units of one kind after another, `stride` units at a time, fewer where that many
    do not fit. unit: pods of each role."""

    kind: int
    unit: tuple[int, ...]
    stride: int


def grow_gangs(
    state: State,
    placements: Placements,
    books_at_start: QueueBooks | None = None,
    lasting_gangs: Container[int] = (),
    budget: Budget | None = None,
    within_entitlements: bool = False,
) -> dict[int, Pods]:
    """Return the placements with the growth, which is also taken from the state.

    placements: gang -> pods of all gangs that run or start. A unit is a pod, or a whole subgroup where the pod belongs
    to one. books_at_start: what the queues hold at the start of a reservation; lasting gangs, which are still there
    then, grow within it. within_entitlements: no further than what queues are entitled to.
    """
    growth = _Growth(state, dict(placements), books_at_start, lasting_gangs, budget or Budget())
    for queues, is_entitled in growth_stages(state.problem):
        if is_entitled or not within_entitlements:
            growth.grow(queues, is_entitled)
    return growth.grown


def growth_stages(problem: Problem) -> Iterator[tuple[frozenset[int], bool]]:
    """Yield (the queues whose gangs grow, whether only within their entitlements), one after another. Where queues are
    first, entitled growth precedes borrowed growth."""
    queues = range(len(problem.queues))
    if not puts_queues_first(problem, queues):
        yield frozenset(queues), False
        return
    of_priority = {q: queue_priority(problem, q) for q in queues}
    for served in serving_rounds(problem, of_priority.values()):
        of_round = frozenset(q for q in queues if of_priority[q] in served)
        yield of_round, True
        yield of_round, False


class _Growth:
    """grown: gang -> its pods so far."""

    def __init__(
        self,
        state: State,
        grown: dict[int, Pods],
        books_at_start: QueueBooks | None,
        lasting_gangs: Container[int],
        budget: Budget,
    ) -> None:
        self.grown, self._state, self._strides = grown, state, budget.growth_strides
        self._books_at_start, self._lasting_gangs = books_at_start, lasting_gangs
        self._greedy = GreedyPlacer(state, budget=budget)

    def grow(self, queues: Collection[int], only_entitled: bool) -> None:
        """Unit by unit, of the queue with the lowest share the next one, until none fits."""
        wanting = self._first_requests(queues)
        while wanting:
            j = min(wanting, key=self._turn)
            wish, found = wanting[j], self._place(j, wanting[j], only_entitled)
            if not found and wish.stride > 1:
                wanting[j] = replace(wish, stride=wish.stride // 2)
                continue
            gang = self._state.problem.gangs[j]
            again = _next_request(gang, self.grown[j], wish.kind + (not found), self._strides, wish)
            if again is None:
                del wanting[j]
            else:
                wanting[j] = again

    def _first_requests(self, queues: Collection[int]) -> dict[int, GrowthRequest]:
        tree, gangs, found = self._state.tree, self._state.problem.gangs, dict[int, GrowthRequest]()
        for j, pods in self.grown.items():
            wish = _next_request(gangs[j], pods, 0, self._strides) if gangs[j].queue in queues else None
            if wish is None or breaks_topology(tree, gangs[j], pods):
                continue
            if not has_partial_subgroup(tree, gangs[j], pods):
                found[j] = wish
        return found

    def _turn(self, j: int) -> tuple[object, ...]:
        """The smaller, the sooner the gang has its turn."""
        problem, gang = self._state.problem, self._state.problem.gangs[j]
        queue = -queue_priority(problem, gang.queue), self._state.queue_books.share_order_key(gang.queue)
        order = (queue, -gang.priority) if problem.policy.queues_first else (-gang.priority, queue)
        return *order, gang_dominant_share(problem, gang, self.grown[j], problem.totals), gang.age, j

    def _place(self, j: int, wish: GrowthRequest, only_entitled: bool) -> bool:
        """Return whether the pods of the request find room and the queues allow them; takes the room then."""
        gang, books = self._state.problem.gangs[j], self._state.queue_books
        mix = [wish.stride * pods for pods in wish.unit]
        amount = tuple(
            map(sum, zip(*([n * x for x in r.request] for n, r in zip(mix, gang.roles, strict=True)), strict=True))
        )
        bound = [books]
        if self._books_at_start is not None and j in self._lasting_gangs:
            bound.append(self._books_at_start)
        if only_entitled and not books.is_growth_entitled(gang.queue, amount):
            return False
        if not all(each.allows_amount(gang.queue, amount) for each in bound):
            return False
        gang_class = growing_class(j, gang, self.grown[j]).with_fixed_mix(mix)
        former = take_former_places(self._state, j, gang_class) if gang.former else None
        more = former or self._greedy.place_gang(j, gang_class)
        if more is None:
            return False
        for each in bound:
            each.charge_queue(gang.queue, amount)
        self.grown[j] = merge_placements([*self.grown[j], *more])
        return True


def _next_request(
    gang: Gang, pods: tuple[Placement, ...], first: int, strides: int, previous: GrowthRequest | None = None
) -> GrowthRequest | None:
    """Return the next stride of the first kind of units, from `first` on, with units left; never longer than the one
    before it of that kind."""
    for kind, (unit, left) in enumerate(_units(gang, pods_per_role(len(gang.roles), pods))):
        if kind >= first and left > 0:
            is_new = previous is None or previous.kind != kind
            stride = max(1, left // strides) if previous is None or is_new else min(previous.stride, left)
            return GrowthRequest(kind, unit, stride)
    return None


def _units(gang: Gang, have: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the kinds of units by which a gang grows, and the remaining number of each: one role after another; or the
    missing pods of a begun unit of all roles, then whole ones."""
    if not gang.growth_unit:
        for t, role in enumerate(gang.roles):
            size = math.lcm(*(s.size for s in gang.subgroups if t in s.roles))
            unit = tuple(size if other == t else 0 for other in range(len(gang.roles)))
            yield unit, (role.replicas - have[t]) // size
        return
    roles = [(n, of_unit, role.replicas) for n, of_unit, role in zip(have, gang.growth_unit, gang.roles, strict=True)]
    begun = max(-(-n // of_unit) for n, of_unit, _ in roles if of_unit)
    lacking = tuple(max(0, min(begun * of_unit, most) - n) for n, of_unit, most in roles)
    yield lacking, int(any(lacking))
    yield gang.growth_unit, min(most // of_unit for _, of_unit, most in roles if of_unit) - begun
