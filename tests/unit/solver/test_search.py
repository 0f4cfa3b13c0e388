"""The search on its own: numbers are solutions, each its own cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from solver.clock import Clock
from solver.search import Incumbent, Limits, improve


@dataclass
class Steps:
    """Each pass proposes these changes of the incumbent; None is ruled out."""

    changes: tuple[int | None, ...]
    seen: list[int] = field(default_factory=list)

    def moves(self, incumbent: Incumbent[int]) -> Iterator[Callable[[], int | None]]:
        for change in self.changes:
            yield lambda: self._changed(incumbent.solution, change)  # noqa: B023  # made before the next one is asked

    def _changed(self, solution: int, change: int | None) -> int | None:
        self.seen.append(solution)
        return None if change is None else max(0, solution + change)


NO_LIMITS = Limits(Clock())


def searched(start: int, steps: Steps, limits: Limits = NO_LIMITS, least: int = -1) -> int:
    return improve(start, lambda solution: solution, steps.moves, limits, lambda cost: cost <= least)


def test_what_is_cheaper_is_kept_and_the_next_move_starts_from_it() -> None:
    steps = Steps((+1, -1, +1))
    assert searched(2, steps) == 0
    assert steps.seen == [2, 2, 1, 1, 1, 0, 0, 0, 0]


def test_a_bound_stops_it() -> None:
    steps = Steps((-1,))
    assert searched(9, steps, least=7) == 7
    assert steps.seen == [9, 8]


def test_tries_count_every_move() -> None:
    assert searched(9, Steps((-1, +1, None)), Limits(Clock(), tries=4)) == 7
    assert searched(9, Steps((-1,)), Limits(Clock(), tries=0)) == 9


def test_only_consecutive_failures_count_and_none_that_is_ruled_out() -> None:
    assert searched(9, Steps((+1, None, -1)), Limits(Clock(), failures=2, passes=3)) == 6
    assert searched(9, Steps((+1, None, +1, -1)), Limits(Clock(), failures=2)) == 9


def test_improvements_and_passes_are_limited() -> None:
    assert searched(9, Steps((-1, -1)), Limits(Clock(), improvements=3)) == 6
    assert searched(9, Steps((-1, -1)), Limits(Clock(), passes=1)) == 7
