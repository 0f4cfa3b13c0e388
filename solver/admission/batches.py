"""Which gangs are decided by one model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from solver.admission.greedy_floor import Floor
from solver.options import Options
from solver.problem import Problem
from solver.semantics.gang_classes import Shape, shape_of
from solver.semantics.priorities import urgency


def divided(
    problem: Problem, waiting: list[int], options: Options, whole: Callable[[], Floor]
) -> tuple[list[list[int]], Floor | None]:
    """(batches, what the greedy starts of all, if it was asked).

    All gangs are in one model where it is small; else there is one for each urgency, and where that has too many shapes
    as many gangs as one model holds, in the order in which the greedy asks them: so that no queue gets its share before
    another one is looked at.
    """
    places = len({(n.leaf, n.kind) for n in problem.nodes})
    shapes = {j: shape_of(j, problem.gangs[j]) for j in waiting}

    def size(gangs: Iterable[int]) -> int:
        return sum(_variables(shape, places) for shape in {shapes[j] for j in gangs})

    if size(waiting) <= options.joint_variables:
        return ([sorted(waiting)] if waiting else []), None
    found: list[list[int]] = []
    floor = None
    for urgent in sorted({urgency(problem.gangs[j]) for j in waiting}, reverse=True):
        gangs = [j for j in waiting if urgency(problem.gangs[j]) == urgent]
        if size(gangs) > options.batch_variables:
            floor = floor or whole()
            turn = {j: position for position, j in enumerate(floor.line)}
            gangs.sort(key=lambda j: turn.get(j, len(turn)))
        found += _filled_up(gangs, shapes, places, options.batch_variables)
    return [sorted(batch) for batch in found], floor


def _variables(shape: Shape, places: int) -> int:
    return places * max(1, len(shape.roles))


def _filled_up(gangs: Iterable[int], shapes: Mapping[int, Shape], places: int, most: int) -> list[list[int]]:
    """The gangs in this order, as many to a batch as it has variables for."""
    found: list[list[int]] = [[]]
    known: set[Shape] = set()
    size = 0
    for j in gangs:
        if shapes[j] not in known and found[-1] and size + _variables(shapes[j], places) > most:
            found.append([])
            known, size = set(), 0
        size += 0 if shapes[j] in known else _variables(shapes[j], places)
        known.add(shapes[j])
        found[-1].append(j)
    return found
