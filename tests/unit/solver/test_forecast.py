"""Run times, futures and windows of starts, worked out by hand."""

from __future__ import annotations

import random

import pytest

from solver.forecast import (
    ENOUGH_RUNS,
    RECENT,
    Correction,
    Pool,
    RunHistory,
    RunTimes,
    draw_length,
    start_times,
    starts_in_futures,
)


def drawn(times: RunTimes, age: int) -> list[int]:
    rng = random.Random(1)  # noqa: S311
    return [times.draw(age, rng) for _ in range(400)]


def test_a_run_that_goes_on_makes_longer_ones_likelier() -> None:
    ended = [10, 20, 30, 40]
    alone, beside_old_ones = drawn(RunTimes(ended, []), 0), drawn(RunTimes(ended, [25] * 4), 0)
    assert 80 < alone.count(10) < 120  # a quarter of 400
    assert 30 < beside_old_ones.count(10) < 70  # an eighth: eight runs reached 10
    assert {*alone} == {10, 20, 30, 40}


def test_what_is_left_depends_on_the_age() -> None:
    assert min(drawn(RunTimes([10, 20, 30, 40], []), 20)) == 30
    beyond = drawn(RunTimes([10, 20], []), 50)
    assert min(beyond) >= 50
    assert 150 < sum(length >= 100 for length in beyond) < 250  # half of them double their age


def test_a_length_is_of_the_closest_class_that_knows_longer_runs() -> None:
    history = RunHistory()
    for _ in range(ENOUGH_RUNS):
        history.add(("mine", "all"), 10)
        history.add(("few", "all"), 50)
    history.add(("fewer", "all"), 7)
    known, rng = history.run_times([]), random.Random(1)  # noqa: S311
    assert draw_length(known, ("mine", "all"), 0, None, rng) == 10
    assert draw_length(known, ("mine", "all"), 10, None, rng) == 50
    assert draw_length(known, ("fewer", "all"), 10, 30, rng) == 30  # at most its limit
    assert "fewer" not in known


def futures_starts(pool: Pool, lengths: dict[int, int]) -> dict[int, int]:
    return start_times(pool, lengths.__getitem__, lengths.__getitem__)


def test_a_future_is_easy_backfilling_on_a_pool() -> None:
    """0 holds 3 of 4 until 100, 9 the other until 5. 1 needs all and has the room from then; 2 ends before, 3 does not;
    both need one."""
    pool = Pool(0, 0, [(0, 3), (9, 1)], [(1, 4), (3, 1), (2, 1)])
    assert futures_starts(pool, {0: 100, 9: 5, 1: 10, 2: 50, 3: 200}) == {2: 5, 1: 100, 3: 110}


def test_who_takes_only_what_is_spare_passes() -> None:
    pool = Pool(5, 0, [(0, 3), (9, 1)], [(1, 3), (2, 1), (3, 1)])
    assert futures_starts(pool, {0: 100, 9: 1, 1: 10, 2: 999, 3: 999}) == {2: 6, 1: 105, 3: 115}


def test_who_never_fits_and_those_behind_have_no_start() -> None:
    pool = Pool(0, 0, [(0, 1), (9, 1)], [(3, 1), (1, 3), (2, 1)])
    assert futures_starts(pool, {0: 9, 9: 2, 1: 1, 2: 9, 3: 99}) == {3: 2}


def test_who_waits_starts_with_an_end_at_the_earliest() -> None:
    """What is free now is of no use to it, or the scheduler had started it."""
    assert futures_starts(Pool(0, 4, [(0, 1)], [(1, 2)]), {0: 9, 1: 1}) == {1: 9}
    assert futures_starts(Pool(0, 4, [], [(1, 2)]), {1: 1}) == {}


def test_futures_are_the_same_for_the_same_seed() -> None:
    pool = Pool(0, 0, [(0, 1)], [(1, 1)])

    def length(j: int, rng: random.Random) -> int:
        return rng.randrange(1, 1000)

    first, again, other = (starts_in_futures(pool, length, length, seed)[1] for seed in (1, 1, 2))
    assert [*first] == [*again] == sorted(first)
    assert first != other


def test_a_window_is_the_spread_of_the_futures_until_enough_has_been_seen() -> None:
    window = Correction(60).window([*range(0, 2000, 100)])
    assert (window.low, window.middle, window.high, window.raw) == (200, 1000, 1700, 1000)


@pytest.mark.parametrize("factor", [1, 3])
def test_a_window_follows_how_earlier_promises_held(factor: int) -> None:
    correction, rng = Correction(60), random.Random(1)  # noqa: S311
    for _ in range(RECENT):
        correction.add(1000, factor * 1000 + rng.randrange(-500, 500))
    window = correction.window([1000] * 20)
    assert window.middle == pytest.approx(factor * 1000, abs=50)
    assert factor * 1000 - 510 <= window.low <= window.high <= factor * 1000 + 510
    assert window.high - window.low == pytest.approx(900, abs=50)


def test_a_window_is_the_shortest_that_holds_most_earlier_ratios() -> None:
    """Three of forty starts came very late: the window leaves these out, and not as many on each side."""
    correction = Correction(60)
    for k in range(40):
        correction.add(1000, 50_000 if k < 3 else 1000 + 10 * k)
    window = correction.window([1000] * 20)
    assert (window.low, window.high) == (1030, 1380)
