"""Domains that queues keep, lent while they lie idle: last of all, and only to gangs that the owner can have evicted at
once.

Everybody is decided as if nothing were lent, so whoever may not borrow, and above all the owners, get what they get
without borrowers. What then still waits and may borrow (`victims.borrows`) is decided once more in what is left, with
the kept domains open to it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from solver.admission.batches import divided
from solver.semantics.eviction_rights import borrows
from solver.semantics.exclusions import closed, guarded, kept_nodes
from solver.semantics.topology import Tree
from solver.timeline.reservation import shut

if TYPE_CHECKING:
    from solver.planner import Course


def lent(course: Course) -> Course:
    """The same course, with those who wait and may borrow started where they find room. course.whole: the problem with
    nothing closed."""
    problem = course.whole
    asking = [
        j
        for j in course.waiting()
        if borrows(problem, j) and (course.reservation is None or course.reservation.gang != j)
    ]
    if not asking or not kept_nodes(problem):
        return course
    opened = guarded(problem)
    if course.reservation is not None:
        opened = closed(opened, shut(opened, course.reservation))
    other = replace(course.copy(), problem=opened, tree=Tree(opened), batches=[])
    groups, whole = divided(opened, asking, course.options, partial(other.whole_floor, asking))
    other = other.decide_all(groups, whole)
    batches = [
        (tuple(j for j in gangs if j in other.placements), objectives, seconds)
        for gangs, objectives, seconds in other.batches
    ]
    return replace(
        other, problem=course.problem, tree=course.tree, batches=course.batches, borrowed=tuple(batch for batch in batches if batch[0])
    )  # fmt: skip
