"""What a busy machine takes of the time is told from what the reconciler takes."""

from __future__ import annotations

import os
import subprocess
import time

from tests.faults.starvation import Starvation, ThreadTimes, times_of


def test_time_is_taken_where_a_thread_waits_for_a_core_and_not_where_it_sleeps() -> None:
    now, times = 0.0, {"a": ThreadTimes(0.0, 0.0, wants_core=False)}
    starvation = Starvation(lambda: dict(times), lambda: now)

    def look(at: float, **seen: ThreadTimes) -> None:
        nonlocal now
        now = at
        times.update(seen)
        starvation.look()

    look(10.0)
    assert starvation.seconds(0.0, 10.0) == 0.0, "it slept, or hung"
    look(11.0, a=ThreadTimes(0.5, 0.4, wants_core=True), b=ThreadTimes(0.1, 0.3, wants_core=False))
    assert starvation.seconds(0.0, 11.0) == 0.4, "the longest wait"
    look(21.0)
    assert starvation.seconds(11.0, 21.0) == 10.0, "a wait that is not over"
    look(22.0, a=ThreadTimes(0.6, 10.5, wants_core=False))
    assert starvation.seconds(11.0, 22.0) == 11.0, "no more than the time itself"
    look(32.0)
    assert starvation.seconds(22.0, 40.0) == 0.0


def test_the_times_of_a_process_and_of_its_children_are_read() -> None:
    def ran() -> float:
        return sum(each.ran for each in times_of(os.getpid()).values())

    before, until = ran(), time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert ran() - before >= 0.04
    with subprocess.Popen(["sleep", "60"]) as child:
        assert any(f"/proc/{child.pid}/" in thread for thread in times_of(os.getpid()))
        child.kill()
