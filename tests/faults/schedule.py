"""Schedules: a seed gives a list of faults over a short story of commits, and the same seed gives the same list."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.builders.beside import beside
from tests.faults import story
from tests.faults.kinds import EXTRA_SECONDS, KINDS, WRITES, Step
from tests.faults.world import Numbers, World

SHORT_TIMES: Numbers = beside(__file__)
"""What the reconciler waits for in production is waited for shortly: a lease that nobody gives back, a watch that is
half-open, the pauses after many failures. The order of the times stays what it is. By group of `reconciler.timings`."""
SLOW = ("API server restarts", "half-open watches", "stopped at a write")
"""Kinds that random schedules take less often."""


@dataclass(frozen=True)
class Schedule:
    """steps: one after the other, with a rest after each. seed: of the proxy's dice."""

    seed: int
    steps: tuple[Step, ...]

    @classmethod
    def from_seed(cls, seed: int) -> Schedule:
        dice = random.Random(seed)  # noqa: S311  - not a secret
        kinds = [kind for kind in KINDS for _ in range(1 if kind in SLOW else 3)]
        steps = [_random_step(dice, dice.choice(kinds)) for _ in range(dice.choice((2, 3)))]
        return cls(seed, tuple(steps))

    def run(self, world: World) -> list[tuple[Step, float]]:
        """All steps in a world at rest; each with the seconds from the end of its fault to rest. Raises ViolationError,
        or NotSeenError when the cluster did not come to rest."""
        world.proxy.roll = random.Random(self.seed).random  # noqa: S311
        return [(step, run_step(world, step)) for step in self.steps]


def _random_step(dice: random.Random, fault: str) -> Step:
    """Half of the actions evict, and all do that a fault of evictions is about."""
    evicts = "eviction" in fault or dice.random() < 0.5
    return Step(
        action=dice.choice(story.EVICTING if evicts else tuple(story.ACTIONS)),
        fault=fault,
        seconds=round(dice.uniform(0.3, 3.0), 1),
        write=dice.choice((*WRITES, "an eviction", "a gate") if evicts else tuple(WRITES)),
        skip=dice.choice((0, 0, 1, 3)),
        dice=dice.randrange(10**6),
    )


def run_step(world: World, step: Step) -> float:
    """One action with one fault around it; seconds from the end of the fault to rest."""
    world.witness.calm_since = float("inf")
    try:
        with KINDS[step.fault](world, step):
            story.ACTIONS[step.action](world, random.Random(step.dice))  # noqa: S311
        return world.settle(EXTRA_SECONDS[step.fault])
    except BaseException as error:
        error.add_note(f"in {step}")
        raise
