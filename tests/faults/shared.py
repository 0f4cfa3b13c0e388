"""One world for many tests: a reconciler that runs on through all of them, with its cluster at rest in between."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.controlplane import ControlPlane
from tests.faults.bed import clear
from tests.faults.schedule import SHORT_TIMES
from tests.faults.world import World


class SharedWorld:
    """Gives out one world at rest; after a test that failed in it the next one gets another."""

    def __init__(self, plane: ControlPlane, make_folder: Callable[[], Path]) -> None:
        self.plane, self._make_folder = plane, make_folder
        self._world: World | None = None

    @contextlib.contextmanager
    def use(self) -> Iterator[World]:
        try:
            if self._world is None:
                fresh = World(
                    self.plane,
                    self._make_folder() / "world",
                    numbers=SHORT_TIMES,
                    roll=random.Random(1).random,  # noqa: S311
                )
                self._world = fresh.__enter__()
                self._world.begin()
            yield self._world
        except BaseException as error:
            self.end(error)
            raise

    def end(self, error: BaseException | None = None) -> None:
        """Give the world up; the error of a test is told what the world knows of it."""
        if self._world is not None:
            self._world.__exit__(type(error) if error else None, error, None)
            self._world = None
            clear(self.plane)
