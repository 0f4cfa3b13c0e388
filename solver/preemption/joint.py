"""Several gangs that room is made for: their places and their victims chosen together, where that is one small model.

Gang by gang, each takes the least loss that those before it leave: the first may take the cheap node that would have
spared the second a dear one, or the only one that lets the second start. The gang-by-gang answer is the incumbent;
together they lose no more, and start no fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from solver.models.lexicographic import judge
from solver.options import Options
from solver.plan import Objective
from solver.preemption.search import SIZES, Making, Taken, solved, total_loss
from solver.problem import Placement, Vector
from solver.semantics.eviction_rights import Victim, entitled, keeps
from solver.semantics.gang_classes import satisfied, shape_of
from solver.semantics.placement_cost import NAMES
from solver.semantics.priorities import turn
from solver.state.room import add

if TYPE_CHECKING:
    from solver.planner import Course

Rights = tuple[tuple[int, bool, tuple[int, ...]], ...]
"""(victim, whether of the gang's own queue, queues that have to spare what it loses), ascending: who may go for a gang."""

BEYOND = 4
"""Gangs times nodes, in units of `Options.winner_variables`, up to which the nodes that matter are looked for."""


def regrouped(course: Course) -> Course:
    """The same course with the victims and the places of all winners chosen anew, those that have the same rights
    together, where that loses less."""
    if len(course.winners) < 2 or _many(course, len(course.winners)):
        return course
    best = course
    for group in _groups(course, ()):
        if len(group) > 1:
            best = together(best, group, ()) or best
    return best


def squeezed(course: Course, j: int) -> Course | None:
    """The course in which gang j, for which alone no room can be made, starts beside the winners so far, once all of
    them are placed anew; None where it does not."""
    if not course.winners or _many(course, len(course.winners) + 1):
        return None
    group = next((group for group in _groups(course, (j,)) if j in group), [j])
    winners = [w for w in group if w != j]
    return together(course, winners, (j,)) if winners else None


def _many(course: Course, gangs: int) -> bool:
    """Whether not even to look for the nodes that matter: gangs times nodes are far beyond what one model may have."""
    return gangs * len(course.problem.nodes) > BEYOND * course.options.winner_variables


def _groups(course: Course, more: Sequence[int]) -> list[list[int]]:
    """Winners and `more` by what rights they have while none of them has got anything, each group in the order in which
    it was served."""
    base = _undone(course, course.winners)
    if base is None:
        return []
    found: dict[Rights, list[int]] = {}
    for j in sorted({*course.winners, *more}, key=partial(turn, course.problem)):
        found.setdefault(_rights(base, j, base.standing.candidates(j)[0]), []).append(j)
    return list(found.values())


def _rights(course: Course, j: int, victims: Sequence[Victim]) -> Rights:
    gangs = course.problem.gangs
    return tuple((v.gang, gangs[v.gang].queue == gangs[j].queue, v.gates) for v in victims)


def together(course: Course, winners: Sequence[int], more: Sequence[int]) -> Course | None:
    """The course in which room is made at once for these winners and for `more`, who found none; None where that is no
    better, or too much to ask.

    minimise sum_v loss_v e[v], then sum_v z[v], then sum_v d[v]        all of them start        (docs/model.md,
    Evictions)
    """
    base = _undone(course, winners)
    gangs = sorted((*winners, *more), key=partial(turn, course.problem))
    making = None if base is None else _making(base, gangs)
    if (
        base is None
        or making is None
        or not making.victims
        or any(base.standing.hopeless(j, making.victims) for j in more)
    ):
        return None
    spots = {v: course.standing.evicted[v] for v, js in course.standing.winners.items() if set(js) <= set(winners)}
    stand = {p.node for j in winners for p in course.placements[j]} | {p.node for pods in spots.values() for p in pods}
    taken = _solved(making, stand, course.options)
    if taken is None:
        return None
    before = total_loss(course.problem, spots), course.standing.gone_whole(spots), len(spots)
    if more or tuple(o.value for o in taken.objectives) < before:
        return _applied(base, gangs, taken)
    if taken.objectives[0].bound < before[0]:
        return None
    kept = course.copy()
    _said(kept, gangs, _proved(taken, before, course.options.gap), {j: _spread(course.winners[j]) for j in winners})
    return kept


def _solved(making: Making, stand: set[int], options: Options) -> Taken | None:
    """The answer over the nodes where each of the gangs is cheapest, and those where they stand now; over more of them
    until it is proved."""
    bounds = [making.cheapest(k) for k in range(len(making.gangs))]
    best: Taken | None = None
    for size in SIZES:
        choices = [bound.choose(size) for bound in bounds]
        nodes = frozenset(stand).union(*(choice.nodes for choice in choices))
        useful = [v for v in making.victims if making.away or any(p.node in nodes for p in v.running)]
        if (
            len(nodes) * sum(len(shape.roles) for shape in making.shapes) + sum(len(v.running) for v in useful)
            > options.winner_variables
        ):
            break
        beyond = min(choice.beyond for choice in choices)
        best = solved(making.model(nodes), making.gangs, beyond, options) or best
        if math.isinf(beyond) or (best is not None and making.settled(best)):
            break
    return best


def _proved(taken: Taken, before: tuple[int, int, int], gap: float) -> tuple[Objective, ...]:
    """That no choice loses less than the incumbent. How few could go whole, and how few be victims, is not known where
    the model found no answer that was as good until there."""
    loss, whole, victims = taken.objectives
    alike = loss.value == before[0], (loss.value, whole.value) == before[:2]
    return (
        judge("loss", before[0], before[0], gap, maximise=False),
        judge("whole gangs", before[1], min(whole.bound, before[1]) if alike[0] else 0, gap, maximise=False),
        judge(
            "victims", before[2], min(victims.bound, before[2]) if alike[1] else min(before[2], 1), gap, maximise=False
        ),
    )


def _undone(course: Course, winners: Iterable[int]) -> Course | None:
    """The course in which these winners have no room yet, and their victims still have theirs; None where others have a
    hand in it."""
    gone, base = set(winners), course.copy()
    for j in sorted(gone):
        base.begin(j, base.placements[j], -1)
    for v, js in sorted(course.standing.winners.items()):
        if not gone.isdisjoint(js):
            if not gone.issuperset(js):
                return None
            try:
                base.standing.give_back(v, base.standing.evicted[v])
            except ValueError:
                return None
            if satisfied(base.problem.gangs[v]):
                base.placements[v] = base.standing.running[v]
    if gone.issuperset(course.winners):
        base.standing.anchors.clear()
    return base


def _making(base: Course, gangs: Sequence[int]) -> Making | None:
    """What is to be decided; None where these gangs do not have the same rights any more, or not all of them together."""
    standing, problem = base.standing, base.problem
    width = len(problem.resources)
    shapes = tuple(replace(shape_of(j, problem.gangs[j]), alone=j) for j in gangs)
    found = [standing.candidates(j) for j in gangs]
    victims, exposures = found[0]
    if len({_rights(base, j, some) for j, (some, _) in zip(gangs, found, strict=True)}) > 1:
        return None
    if any(v.gates for v in victims):
        asked: dict[int, Vector] = {}
        for j, shape in zip(gangs, shapes, strict=True):
            home = problem.gangs[j].queue
            asked[home] = add(asked.get(home, (0,) * width), shape.demand(width))
        if any(other != exposures for _, other in found[1:]):
            return None
        if not all(entitled(problem, standing.ledger, home, standing.due, amount) for home, amount in asked.items()):
            return None
    return Making(
        standing, tuple(gangs), shapes, [replace(v, keeps=keeps(problem, gangs, v.gang)) for v in victims], exposures
    )


def _applied(base: Course, gangs: Sequence[int], taken: Taken) -> Course:
    """The course with this answer, each gang then spread as well as the others let it."""
    lost = {v: {p.node for p in pods} for v, pods in taken.pods.items()}
    for v, pods in taken.pods.items():
        mine = [j for j in gangs if any(p.node in lost[v] for p in taken.placed[j])]
        base.evict(v, pods, mine or gangs)
    base.standing.anchor(taken.pods, gangs[0], taken.exposures)
    placed: dict[int, tuple[Placement, ...]] = dict(taken.placed)
    for j in gangs:
        base.begin(j, placed[j])
    spreading: dict[int, tuple[Objective, ...]] = {}
    for j in gangs:
        base.begin(j, placed[j], -1)
        placed[j], spreading[j] = base.alone(j) or (placed[j], ())
        base.begin(j, placed[j])
    _said(base, gangs, taken.objectives, spreading)
    return base


def _said(
    course: Course,
    gangs: Sequence[int],
    objectives: tuple[Objective, ...],
    spreading: Mapping[int, tuple[Objective, ...]],
) -> None:
    """What is known of their loss is known of all together, and stands with the first of them."""
    for j in gangs:
        course.winners[j] = (*(objectives if j == gangs[0] else ()), *spreading[j])


def _spread(objectives: tuple[Objective, ...]) -> tuple[Objective, ...]:
    return tuple(o for o in objectives if o.name in NAMES)
