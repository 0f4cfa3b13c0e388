"""Gang by gang into the room that is left: the floor of a batch, what raises it, and whoever still fits in the end."""

from __future__ import annotations

from collections.abc import Iterable

from solver.admission.admit import first_goal
from solver.greedy.best_fit import Greedy
from solver.greedy.least_fragmentation import more
from solver.models.sets import Sets
from solver.options import Options
from solver.placement.node_exchange import exchange
from solver.placement.realise import realise
from solver.placement.spread import shared_out
from solver.plan import Objective
from solver.problem import Placement, Problem
from solver.semantics.gang_classes import shape_of
from solver.semantics.placements import Placements, fresh, merged
from solver.semantics.queue_limits import totals
from solver.semantics.topology import Tree
from solver.state.room import Ledger, Room, demand


def greedy_floor(
    problem: Problem,
    tree: Tree,
    room: Room,
    ledger: Ledger,
    gangs: list[int],
    greedy: Greedy | None = None,
    line: list[int] | None = None,
) -> Placements:
    """What the greedy admits, gang by gang: the incumbent of the model, and the plan that no plan may be worse than.

    greedy: another one than the usual, in a room of its own. line: takes down the order in which the gangs are asked.
    """
    ledger = ledger.copy()
    greedy = greedy or Greedy(problem, tree, room.copy())
    found: dict[int, tuple[Placement, ...]] = {}
    stopped: set[int] = set()
    for j in greedy.order(gangs, ledger, totals(problem)):
        queue = problem.gangs[j].queue
        if line is not None:
            line.append(j)
        pods = None if queue in stopped else fitted(greedy, ledger, j)
        if pods is not None:
            found[j] = pods
        elif problem.queues[queue].strict:
            stopped.add(queue)
    return found


def fitted(greedy: Greedy, ledger: Ledger, j: int) -> tuple[Placement, ...] | None:
    """All pods of gang j where the greedy finds a place and its queue allows it; charges both."""
    gang, width = greedy.problem.gangs[j], len(greedy.problem.resources)
    shape = shape_of(j, gang)
    if not ledger.allows(gang.queue, shape.demand(width)):
        return None
    mark = greedy.room.mark()
    placed = greedy.place(j, shape)
    if placed is None:
        return None
    amount = demand(gang, placed, width)
    if not ledger.allows(gang.queue, amount):  # a mix of roles dearer than the cheapest
        greedy.room.undo(mark)
        return None
    ledger.charge(gang.queue, amount)
    return merged([*shape.fixed, *placed])


def raised(floor: Placements, others: Iterable[Placements], problem: Problem) -> Placements:
    """The first of the others that is more than the floor; the floor where none is."""
    return next((other for other in others if more(problem, other, floor)), floor)


def exchanged(s: Sets, room: Room, floor: Placements, gangs: list[int], options: Options) -> Placements:
    """The floor after each node was asked whether it would rather have others, and whoever then still fits; as it was,
    if that is not more."""
    left, ledger, found = exchange(s.problem, room, s.ledger, floor, gangs, options)
    again = greedy_floor(s.problem, s.tree, left, ledger, [j for j in gangs if j not in found])
    return raised(floor, [{**found, **again}], s.problem)


def unpacked(s: Sets, floor: Placements, options: Options) -> Objective | None:
    """The first goal of a batch, where the nodes cannot hold what these places, counted together, could: then no
    further goal is worth its model."""
    admission = first_goal(s, floor, options)
    return (
        admission.objectives[0]
        if isinstance(realise(s, admission.admitted, shared_out(s, admission), options), tuple)
        else None
    )


def filled(s: Sets, placements: Placements, gangs: list[int]) -> Placements:
    """The gangs that a struck limit left out although they still fit. Where the goals are proved there are none."""
    if len(placements) == len(gangs):
        return placements
    ledger = s.ledger.copy()
    for j, pods in placements.items():
        ledger.charge(s.problem.gangs[j].queue, demand(s.problem.gangs[j], fresh(s.problem.gangs[j], pods), s.width))
    return {
        **placements,
        **greedy_floor(s.problem, s.tree, s.room_beside(placements), ledger, [j for j in gangs if j not in placements]),
    }
