"""The course of a plan in which time counts: what is decided first without a promise, and then again around the one
promise that it makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from solver.models.sets import Level
from solver.plan import Reservation
from solver.semantics.exclusions import closed
from solver.semantics.gang_classes import satisfied
from solver.semantics.placements import merged
from solver.semantics.priorities import level_of, passed, turn
from solver.semantics.topology import Tree
from solver.state.room import Ledger, demand
from solver.timeline.reservation import Outlook, barred, shut, timed

if TYPE_CHECKING:
    from solver.planner import Course

Decide = Callable[["Course", list[int]], "Course"]
"""Decides these gangs, beside what the course has decided already."""


def planned(course: Course, decide: Decide) -> Course:
    """Everybody is decided; where a gang gets a reservation, those of its level and below are decided again with its
    room kept."""
    problem, waiting = course.problem, course.waiting()
    if not timed(problem):
        return decide(course, waiting)
    trial = decide(course.copy(), waiting)
    for level in sorted({level_of(problem, j) for j in waiting}, reverse=True):
        if promise(trial, waiting, level, evicting=False) is None:
            continue
        above = [j for j in waiting if level_of(problem, j) > level]
        again = decide(course.copy(), above)
        held = promise(again, waiting, level, evicting=True)
        if held is not None:
            rest = [j for j in waiting if level_of(problem, j) <= level]
            reserve(again, held, above, rest)
            again = decide(again, rest)
            return trial if held.gang in again.placements or _overtaken(again, held) else again
    return trial


def _overtaken(course: Course, held: Reservation) -> bool:
    """Whether somebody whose end is waited for is evicted by another: the promise is for the next plan to make, with
    what is there then."""
    return any(v in course.standing.evicted and v not in course.placements for v in held.until)


def promise(course: Course, waiting: Iterable[int], level: Level, evicting: bool) -> Reservation | None:
    """The reservation of the first gang of this level that cannot start even alone beside those of the levels above it.

    evicting: those levels and no others are decided, so that eviction may be tried.
    """
    left = course.waiting()
    behind, above = passed(course.problem, left, ()), {j for j in waiting if level_of(course.problem, j) > level}
    heads = [j for j in left if j not in behind and level_of(course.problem, j) == level]
    if not heads:
        return None
    view = outlook(course, above)

    def starts(j: int) -> bool:
        return course.fitted(j, *view.without(())) is not None or (
            evicting and course.promising(j) and course.copy().evict_for(j)
        )

    return view.first(sorted(heads, key=partial(turn, course.problem)), starts)


def reserve(course: Course, held: Reservation, above: Collection[int], rest: Iterable[int]) -> None:
    """From now on nobody delays this start. above: who was decided before; rest: who is still to be decided."""
    course.reservation, course.later = held, outlook(course, above).at_start(held)
    closing = shut(course.problem, held)
    course.lasting = frozenset(closing)
    course.barred = barred(course.problem, held, course.later, sorted(rest, key=partial(turn, course.problem)))
    course.problem = closed(course.problem, closing)
    course.tree = Tree(course.problem)
    course.standing = replace(course.standing, problem=course.problem, tree=course.tree)


def outlook(course: Course, above: Collection[int]) -> Outlook:
    """Who holds what before the gangs are decided that are not in `above`."""
    problem, evicted = course.problem, course.standing.evicted
    holding = {
        j: course.placements[j]
        for j, gang in enumerate(problem.gangs)
        if j in course.placements and (satisfied(gang) or j in above)
    }
    holding |= {
        j: merged(gang.running)
        for j, gang in enumerate(problem.gangs)
        if gang.running and j not in holding and j not in evicted
    }
    ledger, width = Ledger(problem), len(problem.resources)
    for j in sorted(holding.keys() | evicted.keys()):
        gang = problem.gangs[j]
        ran, holds, gone = (
            demand(gang, pods, width) for pods in (gang.running, holding.get(j, ()), evicted.get(j, ()))
        )
        ledger.release(gang.queue, gone, gone)  # what is evicted excuses nobody any more
        ledger.charge(gang.queue, tuple(b - a + c for a, b, c in zip(ran, holds, gone, strict=True)))
    return Outlook(problem, holding, ledger, course.fitted)
