"""The greedy as the floor: no batch, and no row of batches, ends worse than what the greedy alone would start, by the
objectives of admission in their order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from solver.models.lexicographic import judge
from solver.models.sets import Level, Sets
from solver.options import Options
from solver.plan import Objective
from solver.semantics.placements import Placements
from solver.semantics.priorities import urgency
from solver.semantics.queue_limits import Siblings

ROUNDING = 1e-6
"""Shares that differ by less, relatively, are held to be equal: the model holds them with that much room."""


@dataclass(frozen=True, slots=True)
class Merit:
    """How good a set of started gangs is at one level. shares: for each group of queues the lowest ones, in order; then
    sums over its gangs."""

    shares: tuple[tuple[float, ...], ...]
    placed: int
    gangs: int

    def beats(self, other: Merit) -> int:
        """1 better, -1 worse, 0 equal: shares group by group and queue by queue, then what is placed, then the gangs."""
        for mine, theirs in zip(self.shares, other.shares, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                if abs(a - b) > ROUNDING * max(1.0, abs(a), abs(b)):
                    return 1 if a > b else -1
        mine_sums, their_sums = (self.placed, self.gangs), (other.placed, other.gangs)
        return (mine_sums > their_sums) - (mine_sums < their_sums)


@dataclass(frozen=True, slots=True)
class Floor:
    """What the greedy alone starts of all gangs that wait, where they are decided in several batches, the most urgent
    first.

    A batch that is worth as much as the greedy's may lie where the next one then finds less room than the greedy had
    left it. sets: of all gangs. line: the gangs as the greedy asked them.
    """

    sets: Sets
    placements: Placements
    line: tuple[int, ...]

    def upto(self, urgent: int) -> tuple[Sets, Placements]:
        """The same for the gangs of this urgency and above alone."""
        waiting = {key: js for key, js in self.sets.waiting.items() if key[1] >= urgent}
        return replace(self.sets, waiting=waiting), {
            j: self.placements[j] for js in waiting.values() for j in js if j in self.placements
        }

    def uncontested(self, groups: Sequence[list[int]]) -> list[list[int]]:
        """The first of these batches, as many as make up whole urgencies of which the greedy starts every gang: no
        model places more."""
        gangs = self.sets.problem.gangs
        found: list[list[int]] = []
        for _, alike in groupby(groups, lambda batch: urgency(gangs[batch[0]])):
            batches = list(alike)
            if any(j not in self.placements for batch in batches for j in batch):
                break
            found += batches
        return found

    def better(self, started: Collection[int], options: Options) -> bool:
        """Whether the floor is worth more than the gangs that start."""
        return better(self.sets, self.placements, started, options)

    def compared(self, started: Collection[int], urgent: int, options: Options) -> int:
        """Whether down to this urgency the floor is worth more (1), less (-1), or as much (0) as the gangs that start."""
        s, floor = self.upto(urgent)
        return compared(s, floor, started, options)


def better(s: Sets, floor: Collection[int], started: Collection[int], options: Options) -> bool:
    """Whether the floor's gangs are worth more than those that start."""
    return compared(s, floor, started, options) > 0


def compared(s: Sets, floor: Collection[int], started: Collection[int], options: Options) -> int:
    """1 where the floor's gangs are worth more at the first level where they differ, -1 where they are worth less."""
    mine, theirs = set(floor), set(started)
    orders = (merit(s, mine, level, options).beats(merit(s, theirs, level, options)) for level in s.levels)
    return next((order for order in orders if order), 0)


def merit(s: Sets, started: set[int], level: Level, options: Options) -> Merit:
    """As `model.objectives` has it, from the gangs and not from the model. As many shares as progressive filling has
    levels, the lowest."""
    number = {key: len(started.intersection(js)) for key, js in s.waiting.items()}
    here = {key: n for key, n in number.items() if s.level(*key[:2]) == level}
    shares = tuple(
        tuple(sorted(_share(s, q, group, number, level) for q in s.sharing(level, group))[: options.fair_levels])
        for group in s.ledger.rules.siblings
        if len(s.sharing(level, group)) > 1
    )
    return Merit(shares, sum(s.worth[key[2]] * n for key, n in here.items()), sum(here.values()))


def _share(s: Sets, q: int, group: Siblings, number: dict[tuple[int, int, int], int], level: Level) -> float:
    """What the queue holds and what its gangs of this level and higher ones add."""
    held = list(s.ledger.held[q])
    for (of, p, k), n in number.items():
        if n and of in group.members[q] and s.level(of, p) >= level:
            held = [have + n * asked for have, asked in zip(held, s.demands[k], strict=True)]
    return s.ledger.rules.yardsticks[q].share(held)


def objectives(
    s: Sets, floor: Collection[int], options: Options, bound: Objective | None = None
) -> tuple[Objective, ...]:
    """What is said of a batch that ends on its floor: sums, against what waits and what the free room is worth beside
    the levels above.

    bound: the first goal of a model that every plan of the batch satisfies; its later goals are bounded given those
    before, and say nothing here.
    """
    found, room = [], s.room_for_worth
    for level in s.levels:
        most, reached = (
            merit(s, gangs, level, options) for gangs in ({j for js in s.waiting.values() for j in js}, set(floor))
        )
        placed = judge(f"placed[{s.label(level)}]", reached.placed, min(most.placed, room), options.gap)
        if bound is not None and bound.name == placed.name:
            placed = judge(placed.name, reached.placed, min(placed.bound, bound.bound), options.gap)
        found += [
            placed,
            judge(
                f"gangs[{s.label(level)}]",
                reached.gangs,
                _most_gangs(s, level, int(min(most.placed, room))),
                options.gap,
            ),
        ]
        room -= reached.placed
    return tuple(found)


def _most_gangs(s: Sets, level: Level, worth: int) -> int:
    """So many gangs of the level at most are together worth no more than this: the cheapest."""
    number = 0
    for each in sorted(s.worth[k] for (q, p, k), js in s.waiting.items() if s.level(q, p) == level for _ in js):
        worth -= each
        number += worth >= 0
    return number
