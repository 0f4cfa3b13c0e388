"""The greedy floor: no batch, and no sequence of batches, ends worse than what the greedy alone would start, by the
objectives of admission in order.

It is what a greedy starts gang by gang, which also fills the room that is left in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf

from solver.greedy.best_fit import GreedyPlacer
from solver.mip.lexicographic import verdict_of
from solver.models.sets import AdmissionClass, PrecedenceLevel, Sets, split_promised
from solver.options import Budget, Options
from solver.plan import Objective
from solver.problem import Vector
from solver.semantics.gang_classes import GangClass, waiting_class
from solver.semantics.order import SiblingQueues, precedence, serving_order_key
from solver.semantics.placements import Placements, add_vectors, merge_placements, placed_demand
from solver.state.state import Pods

Counts = Mapping[AdmissionClass, int]
"""Admission class -> a number of its gangs."""

SHARE_TOLERANCE = 1e-6
"""Shares that differ by less, relatively, are equal: the model holds them with that tolerance."""


@dataclass(frozen=True, slots=True)
class LevelScore:
    """How good a set of started gangs is at one level. shares: for each group of siblings the lowest ones, in order."""

    shares: tuple[tuple[float, ...], ...]
    placed_share: int
    gang_count: int

    def compare(self, other: LevelScore) -> int:
        """Return 1 if better, -1 if worse, 0 if equal: shares by group and queue, then placed resources, then the
        number of gangs."""
        for mine, theirs in zip(self.shares, other.shares, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                if abs(a - b) > SHARE_TOLERANCE * max(1.0, abs(a), abs(b)):
                    return 1 if a > b else -1
        mine_sums, their_sums = (self.placed_share, self.gang_count), (other.placed_share, other.gang_count)
        return (mine_sums > their_sums) - (mine_sums < their_sums)


@dataclass(frozen=True, slots=True)
class GreedyFloor:
    """The greedy's starts of all waiting gangs, where these are decided in several batches: a batch as good as the
    greedy's may leave the next one less room. sets: of all gangs."""

    sets: Sets
    placements: Placements
    serving_order: tuple[int, ...]

    def restricted_to(self, gangs: Collection[int]) -> tuple[Sets, Placements]:
        """Return the floor of these gangs alone."""
        every = {key: tuple(j for j in js if j in gangs) for key, js in self.sets.waiting_gangs.items()}
        waiting = {key: js for key, js in every.items() if js}
        return replace(self.sets, waiting_gangs=waiting), {j: p for j, p in self.placements.items() if j in gangs}

    def fully_started(self, groups_in_order: Sequence[list[list[int]]]) -> list[list[list[int]]]:
        """Return the first of these groups of batches of which the greedy starts every gang: no model starts more."""
        return list(
            takewhile(lambda group: all(j in self.placements for batch in group for j in batch), groups_in_order)
        )

    def compare(self, started: Collection[int], gangs: Collection[int], options: Options) -> int:
        """Return 1 if the floor starts more of these gangs than `started`, -1 if less, 0 if as much."""
        s, floor = self.restricted_to(gangs)
        return compare_floor(s, floor, started, options)


def is_floor_better(s: Sets, floor: Collection[int], started: Collection[int], options: Options) -> bool:
    """Return whether the floor's gangs are worth more than the started ones."""
    return compare_floor(s, floor, started, options) > 0


def compare_floor(s: Sets, floor: Collection[int], started: Collection[int], options: Options) -> int:
    """1 where the floor's gangs are worth more at the first step where they differ, -1 where they are worth less."""
    mine, theirs = (_counts(s, gangs) for gangs in (floor, started))
    if mine == theirs:
        return 0  # every score follows from these numbers
    orders = (a.compare(b) for a, b in zip(_scores(s, mine, options), _scores(s, theirs, options), strict=True))
    return next((order for order in orders if order), 0)


def _counts(s: Sets, gangs: Collection[int]) -> Counts:
    """Return admission class -> number of its gangs among these."""
    chosen = set(gangs)
    return {key: len(chosen.intersection(js)) for key, js in s.waiting_gangs.items()}


def _scores(s: Sets, number: Counts, options: Options) -> Iterator[LevelScore]:
    """Yield the scores in the order of the objectives. Queues first: each level of entitled starts, the levels of gangs
    with an announced start, the shares, each other level without them; else each level of starts."""
    if s.puts_queues_first:
        entitled = s.entitled_counts(number)
        for levels in s.queue_rounds:
            for level in levels:
                yield level_score(s, entitled, level, options)
            promised, others = split_promised(levels)
            for level in promised:
                yield replace(level_score(s, number, level, options), shares=())
            for _, counted, competing in s.lending_steps(levels):
                shares = _lowest_shares(s, {key: number[key] for key in counted}, competing, options)
                yield LevelScore(shares, 0, 0)
            for level in others:
                yield replace(level_score(s, number, level, options), shares=())
    else:
        for level in s.precedence_levels:
            yield level_score(s, number, level, options)


def level_score(s: Sets, number: Counts, level: PrecedenceLevel, options: Options) -> LevelScore:
    """Return the score of a level with these numbers of gangs, as `models.objectives` defines it, without a model."""
    here = {key: n for key, n in number.items() if s.level_of[key] == level}
    counted = {key: n for key, n in number.items() if s.level_of[key] >= level}
    shares = _lowest_shares(s, counted, here, options)
    return LevelScore(shares, sum(s.dominant_units[key[2]] * n for key, n in here.items()), sum(here.values()))


def _lowest_shares(
    s: Sets, number: Counts, competing: Iterable[AdmissionClass], options: Options
) -> tuple[tuple[float, ...], ...]:
    """For each group of siblings the shares of queues with competing classes, as many as progressive filling has
    levels, the lowest."""
    competing, asked = tuple(competing), dict[int, Vector]()
    for (q, _, k), n in number.items():
        if n:
            asked[q] = add_vectors(asked.get(q, (0,) * s.resource_count), s.min_demands[k], n)
    groups = [(g, s.competing_queues(competing, g)) for g in s.queue_books.queue_rules.sibling_groups]
    lowest = options.budget.fair_levels
    return tuple(
        tuple(sorted(_queue_share(s, q, group, asked) for q in queues)[:lowest])
        for group, queues in groups
        if len(queues) > 1
    )


def _queue_share(s: Sets, q: int, group: SiblingQueues, asked: Mapping[int, Vector]) -> float:
    """Return the share of the queue's held amounts and of these requests in it or below."""
    held = s.queue_books.held[q]
    for of in asked.keys() & group.members[q]:
        held = add_vectors(held, asked[of])
    return s.queue_books.queue_rules.share_measures[q].share(held)


def floor_objectives(
    s: Sets, floor: Collection[int], options: Options, bound: Objective | None = None
) -> tuple[Objective, ...]:
    """Return the objectives of a batch that ends on its floor: sums, bounded by the waiting gangs and by the value of
    the free nodes after the levels above.

    bound: the first goal of a model that every plan of the batch satisfies. Its later goals are bounded given those
    before, so they are not valid here.
    """
    found, room = [], s.max_dominant_units
    for level in s.precedence_levels:
        most, reached = (
            level_score(s, number, level, options)
            for number in ({key: len(js) for key, js in s.waiting_gangs.items()}, _counts(s, floor))
        )
        placed = verdict_of(
            f"placed[{s.level_label(level)}]", reached.placed_share, min(most.placed_share, room), options.gap
        )
        if bound is not None and bound.name == placed.name:
            placed = verdict_of(placed.name, reached.placed_share, min(placed.bound, bound.bound), options.gap)
        found += [
            placed,
            verdict_of(
                f"gangs[{s.level_label(level)}]",
                reached.gang_count,
                _max_gangs(s, level, int(min(most.placed_share, room))),
                options.gap,
            ),
        ]
        room -= reached.placed_share
    return tuple(found)


def _max_gangs(s: Sets, level: PrecedenceLevel, share_limit: int) -> int:
    """Return the most gangs of the level that are together worth no more than `share_limit`: the cheapest."""
    number = 0
    for each in sorted(s.dominant_units[key[2]] for key in s.classes_of_level(level) for _ in s.waiting_gangs[key]):
        share_limit -= each
        number += share_limit >= 0
    return number


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
