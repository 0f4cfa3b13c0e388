"""Each thread says that it turns, and no exception ends one; where much happens, the loop rests much longer than it
computes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes.config import ConfigException

from reconciler.cluster.client import Client
from reconciler.cluster.lease import Lease
from reconciler.threads.heartbeat import Heartbeat, repeat_step
from reconciler.threads.rest import LoopRest, WakeEvent, doubled
from reconciler.timings import TIMINGS, LeaseTimings
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer


def test_a_step_is_repeated_whatever_it_raises() -> None:
    stop, heartbeat = threading.Event(), Heartbeat("test", 10, error_pause=0.0)
    errors = [MemoryError(), OSError(28, "No space left on device"), TypeError(), KeyError("x"), RecursionError()]

    def step() -> float:
        if errors:
            raise errors.pop()
        stop.set()
        return 0.0

    repeat_step(step, stop, heartbeat)
    assert heartbeat.errors == 5


def test_a_heartbeat_is_late_after_its_limit_and_not_before_it_began() -> None:
    now = 100.0
    heartbeat = Heartbeat("test", 10, clock=lambda: now)
    assert heartbeat.seconds_late() == 0
    heartbeat.beat()
    now = 110.0
    assert heartbeat.seconds_late() == 0
    now = 113.0
    assert heartbeat.seconds_late() == 3
    heartbeat.beat()
    assert heartbeat.seconds_late() == 0
    now = 200.0
    heartbeat.rest()
    assert heartbeat.seconds_late() == 0, "it has nothing to do"


@pytest.mark.parametrize("body", [None, [], {"kind": "Lease"}, {"kind": "Lease", "metadata": None, "spec": None}])
def test_the_lease_is_won_whatever_could_not_be_read_at_first(body: Any) -> None:
    """The thread of the lease ended with the first exception that it did not expect."""
    failures = [ConfigException("empty"), ValueError("yaml")]
    errors, won = [MemoryError(), TypeError("null")], threading.Event()
    answers = iter((ScriptedAnswer(200, body), error_answer(404)))

    def script(method: str, path: str, sent: Any) -> ScriptedAnswer:
        if errors:
            raise errors.pop()
        written = {**(sent or {}), "metadata": {"name": "l", "resourceVersion": "1"}}
        return ScriptedAnswer(201, written) if sent else next(answers)

    def connect() -> ScriptedServer:
        if failures:
            raise failures.pop()
        return ScriptedServer(script)

    lease = Lease(Client(connect), "n", "l", "one", LeaseTimings(period=0.01), on_change=lambda held: won.set())
    lease.heartbeat.error_pause = 0.0
    lease.start()
    assert won.wait(60)
    lease._stop.set()


def test_a_pause_that_is_doubled_for_days_stays_a_number() -> None:
    """The exponent overflowed with the 1,025th failure in a row. An outage of 85 minutes ended the process."""
    assert [doubled(0.5, times, 60.0) for times in (0, 3, 5000)] == [0.5, 4.0, 60.0]


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
