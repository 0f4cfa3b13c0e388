"""Whose turn it is: by priority, the overdue before the others of theirs, then by age. In a queue with strict order
nobody passes another."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from solver.problem import Gang, Problem
from solver.semantics.queue_limits import rank


def urgency(gang: Gang) -> int:
    """2 * priority + overdue: the order of gangs that are decided one before the other."""
    return 2 * gang.priority + gang.overdue


def turn(problem: Problem, j: int) -> tuple[int, int, int, int]:
    """By which gangs take turns, the smallest first: urgency, priority of the queue, age."""
    gang = problem.gangs[j]
    return -urgency(gang), -rank(problem, gang.queue), gang.age, j


def level_of(problem: Problem, j: int) -> tuple[int, int]:
    """(urgency, priority of the queue): gangs of one level are weighed against one another, those of a higher one come
    before them."""
    return urgency(problem.gangs[j]), rank(problem, problem.gangs[j].queue)


def end(problem: Problem, j: int) -> int | None:
    """Seconds from now until gang j is expected to end, were it to start now if it does not run; None where nobody
    knows."""
    return problem.gangs[j].ends if problem.gangs[j].running else problem.gangs[j].duration


def line(problem: Problem, gangs: Iterable[int]) -> list[int]:
    """Gangs of one queue in the order in which they start where the queue is strict."""
    return sorted(gangs, key=lambda j: (-urgency(problem.gangs[j]), problem.gangs[j].age, j))


def passed(problem: Problem, waiting: Iterable[int], asking: Container[int]) -> dict[int, int]:
    """Gang -> the first of its queue that waits and does not ask: behind it nobody of a queue with strict order may
    start.

    waiting: all gangs that have not started. asking: those of them that may start now.
    """
    lines: dict[int, list[int]] = {}
    for j in waiting:
        if problem.queues[problem.gangs[j].queue].strict:
            lines.setdefault(problem.gangs[j].queue, []).append(j)
    found: dict[int, int] = {}
    for queue in lines.values():
        held = None
        for j in line(problem, queue):
            if held is not None:
                found[j] = held
            elif j not in asking:
                held = j
    return found


def in_turn(problem: Problem, waiting: Sequence[int], asking: Sequence[int]) -> list[int]:
    """Those who ask and have nobody before them who may not."""
    behind = passed(problem, waiting, set(asking))
    return [j for j in asking if j not in behind]
