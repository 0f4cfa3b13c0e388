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
        """Make the request late, and end what reads from its connection."""
        self.is_late = True
        # The plain socket: TLS has a state of its own that the reading thread is using. Within TLS it is wrapped once
        # more.
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
    """Shuts the sockets of requests that take too long. Its thread starts with the first request."""

    def __init__(self) -> None:
        self._requests: list[_Request] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, seconds: float) -> Callable[[], bool]:
        """Begin a request of the present thread, which may take so long. The result ends it, and says whether it was
        late."""
        request = _Request(time.monotonic() + seconds, next(self._numbers))
        with self._changed:
            heapq.heappush(self._requests, request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="time-limits", daemon=True)
                self._thread.start()
            if self._requests[0] is request:
                self._changed.notify()
        _current.request = request

        def end() -> bool:
            with self._changed:
                request.end()
            return request.is_late

        return end

    def _run(self) -> None:
        with self._changed:
            while True:
                while self._requests and self._requests[0].has_ended:
                    heapq.heappop(self._requests)
                if not self._requests:
                    self._changed.wait()
                elif (left := self._requests[0].end_at - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    heapq.heappop(self._requests).shut()
