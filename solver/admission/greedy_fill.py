"""Gangs started one by one by a greedy: the floor of a batch, and the gangs that still fit in the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from solver.greedy.best_fit import GreedyPlacer
from solver.models.sets import Sets
from solver.options import Budget
from solver.semantics.gang_classes import GangClass, waiting_class
from solver.semantics.placements import Placements, merge_placements, placed_demand
from solver.semantics.priorities import precedence, serving_order_key
from solver.state.state import Pods


def greedy_floor(placer: GreedyPlacer, gangs: Iterable[int]) -> Placements:
    """Return the gangs that the greedy starts, in serving order: the model's incumbent, below which no plan ends. The
    placer's state holds them afterwards."""
    return {j: pods for j, pods in serve_gangs(placer, gangs) if pods is not None}


def serve_gangs(placer: GreedyPlacer, gangs: Iterable[int]) -> Iterator[tuple[int, Pods | None]]:
    """Yield each gang in serving order, with all its pods where it starts.

    Room and queue limits only shrink meanwhile, so a gang like one that found no room is not tried. A gang under pod
    rules is tried, since new pods may be what it needs next to it.
    """
    stopped: set[int] = set()
    refused: set[tuple[int, GangClass]] = set()
    for j in placer.serving_order(gangs):
        queue = placer.problem.gangs[j].queue
        gang_class = waiting_class(j, placer.problem.gangs[j])
        kind = queue, gang_class
        pods = None if queue in stopped or kind in refused else place_and_charge(placer, j)
        if pods is None and placer.problem.queues[queue].strict_order:
            stopped.add(queue)
        if pods is None and not gang_class.has_pod_rules:
            refused.add(kind)
        yield j, pods


def place_and_charge(placer: GreedyPlacer, j: int) -> Pods | None:
    """Return all pods of gang j where the greedy finds room and its queue allows it; takes the room and charges the
    queue."""
    gang, width, books = placer.problem.gangs[j], len(placer.problem.resources), placer.state.queue_books
    gang_class = waiting_class(j, gang)
    if not books.allows_amount(gang.queue, gang_class.min_demand(width)):
        return None
    mark = placer.state.mark()
    placed = placer.place_gang(j, gang_class)
    if placed is None:
        return None
    amount = placed_demand(gang, placed, width)
    if not books.allows_amount(gang.queue, amount):  # a mix of roles dearer than the cheapest
        placer.state.undo(mark)
        return None
    books.charge_queue(gang.queue, amount)
    return merge_placements([*gang_class.running_pods, *placed])


def add_gangs_that_fit(s: Sets, placements: Placements, gangs: list[int], budget: Budget) -> Placements:
    """Add gangs that a limit left out although they still fit. If the goals are proven there are none."""
    if len(placements) == len(gangs):
        return placements
    placer = GreedyPlacer(s.state_after(placements), budget=budget)
    return {**placements, **greedy_floor(placer, [j for j in gangs if j not in placements])}


def without_overtaking(s: Sets, placements: Placements, gangs: Sequence[int], budget: Budget) -> Placements:
    """Return the placements without gangs of lower precedence in whose room the greedy can start a waiting one of their
    queue, and with those of them that still fit next to it; the same object where no gang is overtaken."""
    problem, found, refused = s.problem, dict(placements), set[object]()
    waiting = [j for j in gangs if j not in placements] if s.puts_queues_first else []
    placer = GreedyPlacer(s.state_after(placements) if waiting else s.state, budget=budget)
    levels: dict[int, set[int]] = {}
    for i in placements:
        levels.setdefault(problem.gangs[i].queue, set()).add(precedence(problem.gangs[i]))
    lowest = {q: min(of_queue) for q, of_queue in levels.items() if not problem.queues[q].strict_order}
    overtaken = [j for j in waiting if lowest.get(problem.gangs[j].queue, inf) < precedence(problem.gangs[j])]
    for j in sorted(overtaken, key=lambda j: serving_order_key(problem, j)):
        gang = problem.gangs[j]
        kind = gang.queue, precedence(gang), waiting_class(j, gang)
        own = (i for i in found if problem.gangs[i].queue == gang.queue)
        lower = [i for i in own if precedence(problem.gangs[i]) < precedence(gang)]
        if not lower or kind in refused:
            continue
        mark = placer.state.mark()
        for i in lower:
            placer.state.stop_gang(i, found[i])
        pods = place_and_charge(placer, j)
        again = {} if pods is None else greedy_floor(placer, lower)
        if pods is None or placer.state.free_nodes.breaks_pod_rules:
            placer.state.undo(mark)
            refused.add(kind)
            continue
        found = {**{i: of for i, of in found.items() if i not in lower}, **again, j: pods}
    return placements if found == placements else found
