"""The gangs that are decided by one model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from solver.admission.greedy_floor import GreedyFloor
from solver.options import Options
from solver.problem import Problem
from solver.semantics.gang_classes import GangClass, waiting_class
from solver.semantics.priorities import precedence


def split_into_batches(
    problem: Problem, waiting: list[int], options: Options, compute_floor: Callable[[], GreedyFloor]
) -> tuple[list[list[int]], GreedyFloor | None]:
    """(batches, the joint floor, if computed). All gangs are in one batch where its model is small; else there is
    one for each precedence, or several, each of as many gangs in serving order as one model holds."""
    buckets = len({(n.leaf, n.node_class) for n in problem.nodes})
    gang_classes = {j: waiting_class(j, problem.gangs[j]) for j in waiting}

    def size(gangs: Iterable[int]) -> int:
        return sum(_variable_count(gang_class, buckets) for gang_class in {gang_classes[j] for j in gangs})

    if size(waiting) <= options.budget.joint_variables:
        return ([sorted(waiting)] if waiting else []), None
    found: list[list[int]] = []
    floor = None
    for level in sorted({precedence(problem.gangs[j]) for j in waiting}, reverse=True):
        gangs = [j for j in waiting if precedence(problem.gangs[j]) == level]
        if size(gangs) > options.budget.batch_variables:
            floor = floor or compute_floor()
            turn = {j: position for position, j in enumerate(floor.serving_order)}
            gangs.sort(key=lambda j: turn.get(j, len(turn)))
        found += _batches_by_size(gangs, gang_classes, buckets, options.budget.batch_variables)
    return [sorted(batch) for batch in found], floor


def _variable_count(gang_class: GangClass, buckets: int) -> int:
    return buckets * max(1, len(gang_class.roles))


def _batches_by_size(
    gangs: Iterable[int], gang_classes: Mapping[int, GangClass], buckets: int, max_variables: int
) -> list[list[int]]:
    """The gangs in this order, as many to a batch as it has variables for."""
    found: list[list[int]] = [[]]
    known: set[GangClass] = set()
    size = 0
    for j in gangs:
        if (
            gang_classes[j] not in known
            and found[-1]
            and size + _variable_count(gang_classes[j], buckets) > max_variables
        ):
            found.append([])
            known, size = set(), 0
        size += 0 if gang_classes[j] in known else _variable_count(gang_classes[j], buckets)
        known.add(gang_classes[j])
        found[-1].append(j)
    return found
