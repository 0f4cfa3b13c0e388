"""Each thread says that it turns, and no exception ends one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes.config import ConfigException

from reconciler.cluster.client import Client
from reconciler.cluster.lease import Lease
from reconciler.threads.heartbeat import Heartbeat, repeat_step
from reconciler.timings import LeaseTimings
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer
from tests.builders.threads import skip_error_pauses


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_error_pauses(monkeypatch)


def test_a_step_is_repeated_whatever_it_raises() -> None:
    stop, heartbeat = threading.Event(), Heartbeat("test", 10)
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
    lease.start()
    assert won.wait(60)
    lease._stop.set()
