"""Gang by gang into the room that is left: the floor of a batch, what raises it, and whoever still fits in the end."""

from __future__ import annotations

from collections.abc import Iterable

from solver.admission.admit import solve_first_goal
from solver.greedy.best_fit import GreedyPlacer
from solver.greedy.least_fragmentation import starts_more
from solver.models.sets import Sets
from solver.options import Options
from solver.placement.node_exchange import exchange_pods
from solver.placement.realise import pack_buckets
from solver.placement.spread import gang_pods_by_bucket
from solver.plan import Objective
from solver.problem import Placement, Problem
from solver.semantics.gang_classes import waiting_class
from solver.semantics.placements import Placements, merge_placements, new_placements, placed_demand
from solver.semantics.queue_limits import cluster_totals
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import FreeNodes
from solver.state.queue_books import QueueBooks


def greedy_floor(
    problem: Problem,
    tree: TopologyTree,
    room: FreeNodes,
    ledger: QueueBooks,
    gangs: list[int],
    greedy: GreedyPlacer | None = None,
    serving_order: list[int] | None = None,
) -> Placements:
    """What the greedy admits, gang by gang: the incumbent of the model, and the plan that no plan may be worse than.

    greedy: another one than the usual, in a room of its own. line: takes down the order in which the gangs are asked.
    """
    ledger = ledger.copy()
    greedy = greedy or GreedyPlacer(problem, tree, room.copy())
    found: dict[int, tuple[Placement, ...]] = {}
    stopped: set[int] = set()
    for j in greedy.serving_order(gangs, ledger, cluster_totals(problem)):
        queue = problem.gangs[j].queue
        if serving_order is not None:
            serving_order.append(j)
        pods = None if queue in stopped else place_and_charge(greedy, ledger, j)
        if pods is not None:
            found[j] = pods
        elif problem.queues[queue].strict_order:
            stopped.add(queue)
    return found


def place_and_charge(greedy: GreedyPlacer, ledger: QueueBooks, j: int) -> tuple[Placement, ...] | None:
    """All pods of gang j where the greedy finds a place and its queue allows it; charges both."""
    gang, width = greedy.problem.gangs[j], len(greedy.problem.resources)
    shape = waiting_class(j, gang)
    if not ledger.allows_amount(gang.queue, shape.min_demand(width)):
        return None
    mark = greedy.free_nodes.mark()
    placed = greedy.place_gang(j, shape)
    if placed is None:
        return None
    amount = placed_demand(gang, placed, width)
    if not ledger.allows_amount(gang.queue, amount):  # a mix of roles dearer than the cheapest
        greedy.free_nodes.undo(mark)
        return None
    ledger.charge_queue(gang.queue, amount)
    return merge_placements([*shape.running_pods, *placed])


def first_improvement(floor: Placements, others: Iterable[Placements], problem: Problem) -> Placements:
    """The first of the others that is more than the floor; the floor where none is."""
    return next((other for other in others if starts_more(problem, other, floor)), floor)


def floor_after_exchange(s: Sets, room: FreeNodes, floor: Placements, gangs: list[int], options: Options) -> Placements:
    """The floor after each node was asked whether it would rather have others, and whoever then still fits; as it was,
    if that is not more."""
    left, ledger, found = exchange_pods(s.problem, room, s.queue_books, floor, gangs, options)
    again = greedy_floor(s.problem, s.tree, left, ledger, [j for j in gangs if j not in found])
    return first_improvement(floor, [{**found, **again}], s.problem)


def unpackable_objective(s: Sets, floor: Placements, options: Options) -> Objective | None:
    """The first goal of a batch, where the nodes cannot hold what these places, counted together, could: then no
    further goal is worth its model."""
    admission = solve_first_goal(s, floor, options)
    return (
        admission.objectives[0]
        if isinstance(pack_buckets(s, admission.admitted, gang_pods_by_bucket(s, admission), options), tuple)
        else None
    )


def add_gangs_that_fit(s: Sets, placements: Placements, gangs: list[int]) -> Placements:
    """The gangs that a struck limit left out although they still fit. Where the goals are proved there are none."""
    if len(placements) == len(gangs):
        return placements
    ledger = s.queue_books.copy()
    for j, pods in placements.items():
        ledger.charge_queue(
            s.problem.gangs[j].queue,
            placed_demand(s.problem.gangs[j], new_placements(s.problem.gangs[j], pods), s.resource_count),
        )
    return {
        **placements,
        **greedy_floor(
            s.problem, s.tree, s.free_nodes_after(placements), ledger, [j for j in gangs if j not in placements]
        ),
    }
