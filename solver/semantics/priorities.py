"""Whose turn it is: by priority, the overdue before the others of theirs, then by age. In a queue with strict order
nobody passes another."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from solver.problem import Gang, Problem
from solver.semantics.queue_limits import queue_priority


def precedence(gang: Gang) -> int:
    """2 * priority + overdue: the order of gangs that are decided one before the other."""
    return 2 * gang.priority + gang.overdue


def serving_order_key(problem: Problem, j: int) -> tuple[int, int, int, int]:
    """By which gangs take turns, the smallest first: urgency, priority of the queue, age."""
    gang = problem.gangs[j]
    return -precedence(gang), -queue_priority(problem, gang.queue), gang.age, j


def precedence_level(problem: Problem, j: int) -> tuple[int, int]:
    """(urgency, priority of the queue): gangs of one level are weighed against one another, those of a higher one come
    before them."""
    return precedence(problem.gangs[j]), queue_priority(problem, problem.gangs[j].queue)


def expected_end(problem: Problem, j: int) -> int | None:
    """Seconds from now until gang j is expected to end, were it to start now if it does not run; None where nobody
    knows."""
    return problem.gangs[j].ends_in if problem.gangs[j].running else problem.gangs[j].duration


def strict_queue_order(problem: Problem, gangs: Iterable[int]) -> list[int]:
    """Gangs of one queue in the order in which they start where the queue is strict."""
    return sorted(gangs, key=lambda j: (-precedence(problem.gangs[j]), problem.gangs[j].age, j))


def blocking_gangs(problem: Problem, waiting: Iterable[int], candidates: Container[int]) -> dict[int, int]:
    """Gang -> the first of its queue that waits and does not ask: behind it nobody of a queue with strict order may
    start.

    waiting: all gangs that have not started. asking: those of them that may start now.
    """
    lines: dict[int, list[int]] = {}
    for j in waiting:
        if problem.queues[problem.gangs[j].queue].strict_order:
            lines.setdefault(problem.gangs[j].queue, []).append(j)
    found: dict[int, int] = {}
    for queue in lines.values():
        held = None
        for j in strict_queue_order(problem, queue):
            if held is not None:
                found[j] = held
            elif j not in candidates:
                held = j
    return found


def eligible_in_order(problem: Problem, waiting: Sequence[int], candidates: Sequence[int]) -> list[int]:
    """Those who ask and have nobody before them who may not."""
    behind = blocking_gangs(problem, waiting, set(candidates))
    return [j for j in candidates if j not in behind]
