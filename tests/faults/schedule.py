"""Schedules: a seed gives a list of faults over a short story of commits, and the same seed gives the same list."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import ControlPlane
from tests.faults import story
from tests.faults.kinds import EXTRA_SECONDS, KINDS, WRITES, Step
from tests.faults.world import Constants, World

SHORT_TIMES: Constants = {
    "reconciler.decisions.guard": {"PRUNE_WINDOW": 10},
    "reconciler.cluster.client": {"WATCH_SILENCE": 8.0, "WATCH_GRACE": 3.0},
    "reconciler.cluster.watch": {"WATCH_SECONDS": [6, 7]},
}
"""A watch is asked to last seconds instead of minutes, so that a half-open one is found out soon."""
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
        steps = [
            Step(
                action=dice.choice(tuple(story.ACTIONS)),
                fault=dice.choice(kinds),
                seconds=round(dice.uniform(0.3, 3.0), 1),
                write=dice.choice(tuple(WRITES)),
                skip=dice.choice((0, 0, 1, 3)),
                dice=dice.randrange(10**6),
            )
            for _ in range(dice.choice((2, 3)))
        ]
        return cls(seed, tuple(steps))

    def run(self, plane: ControlPlane, folder: Path) -> list[tuple[Step, float]]:
        """All steps in a world of their own; each with the seconds from the end of its fault to rest. Raises
        ViolationError, or NotSeenError when the cluster did not come to rest."""
        with World(plane, folder, constants=SHORT_TIMES, roll=random.Random(self.seed).random) as world:  # noqa: S311
            world.begin()
            return [(step, run_step(world, step)) for step in self.steps]


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
