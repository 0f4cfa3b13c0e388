"""The total time of a request: a socket's own limit is for each byte, so a server that drips bytes would hold a thread
for ever. One thread shuts the sockets of requests that are late, which ends whatever reads from them."""

from __future__ import annotations

import heapq
import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import TIMINGS, ClientTimings

log = logging.getLogger(__name__)
_current = threading.local()


@dataclass(order=True, slots=True)
class _Request:
    """A request under way. end_at: on the monotonic clock. number: breaks ties."""

    end_at: float
    number: int
    connection: socket.socket | None = field(default=None, compare=False)
    is_late: bool = field(default=False, compare=False)
    has_ended: bool = field(default=False, compare=False)

    def read_from(self, used: socket.socket | None) -> None:
        """Note the socket of the answer, which is shut at once where the request is late already."""
        self.connection = used
        if self.is_late:
            self.shut()

    def end(self) -> None:
        """Note that nothing is read any more."""
        self.has_ended, self.connection = True, None

    def shut(self) -> None:
        """Make the request late, and end what reads from its connection: its plain socket, since TLS has a state that
        the reading thread is using, and within TLS the socket is wrapped once more."""
        self.is_late = True
        used = self.connection
        plain = used if isinstance(used, socket.socket) else getattr(used, "socket", None)
        try:
            if plain is not None:
                socket.socket.shutdown(plain, socket.SHUT_RDWR)
        except OSError as error:
            log.debug("a late request's connection was closed already", extra={"reason": str(error)})


def note_socket(used: socket.socket | None) -> None:
    """Say on which socket the answer to the present thread's request is read."""
    if (request := getattr(_current, "request", None)) is not None:
        request.read_from(used)


class TimeLimiter:
    """Shuts the sockets of requests that take too long. Its thread starts with the first request.

    heartbeat: of that thread. late_requests: the sign of life of all threads that make requests: missed where one goes
    on although it was ended.
    """

    def __init__(self, timings: ClientTimings = TIMINGS.client) -> None:
        self.heartbeat = Heartbeat("time-limits", timings.limiter_heartbeat_limit)
        self.late_requests = Heartbeat("late-requests", timings.late_heartbeat_limit)
        self._look = timings.limiter_look
        self._requests: list[_Request] = []
        self._shut: list[_Request] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, seconds: float) -> Callable[[], bool]:
        """Begin a request of the present thread, which may take so long. The result ends it, and says whether it was
        late. Raises RuntimeError where no thread can be started that would end it."""
        request = _Request(time.monotonic() + seconds, next(self._numbers))
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._thread = start_thread(self._end_late, threading.Event(), self.heartbeat)
            heapq.heappush(self._requests, request)
            if self._requests[0] is request:
                self._changed.notify()
        _current.request = request

        def end() -> bool:
            with self._changed:
                request.end()
            return request.is_late

        return end

    def _end_late(self) -> float:
        """End the requests that are late by now, and wait for the next, for a while at most."""
        with self._changed:
            while self._requests and (self._requests[0].has_ended or self._requests[0].end_at <= time.monotonic()):
                request = heapq.heappop(self._requests)
                if not request.has_ended:
                    self._shut.append(request)
                    request.shut()
            self._shut = [request for request in self._shut if not request.has_ended]
            now = time.monotonic()
            self.late_requests.beat_as_of(min((request.end_at for request in self._shut), default=now))
            next_end = self._requests[0].end_at if self._requests else now + self._look
            self._changed.wait(min(max(next_end - now, 0.0), self._look))
        return 0.0
