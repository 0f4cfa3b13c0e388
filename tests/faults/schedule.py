"""Schedules: a seed gives a list of faults over a short story of commits, and the same seed gives the same list."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import ControlPlane
from tests.faults import story
from tests.faults.kinds import EXTRA_SECONDS, KINDS, WRITES, Step
from tests.faults.world import Constants, World

SHORT_TIMES: Constants = {
    "reconciler.cluster.client": {"WATCH_SILENCE": 8.0, "WATCH_GRACE": 3.0},
    "reconciler.cluster.watch": {"WATCH_SECONDS": [4, 6]},
}
"""A watch is asked to last seconds instead of minutes, so that a half-open one is found out soon."""
SLOW = ("API server restarts", "half-open watches", "stopped at a write")
"""Kinds that random schedules take less often."""


class ViolationError(AssertionError):
    """An invariant did not hold."""


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
        """Each step and the seconds from the end of its fault to rest. Raises ViolationError, or NotSeenError when the
        cluster did not come to rest."""
        dice = random.Random(self.seed)  # noqa: S311
        with World(plane, folder, constants=SHORT_TIMES, roll=dice.random) as world:
            story.begin(world)
            began = time.monotonic()
            world.reconciler.start()
            world.wait_for_rest(bar=240)
            calm = time.monotonic() - began
            return [(step, self._run_step(world, step, calm)) for step in self.steps]

    def _run_step(self, world: World, step: Step, calm: float) -> float:
        """`calm` is what a commit takes on this machine without a fault: the machine may be slow."""
        world.witness.calm_since = float("inf")
        try:
            with KINDS[step.fault](world, step):
                story.ACTIONS[step.action](world, random.Random(step.dice))  # noqa: S311
            world.witness.calm_since = time.monotonic()
            seconds = world.wait_for_rest(bar=30 + EXTRA_SECONDS[step.fault] + 4 * calm)
        except BaseException as error:
            error.add_note(f"in {step} of seed {self.seed}")
            raise
        if violations := world.violations():
            raise ViolationError(f"after {step} of seed {self.seed}:\n" + "\n".join(violations))
        return seconds
