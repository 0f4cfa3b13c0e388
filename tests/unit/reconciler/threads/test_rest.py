"""Passes follow one another where little happens; where much does, the loop rests much longer than it computes."""

from __future__ import annotations

import pytest

from reconciler.threads.rest import LoopRest, WakeEvent
from reconciler.timings import TIMINGS

TIMES = TIMINGS.rest


def test_a_few_passes_need_no_rest_and_many_rest_as_long_as_they_would_have() -> None:
    rest, now, pauses = LoopRest(), 100.0, []
    for _ in range(40):
        until = rest.rested_at(now, now + 0.1, 0.1, False)
        pauses.append(max(0.0, until - now - 0.1))
        now += 0.1 + pauses[-1]
    assert not any(pauses[:3])
    assert pauses[-30:] == pytest.approx([TIMES.longest] * 30)
    now += 60.0
    assert rest.rested_at(now, now + 0.1, 0.1, False) - now - 0.1 == pytest.approx(TIMES.longest - TIMES.credit), (
        "as in the beginning"
    )


def test_what_a_pass_has_waited_for_is_rest() -> None:
    rest = LoopRest()
    for now in range(100, 220, 2):
        assert rest.rested_at(now, now + 1.2, 0.1, False) < now


def test_while_new_jobs_are_left_to_later_passes_each_pass_is_rested_from() -> None:
    assert LoopRest().rested_at(10.0, 10.01, 0.01, True) == pytest.approx(10.01 + TIMES.paced)
    assert LoopRest().rested_at(10.0, 15.5, 5.0, True) == pytest.approx(17.0)


def test_events_while_a_pass_is_due_do_not_stir_the_loop_and_urgent_ones_do() -> None:
    """Of a wave's thousands of events each woke the loop while it rested."""
    wake, stirs = WakeEvent(), []
    for happen in (wake.set, wake.set, wake.hurry, wake.set):
        wake.stirred.clear()
        happen()
        stirs.append((wake.is_set(), wake.stirred.is_set(), wake.is_urgent))
    wake.clear()
    wake.stirred.clear()
    wake.set()
    stirs.append((wake.is_set(), wake.stirred.is_set(), wake.is_urgent))
    assert stirs == [
        (True, True, False),
        (True, False, False),
        (True, True, True),
        (True, False, True),
        (True, True, False),
    ]
