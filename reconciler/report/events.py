"""Events on objects, written outside the loop: slowly, each once, again while the server does not answer, and dropped
when there are too many. No pass waits for them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable

from compiler.fields.times import rfc3339
from compiler.kubernetes import uid_of
from compiler.syntax.runs import json_digest
from reconciler.changes.results import ObjectEvent
from reconciler.cluster.client import ApiError, Client, Conflict, LostLease, Retry
from reconciler.cluster.objects import FIELD_MANAGER, Object, ref_of
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.threads.rest import doubled
from reconciler.timings import TIMINGS, ReportTimings

log = logging.getLogger(__name__)

MAX_WAITING = 5_000
MAX_REMEMBERED = 10_000
_TURN = 0.5  # seconds for which the thread waits for an Event, at the end of the process as well


class EventWriter:
    """Writes each message once: the name is made of the contents, so a restart does not repeat it."""

    def __init__(self, client: Client, identity: str, timings: ReportTimings = TIMINGS.report) -> None:
        self.client, self.identity, self.timings = client, identity, timings
        self.dropped = 0
        self.heartbeat = Heartbeat("events", 120.0)
        self._waiting: queue.Queue[tuple[ObjectEvent, int]] = queue.Queue(MAX_WAITING)
        self._known: set[str] = set()
        self._failures = 0
        self._is_ending = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, events: Iterable[ObjectEvent]) -> None:
        """Queue new events for writing; events without room are dropped and counted."""
        for event in events:
            digest = _digest(event)
            if digest not in self._known and self._enqueue(event, 1):
                if len(self._known) >= MAX_REMEMBERED:
                    self._known.clear()
                self._known.add(digest)

    def _enqueue(self, event: ObjectEvent, attempt: int) -> bool:
        """Let an Event wait to be written; whether there was room, else it is counted as dropped."""
        try:
            self._waiting.put_nowait((event, attempt))
        except queue.Full:
            self.dropped += 1
            return False
        return True

    def start(self) -> None:
        self._thread = start_thread(self.write_next, self._stop, self.heartbeat)

    def stop(self, seconds: float) -> None:
        """Write what waits, for so many seconds at most, and end."""
        until = time.monotonic() + seconds
        self._is_ending = True
        while self._thread is not None and not self._waiting.empty() and time.monotonic() < until:
            time.sleep(0.02)
        self._stop.set()
        if self._thread is not None:
            self._thread.join(max(_TURN, until - time.monotonic()))

    def write_next(self) -> float:
        """Write one Event, if any waits; seconds until the next try."""
        try:
            event, attempt = self._waiting.get(timeout=_TURN)
        except queue.Empty:
            return 0.0
        ref = ref_of(event.object)
        try:
            self.client.create(self._object_of(event, f"{ref.name[:200]}.{_digest(event)}"))
        except Conflict:
            log.debug("this event has been written before", extra={"object": str(ref)})
        except Retry as error:
            return self._put_back(event, attempt, error)
        except (ApiError, LostLease) as error:
            log.info("an event was not written", extra={"object": str(ref), "reason": str(error)[:300]})
            if isinstance(error, LostLease):
                self._known.discard(_digest(event))
        self._failures = 0
        return 0.0

    def _put_back(self, event: ObjectEvent, attempt: int, error: Retry) -> float:
        """Return queue a refused Event again, and return the seconds until the next attempt. A dropped one may be
        reported again."""
        log.info("an event waits", extra={"object": str(ref_of(event.object)), "reason": str(error)[:300]})
        longest = self.timings.longest_event_retry
        pause = doubled(self.timings.first_event_retry, self._failures, longest)
        self._failures += 1
        is_given_up = attempt >= self.timings.event_attempts or self._is_ending
        self.dropped += is_given_up
        if is_given_up or not self._enqueue(event, attempt + 1):
            self._known.discard(_digest(event))
        return 0.0 if self._is_ending else max(pause, min(error.after, longest))

    def _object_of(self, event: ObjectEvent, name: str) -> Object:
        ref = ref_of(event.object)
        involved = {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        now = rfc3339(int(time.time()))
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": ref.namespace or "default", "name": name},
            "involvedObject": {**involved, "uid": uid_of(event.object)},
            "reason": event.reason,
            "message": event.message[:1000],
            "type": "Warning" if event.is_warning else "Normal",
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": "gangplan.dev/reconciler",
            "reportingInstance": self.identity[:128],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _digest(event: ObjectEvent) -> str:
    return json_digest([uid_of(event.object), event.reason, event.message])[7:23]
