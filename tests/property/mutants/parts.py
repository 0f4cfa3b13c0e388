"""Valid plans by a plain greedy, and the tools that break them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from solver.plan import Plan
from solver.problem import Problem
from tests.property.brute import Room, Spot, growths, running
from tests.unit.solver.builders import plan

Placed = dict[int, Counter[Spot]]
"""The admitted gangs' pods."""

Mutant = tuple[Problem, Plan]
Mutators = dict[Callable[[Problem, Placed, Random], Iterator[Mutant]], str]
"""A way to break a plan -> the rule that it breaks."""


def greedy(world: Problem) -> Placed:
    """Every gang in turn, with the first of its possible placements that leaves all nodes and queues whole."""
    room = Room(world)
    use = list(room.nothing)
    added = [(0,) * len(world.resources)] * len(world.queues)
    placed: Placed = {}
    for g, gang in enumerate(world.gangs):
        for option in growths(world, g):
            mine = room.use(g, option)
            both = [_plus(a, b) for a, b in zip(use, mine, strict=True)]
            charged = list(added)
            for extra in mine:
                charged[gang.queue] = _plus(charged[gang.queue], extra[: len(world.resources)])
            if room.nodes_hold(both) and room.queues_hold(charged):
                use, added = both, charged
                placed[g] = running(gang) + option
                break
    return placed


def _plus(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def as_plan(world: Problem, placed: Placed) -> Plan:
    return plan(
        world, {g: [(role, node, pods) for (role, node), pods in spots.items() if pods] for g, spots in placed.items()}
    )


def new_pods(world: Problem, placed: Placed) -> list[tuple[int, Spot]]:
    """(gang, spot) with new pods."""
    return [
        (g, spot)
        for g, spots in sorted(placed.items())
        for spot in sorted(spots)
        if spots[spot] > running(world.gangs[g])[spot]
    ]


def shifted(placed: Placed, g: int, change: dict[Spot, int]) -> Placed:
    changed = {other: Counter(spots) for other, spots in placed.items()}
    for spot, pods in change.items():
        changed[g][spot] += pods
    return changed


def some(random: Random, items: list[Any]) -> Iterator[Any]:
    """One of them, or none where there is none."""
    if items:
        yield random.choice(items)


def edit(item: Any, index: int, **changes: object) -> Any:
    return (*item[:index], replace(item[index], **changes), *item[index + 1 :])
