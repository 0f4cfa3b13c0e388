"""The part of what operators ask for: it is read again and again, and says what is left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from compiler.kubernetes import is_suspended
from reconciler.changes.diff import Change
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.part import Part
from reconciler.requests.store import Requests, RequestStore
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import RequestTimings

SUSPENDED = "it is suspended, so nothing of it is written, started, evicted or deleted"
"""Why a change is held."""
BY_REQUEST = "`gangplan suspend` holds it"
"""Why a job is not planned."""


class RequestsPart(Part):
    """A thread reads the requests; `wake` is called when they change. problem: why the last ones count on."""

    def __init__(self, store: RequestStore, wake: Callable[[], None], timings: RequestTimings) -> None:
        self.store, self.wake, self.timings = store, wake, timings
        self.problem = ""
        self.heartbeat = Heartbeat("requests", timings.poll_limit)
        self._latest: Requests | None = None
        self._stop = threading.Event()

    def start(self) -> None:
        start_thread(self.poll_once, self._stop, self.heartbeat)

    def stop(self) -> None:
        self._stop.set()

    def heartbeats(self) -> list[Heartbeat]:
        return [self.heartbeat]

    def current(self) -> Requests:
        """The requests as last read. Raises ApiError or ValueError as long as they never were."""
        if self._latest is None:
            self._latest = self.store.read()
        return self._latest

    def poll_once(self) -> float:
        """Read the requests; seconds until the next time."""
        before = self._latest, self.problem
        try:
            self._latest, self.problem = self.store.read(), ""
        except (ApiError, ValueError) as error:
            self.problem = f"what operators ask for cannot be read: {error}"
        if (self._latest, self.problem) != before:
            self.wake()
        return self.timings.poll

    def suspended_keys(self, objects: Mapping[str, Object]) -> set[str]:
        """Which of these objects, by Ref.key, are suspended."""
        requests = self.current()
        return {key for key, item in objects.items() if _is_suspended(requests, item)}

    def suspended_jobs(self, refs: Iterable[Ref]) -> dict[str, str]:
        """Ref.key of each job that a request suspends, with why it is not planned."""
        requests = self.current()
        return {ref.key: BY_REQUEST for ref in refs if requests.suspends(ref)} if requests.suspended else {}

    def hold_reason(self, change: Change) -> str:
        """Why the object of this change, to be deleted or given back, is left alone; empty where it is not."""
        return SUSPENDED if change.live is not None and _is_suspended(self.current(), change.live) else ""


def _is_suspended(requests: Requests, item: Object) -> bool:
    """Whether the annotation of an object, in git or in the cluster, or an operator's request suspends it."""
    by_annotation = is_suspended(item)
    return by_annotation or (bool(requests.suspended) and requests.suspends(ref_of(item)))
