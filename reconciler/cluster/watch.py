"""List and watch: a cache of the objects of one kind that says when it cannot be trusted.

`ObjectCache` is the protocol's state and knows no IO, so a test feeds it lines; `Informer` is the thread that lists,
watches and feeds it. The recipe: LIST in pages, WATCH from its resource version with bookmarks, resume after an
ordinary end, list again after 410 or an error event, back off with full jitter, close a silent connection (the read
limit is a little above the time for which the server was asked to keep it), and list again every ten minutes in any
case.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.kubernetes import uid_of
from reconciler.cluster.client import ApiError, Client, Forbidden, Gone, NotFound, Resource, Retry, Unauthorized
from reconciler.cluster.objects import FIELD_MANAGER, Object

log = logging.getLogger(__name__)

WATCH_SECONDS = (240, 480)
"""Least and greatest duration of one watch request."""
RELIST_SECONDS = 600.0
"""Seconds after which a kind is listed again in any case."""
BACKOFF = (0.5, 30.0)
"""First and longest pause after a failure."""
UNAVAILABLE_RETRY = 60.0
"""Seconds between attempts at a kind that we may not read or that the cluster does not serve."""

ObjectKey = tuple[str, str]
"""(namespace, name)."""


class RelistError(Exception):
    """The watch cannot go on from where it was."""


def key_of(item: Object) -> ObjectKey:
    meta = item["metadata"]
    return str(meta.get("namespace") or ""), str(meta["name"])


def drop_unused_fields(item: Object) -> Object:
    """Take out what is never read: of managedFields only our own applied set stays, which the diff needs."""
    metadata = item["metadata"]
    metadata["managedFields"] = [entry for entry in metadata.get("managedFields") or () if _is_our_apply(entry)]
    return item


def _is_our_apply(entry: Mapping[str, Any]) -> bool:
    is_ours = entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
    return is_ours and not entry.get("subresource")


@dataclass(slots=True)
class ObjectCache:
    """Objects of one kind by (namespace, name).

    Objects are replaced, never changed in place, so a reader may keep what it was given. `on_delete` is called with
    the last state of each object that a DELETED event or a relist took away, and whether the deletion itself was seen
    (a relist only shows the absence).
    """

    on_delete: Callable[[Object, bool], None] = lambda item, seen: None
    objects: dict[ObjectKey, Object] = field(default_factory=dict)
    version: str = ""

    def replace_objects(self, items: Iterable[Object], version: str) -> bool:
        """Take a new list; whether it differs from what was known."""
        listed = {key_of(item): drop_unused_fields(item) for item in items}
        before, self.objects, self.version = self.objects, listed, version
        for key, item in before.items():
            if key not in listed or uid_of(listed[key]) != uid_of(item):
                self.on_delete(item, False)
        return _versions(listed) != _versions(before)

    def apply_event(self, line: bytes) -> bool:
        """Take one line of a watch; whether an object changed. Raises RelistError when the server asks for a new list,
        or the line is no event."""
        if not line.strip():
            return False
        try:
            event = json.loads(line)
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                raise RelistError(f"{item.get('code')}: {item.get('message', '')}"[:200])
            version = item["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                self.version = version
                return False
            key = key_of(item)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RelistError(f"not a watch event: {line[:80]!r}") from error
        self.version = version
        if kind == "DELETED":
            known = self.objects.pop(key, None)
            self.on_delete(drop_unused_fields(item), True)
            return known is not None
        if (known := self.objects.get(key)) is not None and uid_of(known) != uid_of(item):
            self.on_delete(known, False)
        self.objects[key] = drop_unused_fields(item)
        return True


def _versions(objects: Mapping[ObjectKey, Object]) -> dict[ObjectKey, tuple[str, Any]]:
    return {key: (uid_of(item), item["metadata"].get("resourceVersion")) for key, item in objects.items()}


@dataclass(slots=True)
class WatchHealth:
    """How far the cache of one informer can be trusted. problem: empty while list and watch work."""

    is_synced: bool = False
    is_served: bool = True
    problem: str = ""
    last_event: float = 0.0
    relists: int = 0


class Informer:
    """A thread that keeps the cache of one kind. `wake` is called after every change; readers take `items()`."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        wake: Callable[[], None],
        selector: str = "",
        on_delete: Callable[[Object, bool], None] = lambda item, seen: None,
    ) -> None:
        self.client, self.resource, self.selector, self.wake = client, resource, selector, wake
        self.health = WatchHealth()
        self._cache = ObjectCache(on_delete)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._random = random.Random()  # noqa: S311 (spreads load; nothing secret)
        self._thread = threading.Thread(target=self._run, name=f"watch-{resource.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; a watch in flight is not waited for and ends with the process at the latest."""
        self._stop.set()

    def wait_for_list(self, seconds: float) -> bool:
        """Wait for the first list; whether it came, or turned out to be impossible, within so many seconds."""
        return self._ready.wait(seconds)

    def items(self) -> dict[ObjectKey, Object]:
        """The objects as they are now; they must not be changed."""
        with self._lock:
            return dict(self._cache.objects)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self._list_and_watch()
                failures = 0
            except (Forbidden, NotFound, Unauthorized) as error:
                self._record_failure(error, is_served=not isinstance(error, NotFound))
                self._ready.set()
                self._stop.wait(UNAVAILABLE_RETRY * self._random.uniform(0.5, 1.0))
            except (ApiError, RelistError) as error:
                failures = 0 if isinstance(error, (Gone, RelistError)) and failures == 0 else failures + 1
                self._record_failure(error)
                least = error.after if isinstance(error, Retry) and failures > 1 else 0.0
                self._stop.wait(least + self._random.uniform(0, min(BACKOFF[1], BACKOFF[0] * 2**failures)))

    def _record_failure(self, error: Exception, is_served: bool = True) -> None:
        """Note why the watch begins again. A relist that the protocol asks for is no problem. A kind that is not served
        is empty, which is no problem either."""
        self.health.relists += 1
        self.health.is_served = is_served
        if not is_served:
            with self._lock:
                self._cache.replace_objects((), "")
            self.health.is_synced, self.health.problem = True, ""
        elif not isinstance(error, (Gone, RelistError)):
            self.health.is_synced, self.health.problem = False, str(error)
        log.info("watch begins again", extra={"resource": self.resource.plural, "reason": str(error)[:300]})
        self.wake()

    def _list_and_watch(self) -> None:
        """One list, then watches that resume one another until it is time to list again."""
        items, version = self.client.list(self.resource, selector=self.selector)
        with self._lock:
            changed = self._cache.replace_objects(items, version)
        was_synced = self.health.is_synced
        self.health.is_synced, self.health.is_served, self.health.problem = True, True, ""
        self.health.last_event = time.monotonic()
        self._ready.set()
        if changed or not was_synced:
            self.wake()
        until = time.monotonic() + RELIST_SECONDS * self._random.uniform(0.9, 1.1)
        while not self._stop.is_set() and time.monotonic() < until:
            self._watch_once()

    def _watch_once(self) -> None:
        for line in self.client.watch(
            self.resource, self._cache.version, self._random.randint(*WATCH_SECONDS), self.selector
        ):
            if self._stop.is_set():
                return
            with self._lock:
                changed = self._cache.apply_event(line)
            self.health.last_event = time.monotonic()
            if changed:
                self.wake()
