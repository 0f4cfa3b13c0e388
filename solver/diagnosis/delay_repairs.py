"""What would let a gang start for which there is room (`waits`): each change was tried beside the plan, and is the
least of its kind.

Codes, for ever: GR114 a higher priority (as in `reasons`), GR117 no strict order, GR118 the start of those before it,
GR119 fewer domains kept for another queue, GR120 another queue, GR121 a shorter expected duration, GR122 the end of
maintenance. Besides, what would do without the room that is closed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from solver.diagnosis import Explanation, World, kind
from solver.diagnosis.delays import Waits
from solver.diagnosis.minimal import first
from solver.diagnosis.questions import explanations
from solver.mip.executors import Mapper
from solver.placement.fit import found, holds, shortage
from solver.plan import Fact, Repair, Reservation
from solver.problem import Gang, Node, Placement, Problem
from solver.semantics.device_slots import Free, whole
from solver.semantics.exclusions import both, closed, closing_on, kept_from, shut_to
from solver.semantics.gang_classes import shape_of
from solver.semantics.priorities import end
from solver.semantics.topology import Tree
from solver.state.room import Ledger, Room, demand
from solver.timeline.reservation import in_time

MOST = 4
"""Repairs that are said."""
CLOSED = frozenset({"GW106", "GW116"})
"""Facts of nodes that are closed to the gang: it may do without them."""
WINDOWS = 8
"""Ends of maintenance that are tried, the soonest first."""
ORDER: Mapping[str, int] = {
    **dict.fromkeys(("GR102", "GR106", "GR107", "GR113", "GR120", "GR121"), 0),
    **dict.fromkeys(("GR103", "GR109", "GR116", "GR118", "GR122"), 1),
    "GR105": 2,
    "GR114": 3,
    **dict.fromkeys(("GR101", "GR108", "GR110", "GR111", "GR117", "GR119"), 4),
}
"""As in `reasons.repairs`: what its owner can change without giving up pods, waiting, fewer pods, a higher priority,
the queues; the rest is 5."""


def explained(waits: Waits, mapper: Mapper) -> dict[int, Explanation]:
    """Facts and repairs of each waiting gang."""
    why: dict[int, Explanation] = {}
    delayed = {j: facts for j in waits.waiting if (facts := waits.delay(j))}
    held = None if waits.reservation is None else waits.reservation.gang
    lacking = [j for j in waits.waiting if j not in delayed or delayed[j][0].code in CLOSED]
    for guarded in (False, True):
        world = waits.guarded_world if guarded else replace(waits.world, shut=waits.closings)
        # A gang that something is closed to is asked without that, unless it has no room there even beside what runs
        # alone.
        asked = [j for j in lacking if (waits.shut_out(j) and (j in delayed or waits.beside_what_runs(j))) is guarded]
        others = [j for j in asked if j != held]
        why |= explanations(world, others, mapper) if others else {}
        if len(others) < len(asked):  # nobody is kept off the room that is reserved for himself
            why |= explanations(replace(world, reserved=(), blockers={}), [j for j in asked if j == held], mapper)
    for j in lacking:
        if waits.shut_out(j) and j not in delayed and not waits.beside_what_runs(j):
            why[j] = (*why[j][0], *waits.closed_anyway(j)), why[j][1]
    known: dict[object, tuple[Repair, ...]] = {}
    for j, facts in delayed.items():
        key = kind(waits.world, j), waits.world.problem.gangs[j].duration, j in waits.barred, j == held, facts
        if key not in known:
            known[key] = _merged(repairs(waits, j, facts), why[j][1] if j in why else ())
        why[j] = facts, known[key]
    if held in why:  # the reservation itself says for whom it waits
        why[held] = why[held][0], tuple(repair for repair in why[held][1] if repair.code not in ("GR103", "GR109"))
    return why


def _merged(own: Sequence[Repair], usual: Sequence[Repair]) -> tuple[Repair, ...]:
    return tuple(sorted((*own, *usual), key=lambda repair: (bool(repair.also), ORDER.get(repair.code, 5)))[:MOST])


def repairs(waits: Waits, j: int, facts: Sequence[Fact]) -> list[Repair]:
    """What is known to help against these facts."""
    (fact, *others) = facts
    asked = Asked(waits, j)
    return [] if others else list(FITTING[fact.code](asked, fact))


@dataclass(frozen=True)
class Asked:
    """Gang j in worlds that are changed a little. A world is a problem with this gang alone: what the others hold is in
    the room and the ledger."""

    waits: Waits
    j: int

    @cached_property
    def alone(self) -> Problem:
        problem = self.waits.world.problem
        return replace(problem, gangs=(problem.gangs[self.j],))

    def beside(self, alone: Problem, at: int = 0) -> bool:
        """Whether it would start beside the plan, were its world this one: by room, by queues, and without touching
        what is reserved.

        at: seconds from now, when those whose end is known may have ended.
        """
        held = self.waits.reservation
        lasting = held is not None and self.j != held.gang and not in_time(alone, 0, held)
        if lasting and self.j in self.waits.barred:
            return False
        reserved = frozenset(p.node for p in held.placements) if held is not None and lasting else frozenset()
        off = both(both(kept_from(alone), closing_on(alone)), {0: reserved})
        return self._fits(closed(alone, off), at)

    def _fits(self, alone: Problem, at: int) -> bool:
        (gang,), world = alone.gangs, self.waits.world
        shape, tree, (free, ledger) = shape_of(0, gang), Tree(alone), self._left(at)
        allowed = ledger.rules.takes[gang.queue] and ledger.allows(gang.queue, shape.demand(len(alone.resources)))
        if not allowed or shortage(alone, tree, shape, free) is not None:
            return False
        return holds(alone, tree, 0, shape, free, world.options, world.neighbours) is True

    def _left(self, at: int) -> tuple[Free, Ledger]:
        """What is free on the nodes and what the queues hold then. Of cells it is not known which come back, and pods
        that others mind stay."""
        world, problem = self.waits.world, self.waits.world.problem
        holding = {**world.kept, **world.started}
        gone = [
            v
            for v in sorted(holding)
            if (ends := end(problem, v)) is not None and ends <= at and not minds(problem.gangs[v])
        ]
        return (world.free_after, world.after) if not gone else given_back(world, [(v, holding[v]) for v in gone])

    def changed(self, **change: object) -> Problem:
        """Its world with something about the gang changed."""
        return replace(self.alone, gangs=(replace(self.alone.gangs[0], **change),))  # type: ignore[arg-type]


def minds(gang: Gang) -> bool:
    """Whether its pods say something of others, or others of them."""
    return any(role.bears or role.matches for role in gang.roles)


def given_back(world: World, gone: Iterable[tuple[int, tuple[Placement, ...]]]) -> tuple[Free, Ledger]:
    """What is left after the plan once these pods of gangs are gone."""
    free, ledger, pods = (
        world.free_after.copy(),
        world.after.copy(),
        [(world.problem.gangs[v], placed) for v, placed in gone],
    )
    world.return_to(free, pods)
    for gang, placed in pods:
        ledger.charge(gang.queue, tuple(-x for x in demand(gang, placed, len(world.problem.resources))))
    return free, ledger


# ---- an earlier gang of a strict queue


def _in_order(asked: Asked, fact: Fact) -> Iterator[Repair]:
    waits, problem = asked.waits, asked.waits.world.problem
    (first,) = fact.gangs
    if _both_fit(asked, first):
        yield Repair("GR118", gangs=(first,))
    if asked.beside(asked.alone):
        yield Repair("GR114", amount=problem.gangs[first].priority)
        yield Repair("GR117", queue=fact.queue)
    elif waits.beside_what_runs(asked.j):
        above = [first, *waits.world.started, *([] if waits.reservation is None else [waits.reservation.gang])]
        yield Repair("GR114", amount=max(problem.gangs[i].priority for i in above))


def _both_fit(asked: Asked, first: int) -> bool:
    """Whether the empty cluster has room for the first gang and then for this one; no is said of pods that mind others."""
    problem = asked.waits.guarded
    two = replace(problem, gangs=tuple(replace(problem.gangs[i], running=()) for i in (first, asked.j)))
    if any(map(minds, two.gangs)):
        return False
    tree, room, ledger, width = Tree(two), Room(whole(two)), asked.waits.world.idle.copy(), len(two.resources)
    for i, gang in enumerate(two.gangs):
        placed = found(two, tree, i, shape_of(i, gang), room.free)
        if placed is None or not ledger.allows(gang.queue, demand(gang, placed, width)):
            return False
        room.take_all(gang, placed)
        ledger.charge(gang.queue, demand(gang, placed, width))
    return True


# ---- a reservation


def _reserved(asked: Asked, fact: Fact) -> Iterator[Repair]:
    held = asked.waits.reservation
    if held is None:
        return
    waits, problem = asked.waits, asked.waits.world.problem
    gang = problem.gangs[asked.j]
    if held.starts_in and not gang.running and asked.beside(asked.changed(duration=held.starts_in)):
        yield Repair("GR121", seconds=held.starts_in)
    if _fits_once_started(asked, held):
        yield Repair("GR118", gangs=(held.gang,), seconds=held.starts_in)
    # Beside what the plan starts it need not come before that; where others fill in it has to.
    above = [held.gang] if waits.beside_the_plan(asked.j) else [held.gang, *waits.world.started]
    yield Repair("GR114", amount=max(problem.gangs[i].priority for i in above))


def _fits_once_started(asked: Asked, held: Reservation) -> bool:
    """Whether there is room for it beside the plan once those have ended for whom the reservation waits, and its gang
    has started."""
    waits, world = asked.waits, asked.waits.world
    problem, holding = waits.guarded, {**world.kept, **world.started}
    free, ledger = given_back(world, [(v, holding.get(v, ())) for v in held.until])
    first = problem.gangs[held.gang]
    for p in held.placements:
        free.amounts[p.node] -= np.array(first.roles[p.role].request, dtype=np.int64) * p.pods
    ledger.charge(first.queue, demand(first, held.placements, len(problem.resources)))
    gang, shape = problem.gangs[asked.j], shape_of(asked.j, problem.gangs[asked.j])
    free.amounts[shut_to(problem, gang, held.starts_in)] = 0
    if minds(gang) or not ledger.allows(gang.queue, shape.demand(len(problem.resources))):
        return False
    return found(problem, waits.guarded_tree, asked.j, shape, free.clipped()) is not None


# ---- domains that another queue keeps


def _kept(asked: Asked, fact: Fact) -> Iterator[Repair]:
    problem, q = asked.waits.world.problem, fact.queue
    if q is None:
        return
    if not problem.queues[q].strict and asked.beside(asked.changed(queue=q)):
        yield Repair("GR120", queue=q)
    kept = problem.queues[q].kept

    def fewer(count: int) -> Problem:
        """The last ones are the first to go: `Queue.kept` has them in order."""
        return replace(
            asked.alone,
            queues=tuple(replace(x, kept=kept[:-count]) if i == q else x for i, x in enumerate(problem.queues)),
        )

    least = first(range(1, len(kept) + 1), lambda count: asked.beside(fewer(count)))
    if least is not None:
        yield Repair("GR119", queue=q, amount=least)


# ---- maintenance


def _maintenance(asked: Asked, fact: Fact) -> Iterator[Repair]:
    """GR121: the longest duration with which it ends in time. GR122: the soonest end of maintenance after which it need
    not."""
    problem = asked.waits.world.problem
    gang = problem.gangs[asked.j]
    times = {
        node.closes_in
        for node in problem.nodes
        if node.closes_in and (gang.duration is None or node.closes_in < gang.duration)
    }
    longest = (
        None
        if gang.running
        else first(sorted(times, reverse=True), lambda seconds: asked.beside(asked.changed(duration=seconds)))
    )
    if longest is not None:
        yield Repair("GR121", seconds=longest)
    ends = sorted({to for node in problem.nodes for _, to in node.windows})
    yield from islice(
        (Repair("GR122", seconds=then) for then in ends[:WINDOWS] if asked.beside(_at(asked.alone, then), then)), 1
    )


def _at(alone: Problem, start: int) -> Problem:
    """The gang's world when it is to start then: open are the nodes of which no window meets its run [start, start +
    duration)."""
    (gang,) = alone.gangs
    lasts = gang.duration

    def shut_then(node: Node) -> bool:
        if node.closes_in is not None and not node.windows:
            return True
        return any(to > start and (lasts is None or since < start + lasts) for since, to in node.windows)

    # Counted from now it lasts until start + duration, and a node that is shut to it then is as one that is shut now.
    nodes = tuple(
        replace(node, closes_in=0 if shut_then(node) else None) if node.closes_in is not None else node
        for node in alone.nodes
    )
    return replace(alone, nodes=nodes, gangs=(replace(gang, duration=None if lasts is None else start + lasts),))


FITTING: Mapping[str, Callable[[Asked, Fact], Iterator[Repair]]] = {
    "GW106": _kept,
    "GW114": _reserved,
    "GW115": _in_order,
    "GW116": _maintenance,
}
