"""The order in which gangs are served: by priority, overdue gangs first within one, then by age."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from solver.problem import Gang, Problem
from solver.semantics.share_measures import queue_priority


def precedence(gang: Gang) -> int:
    """3 * priority + overdue + promised: gangs of a higher precedence are decided first."""
    return 3 * gang.priority + gang.times.overdue + gang.times.promised


def is_promised_level(value: int) -> bool:
    """Return whether this is the precedence of gangs with a start announced by an earlier plan."""
    return value % 3 == 2


def serving_order_key(problem: Problem, j: int) -> tuple[int, int, int, int]:
    """Sorts gangs by precedence, the queue's priority, age, index."""
    gang = problem.gangs[j]
    return -precedence(gang), -queue_priority(problem, gang.queue), gang.age, j


def precedence_level(problem: Problem, j: int) -> tuple[int, int]:
    """(precedence, queue priority): gangs of one level compete; those of a higher level come first."""
    return precedence(problem.gangs[j]), queue_priority(problem, problem.gangs[j].queue)


def expected_end(problem: Problem, j: int) -> int | None:
    """Return seconds until gang j is expected to end, if it runs or starts now; None where unknown."""
    return problem.gangs[j].times.ends_in if problem.gangs[j].running else problem.gangs[j].times.duration


def strict_queue_order(problem: Problem, gangs: Iterable[int]) -> list[int]:
    """Return gangs of one queue in the order in which a queue with strict order starts them."""
    return sorted(gangs, key=lambda j: (-precedence(problem.gangs[j]), problem.gangs[j].age, j))


def blocking_gangs(problem: Problem, waiting: Iterable[int], candidates: Container[int]) -> dict[int, int]:
    """Return gang of a queue with strict order -> the earliest waiting gang of that queue that is not a candidate and
    so blocks it.

    waiting: all gangs that have not started. candidates: waiting gangs that may start now.
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
    """Candidates not blocked by an earlier gang of the same strict queue."""
    blocked = blocking_gangs(problem, waiting, set(candidates))
    return [j for j in candidates if j not in blocked]
