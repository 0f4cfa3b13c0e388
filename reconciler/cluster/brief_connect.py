"""Connecting for the lease, which cannot wait: a credential plugin of the kubeconfig may take 30 s, and the lease is
lost after ten."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.cluster.client import Transport, short_error

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Attempt:
    """One call of `connect`, in a thread of its own. It ends with a transport or an error."""

    ended: threading.Event = field(default_factory=threading.Event)
    transport: Transport | None = None
    error: Exception | None = None

    def run(self, connect: Callable[[], Transport]) -> None:
        try:
            self.transport = connect()
        except Exception as error:  # it is raised where somebody waits for it
            self.error = error
        self.ended.set()


class BriefConnect:
    """Connects by `connect`, for which it waits so many seconds. What has not come by then serves the next call; until
    then the last connection does, whose credentials may well be good."""

    def __init__(self, connect: Callable[[], Transport], seconds: float) -> None:
        self.connect, self.seconds = connect, seconds
        self._attempt: _Attempt | None = None
        self._last: Transport | None = None

    def __call__(self) -> Transport:
        """A new connection, or the last one. Raises what `connect` raised, or TimeoutError, where there is none."""
        self._take_up()
        if self._attempt is None:
            attempt = _Attempt()
            threading.Thread(target=attempt.run, args=(self.connect,), name="connect", daemon=True).start()
            self._attempt = attempt
        self._attempt.ended.wait(self.seconds)
        error = self._take_up()
        if self._last is None:
            raise error or TimeoutError(f"they were not read within {self.seconds:g} s")
        if error is not None or self._attempt is not None:
            reason = short_error(error) if error is not None else f"it takes more than {self.seconds:g} s"
            log.info("the last connection is used again, since a new one cannot be had", extra={"reason": reason})
        return self._last

    def _take_up(self) -> Exception | None:
        """Take up the attempt that has ended, if one has; what it raised."""
        attempt = self._attempt
        if attempt is None or not attempt.ended.is_set():
            return None
        self._attempt = None
        self._last = attempt.transport or self._last
        return attempt.error
