"""The thread that ends requests: it survives what it meets, and is seen when it or a request hangs."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from reconciler.cluster import timelimit
from reconciler.cluster.timelimit import TimeLimiter, note_socket
from reconciler.timings import ClientTimings
from tests.builders.threads import no_new_thread, skip_error_pauses


@pytest.fixture
def wire() -> Iterator[socket.socket]:
    """Our end of a connection on which nothing comes."""
    ours, theirs = socket.socketpair()
    yield ours
    ours.close()
    theirs.close()


def test_an_error_ends_no_time_limit(wire: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one MemoryError no request had a limit any more, for good."""
    skip_error_pauses(monkeypatch)
    errors, shut = [MemoryError()], timelimit._Request.shut

    def fail_once(request: timelimit._Request) -> None:
        if errors:
            raise errors.pop()
        shut(request)

    monkeypatch.setattr(timelimit._Request, "shut", fail_once)
    limiter = TimeLimiter()
    limiter.begin(0.0)
    while errors:
        time.sleep(0.001)
    end = limiter.begin(0.01)
    note_socket(wire)
    assert wire.recv(1) == b"", "it is shut"
    assert end()
    assert limiter.heartbeat.errors == 1


def test_without_a_thread_nothing_is_sent_and_the_next_request_has_its_limit(wire: socket.socket) -> None:
    """A thread that could not be started counted as one that runs."""
    limiter = TimeLimiter()
    with no_new_thread(), pytest.raises(RuntimeError):
        limiter.begin(0.01)
    limiter.begin(0.01)
    note_socket(wire)
    assert wire.recv(1) == b""


def test_it_shows_that_it_turns_while_nothing_is_asked_and_misses_a_request_that_does_not_end() -> None:
    limiter = TimeLimiter(ClientTimings(limiter_look=0.001))
    assert limiter.heartbeat.seconds_late() == limiter.late_requests.seconds_late() == 0.0, "nothing was asked yet"
    limiter.begin(60.0)()
    for _ in range(2):
        seen = limiter.heartbeat.last_beat
        while limiter.heartbeat.last_beat == seen:
            time.sleep(0.001)
    limiter.late_requests.limit = 0.05
    end = limiter.begin(0.0)
    while not limiter.late_requests.seconds_late():
        time.sleep(0.001)
    assert end()
    while limiter.late_requests.seconds_late():
        time.sleep(0.001)
