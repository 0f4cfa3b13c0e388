"""The greedy floor: no batch, and no sequence of batches, ends worse than what the greedy alone would start, by the
objectives of admission in order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from solver.mip.lexicographic import verdict_of
from solver.models.sets import PrecedenceLevel, Sets
from solver.options import Options
from solver.plan import Objective
from solver.semantics.placements import Placements
from solver.semantics.priorities import precedence
from solver.semantics.share_measures import SiblingQueues

SHARE_TOLERANCE = 1e-6
"""Shares that differ by less, relatively, are equal: the model holds them with that tolerance."""


@dataclass(frozen=True, slots=True)
class LevelScore:
    """How good a set of started gangs is at one level. shares: for each group of siblings the lowest ones, in order."""

    shares: tuple[tuple[float, ...], ...]
    placed_share: int
    gang_count: int

    def compare(self, other: LevelScore) -> int:
        """1 better, -1 worse, 0 equal: shares by group and queue, then what is placed, then the number of gangs."""
        for mine, theirs in zip(self.shares, other.shares, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                if abs(a - b) > SHARE_TOLERANCE * max(1.0, abs(a), abs(b)):
                    return 1 if a > b else -1
        mine_sums, their_sums = (self.placed_share, self.gang_count), (other.placed_share, other.gang_count)
        return (mine_sums > their_sums) - (mine_sums < their_sums)


@dataclass(frozen=True, slots=True)
class GreedyFloor:
    """What the greedy alone starts of all waiting gangs, where these are decided in several batches: a batch as good as
    the greedy's may leave the next one less room. sets: of all gangs."""

    sets: Sets
    placements: Placements
    serving_order: tuple[int, ...]

    def at_or_above(self, least_precedence: int) -> tuple[Sets, Placements]:
        """The same for the gangs of this precedence and above alone."""
        waiting = {key: js for key, js in self.sets.waiting_gangs.items() if key[1] >= least_precedence}
        return replace(self.sets, waiting_gangs=waiting), {
            j: self.placements[j] for js in waiting.values() for j in js if j in self.placements
        }

    def fully_started_batches(self, batches_in_order: Sequence[list[int]]) -> list[list[int]]:
        """The first of these batches, of whole precedences of which the greedy starts all: no model starts more."""
        gangs = self.sets.problem.gangs
        found: list[list[int]] = []
        for _, alike in groupby(batches_in_order, lambda batch: precedence(gangs[batch[0]])):
            batches = list(alike)
            if any(j not in self.placements for batch in batches for j in batch):
                break
            found += batches
        return found

    def is_better(self, started: Collection[int], options: Options) -> bool:
        """Whether the floor is worth more than the gangs that start."""
        return is_floor_better(self.sets, self.placements, started, options)

    def compare(self, started: Collection[int], least_precedence: int, options: Options) -> int:
        """Whether down to this precedence the floor is worth more (1), less (-1) or as much (0) as what starts."""
        s, floor = self.at_or_above(least_precedence)
        return compare_floor(s, floor, started, options)


def is_floor_better(s: Sets, floor: Collection[int], started: Collection[int], options: Options) -> bool:
    """Whether the floor's gangs are worth more than those that start."""
    return compare_floor(s, floor, started, options) > 0


def compare_floor(s: Sets, floor: Collection[int], started: Collection[int], options: Options) -> int:
    """1 where the floor's gangs are worth more at the first level where they differ, -1 where they are worth less."""
    mine, theirs = set(floor), set(started)
    orders = (
        level_score(s, mine, level, options).compare(level_score(s, theirs, level, options))
        for level in s.precedence_levels
    )
    return next((order for order in orders if order), 0)


def level_score(s: Sets, started: set[int], level: PrecedenceLevel, options: Options) -> LevelScore:
    """As `model.objectives` has it, from the gangs and not from the model. As many shares as progressive filling has
    levels, the lowest."""
    number = {key: len(started.intersection(js)) for key, js in s.waiting_gangs.items()}
    here = {key: n for key, n in number.items() if s.precedence_level(*key[:2]) == level}
    shares = tuple(
        tuple(
            sorted(_queue_share(s, q, group, number, level) for q in s.competing_queues(level, group))[
                : options.budget.fair_levels
            ]
        )
        for group in s.queue_books.queue_rules.sibling_groups
        if len(s.competing_queues(level, group)) > 1
    )
    return LevelScore(shares, sum(s.dominant_units[key[2]] * n for key, n in here.items()), sum(here.values()))


def _queue_share(
    s: Sets, q: int, group: SiblingQueues, number: dict[tuple[int, int, int], int], level: PrecedenceLevel
) -> float:
    """What the queue holds and what its gangs of this level and higher ones add."""
    held = list(s.queue_books.held[q])
    for (of, p, k), n in number.items():
        if n and of in group.members[q] and s.precedence_level(of, p) >= level:
            held = [have + n * asked for have, asked in zip(held, s.min_demands[k], strict=True)]
    return s.queue_books.queue_rules.share_measures[q].share(held)


def floor_objectives(
    s: Sets, floor: Collection[int], options: Options, bound: Objective | None = None
) -> tuple[Objective, ...]:
    """The objectives of a batch that ends on its floor: sums, against what waits and what the free nodes are worth
    beside the levels above.

    bound: the first goal of a model that every plan of the batch satisfies; its later goals are bounded given those
    before, and say nothing here.
    """
    found, room = [], s.max_dominant_units
    for level in s.precedence_levels:
        most, reached = (
            level_score(s, gangs, level, options)
            for gangs in ({j for js in s.waiting_gangs.values() for j in js}, set(floor))
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
    """So many gangs of the level at most are together worth no more than this: the cheapest."""
    number = 0
    for each in sorted(
        s.dominant_units[k]
        for (q, p, k), js in s.waiting_gangs.items()
        if s.precedence_level(q, p) == level
        for _ in js
    ):
        share_limit -= each
        number += share_limit >= 0
    return number
