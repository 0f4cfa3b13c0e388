"""List and watch: a cache of the objects of one kind that reports when it cannot be trusted.

`ObjectCache` is the protocol's state and knows no IO; `Informer` is the thread that lists, watches and feeds it: LIST
in pages, WATCH from its resource version with bookmarks, resume after an ordinary end, list again after 410, an error
event or a silence, back off with jitter from whatever fails or ends at once, and list again now and then in any case.

An error is never an empty set. The last list stays known, as stale, whatever the server answers later. Only a kind that
was never served is assumed to be empty, and only once it has answered 404 for a while: an API server that has just
started answers 404 for custom resources, and 403 until it has read its roles.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from operator import itemgetter
from typing import Any

from compiler.cluster_state.soundness import Fault, SoundObjects, held_out
from compiler.kubernetes import CLUSTER_LABEL, MAPPING_TYPES, labels_of, uid_of
from reconciler.cluster.client import (
    ApiError,
    Client,
    Forbidden,
    Gone,
    NotFound,
    Retry,
    Silent,
    Unauthorized,
    short_error,
)
from reconciler.cluster.objects import Object, Resource, group_kind_of, version_as_number
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.threads.rest import doubled
from reconciler.timings import TIMINGS, WatchTimings

log = logging.getLogger(__name__)

ObjectKey = tuple[str, str]
"""(namespace, name)."""


class RelistError(Exception):
    """The watch cannot go on from where it was."""


def key_of(item: Object) -> ObjectKey:
    meta = item["metadata"]
    return str(meta.get("namespace") or ""), str(meta["name"])


def drop_unused_fields(item: Object) -> Object:
    """Remove data that is never read: managedFields of objects without our label. Ours show who wrote which field."""
    labels = labels_of(item)
    if not isinstance(labels, MAPPING_TYPES) or CLUSTER_LABEL not in labels:
        item["metadata"]["managedFields"] = []
    return item


@dataclass(frozen=True, slots=True)
class HeldOut:
    """An object on which passes fail. item: as it can be read. reasons: how each failed. until: on the clock."""

    item: Object
    reasons: tuple[Fault, ...]
    until: float

    def substitute(self) -> Object:
        """Return the replacement for the faulty object: after its second failure without labels and annotations too."""
        return held_out(self.item, is_bare=len(self.reasons) > 1)


@dataclass(slots=True)
class ObjectCache:
    """Objects of one kind by (namespace, name), replaced and never changed in place, so a reader may keep them.

    Each is as it can be read (`compiler.cluster_state.soundness`). faults: what cannot be read of some.
    on_delete: called with the last state of each object that a DELETED event or a relist took away, and whether the
    deletion itself was seen. updated: what the last event made of an object that was there before, by its uid. held: by
    the uid of objects that are held out.
    """

    on_delete: Callable[[Object, bool], None] = lambda item, seen: None
    objects: dict[ObjectKey, Object] = field(default_factory=dict)
    version: str = ""
    changes: int = 0
    updated: Object | None = None
    faults: dict[ObjectKey, tuple[Fault, ...]] = field(default_factory=dict)
    sound: SoundObjects = field(default_factory=SoundObjects)
    held: dict[str, HeldOut] = field(default_factory=dict)

    def replace_objects(self, items: Iterable[Object], version: str) -> bool:
        """Replace the objects by a new list, and return whether they differ."""
        listed = {key_of(item): self._taken_in(item) for item in items}
        before, self.objects, self.version = self.objects, listed, version
        self.faults = {key: faults for key, faults in self.faults.items() if key in listed}
        self.changes += 1
        for key, item in before.items():
            if key not in listed or uid_of(listed[key]) != uid_of(item):
                self.on_delete(self._last_state(item), False)
        return _versions(listed) != _versions(before)

    def apply_event(self, line: bytes) -> bool:
        """Apply one line of a watch, and return whether an object changed. Raises RelistError for an error or an
        invalid event."""
        self.updated = None
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
        self.changes += 1
        known = self.objects.pop(key, None) if kind == "DELETED" else self.objects.get(key)
        item = self._taken_in(item)
        if kind == "DELETED":
            self.faults.pop(key, None)
            self.on_delete(self._last_state(item), True)
            return known is not None
        self.objects[key] = item
        if known is not None and uid_of(known) == uid_of(item):
            self.updated = item
        elif known is not None:
            self.on_delete(self._last_state(known), False)
        return True

    def hold_out(self, key: ObjectKey, uid: str, reason: Fault, until: float) -> bool:
        """Hold out an object on which a pass fails; False where it is not there, or cannot be held out any further."""
        item = self.objects.get(key)
        if item is None or uid not in ("", uid_of(item)):
            return False
        former = self.held.get(uid_of(item), HeldOut(item, (), until))
        if len(former.reasons) > 1:
            return False
        self.held[uid_of(item)] = HeldOut(former.item, (*former.reasons, reason), until)
        self._take_again(former.item)
        return True

    def try_again(self, now: float) -> None:
        """End the holds that have lasted until now."""
        for uid in [uid for uid, held in self.held.items() if held.until <= now]:
            self._take_again(self.held.pop(uid).item)

    def _take_again(self, item: Object) -> None:
        self.objects[key_of(item)] = self._taken_in(item)
        self.changes += 1

    def _last_state(self, item: Object) -> Object:
        """Return the last state of a deleted object, which is held out no longer."""
        held = self.held.pop(uid_of(item), None)
        return item if held is None else held.item

    def _taken_in(self, item: Object) -> Object:
        """Return the object as it can be read; the one that is known where it is the same."""
        item, key = drop_unused_fields(item), key_of(item)
        known = self.objects.get(key)
        self.faults.pop(key, None)
        if known == item and uid_of(item) not in self.held:  # it is unchanged and not held out
            return known
        sound, faults = self.sound.look_at(item)
        if (held := self.held.get(uid_of(item))) is not None:
            held = self.held[uid_of(item)] = replace(held, item=dict(sound))
            sound, faults = held.substitute(), (*held.reasons, *faults)
        if faults:
            self.faults[key] = faults
        return dict(sound) if sound is not item else item


def _versions(objects: Mapping[ObjectKey, Object]) -> dict[ObjectKey, tuple[str, Any]]:
    return {key: (uid_of(item), item["metadata"].get("resourceVersion")) for key, item in objects.items()}


@dataclass(slots=True)
class WatchHealth:
    """How far the cache of one informer can be trusted.

    is_synced: a list was read, and is followed by a watch. is_served: False for a kind that the cluster does not have.
    was_served: it is known to have been served once. is_withdrawn: it answers 404, and discovery does not show it, as
    when its definition was deleted. problem: empty while list and watch work. last_event: when the last event or list
    arrived; until then, when the informer was created.
    """

    is_synced: bool = False
    is_served: bool = True
    was_served: bool = False
    is_withdrawn: bool = False
    problem: str = ""
    last_event: float = 0.0

    def record_list(self, now: float) -> None:
        """Note that a list has arrived, and a watch follows."""
        self.is_synced, self.is_served, self.was_served, self.is_withdrawn = True, True, True, False
        self.problem, self.last_event = "", now

    def record_event(self, now: float) -> None:
        self.last_event = now

    def record_problem(self, message: str, is_withdrawn: bool) -> None:
        """Note that the kind cannot be read now, although it is served as far as is known."""
        self.is_synced, self.is_served, self.problem, self.is_withdrawn = False, True, message, is_withdrawn

    def record_unserved(self) -> None:
        """Note that the cluster does not have the kind."""
        self.is_synced, self.is_served, self.was_served, self.is_withdrawn = True, False, False, False
        self.problem = ""

    def expect_served(self) -> None:
        """Take the kind for one that was served before."""
        self.was_served = True

    def note_discovery(self, is_shown: bool) -> None:
        """Note whether discovery shows the kind, which answers 404."""
        self.is_withdrawn = self.was_served and not is_shown


class Informer:
    """A thread that keeps the cache of one kind. `wake` is called after every change, but for updates of objects where
    `on_update` takes these; readers take `items()`."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        wake: Callable[[], None],
        selector: str = "",
        on_delete: Callable[[Object, bool], None] = lambda item, seen: None,
        clock: Callable[[], float] = time.monotonic,
        on_update: Callable[[Object], None] | None = None,
        timings: WatchTimings = TIMINGS.watch,
    ) -> None:
        self.client, self.resource, self.selector, self.wake, self.clock = client, resource, selector, wake, clock
        self.health = WatchHealth(last_event=clock())
        self.heartbeat = Heartbeat(f"watch-{resource.plural}", timings.heartbeat_limit)
        self.on_update, self.timings = on_update, timings
        self._random = random.Random()  # noqa: S311 (spreads load; nothing secret)
        self.relists, self._cause, self._failures = 0, "", 0
        self._cache = ObjectCache(on_delete)
        self._refused_since: float | None = None
        self._missing_since: float | None = None
        self._is_removed = False
        self._logged_reason = ""
        self._keyed: tuple[int, Mapping[str, Object]] = (-1, {})
        self._sorted_keys: Mapping[ObjectKey, str] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ready = threading.Event()

    def start(self) -> None:
        start_thread(self.follow, self._stop, self.heartbeat)

    def stop(self) -> None:
        """Ask the thread to end; a watch in flight is not waited for and ends with the process at the latest."""
        self._stop.set()

    def wait_for_list(self, seconds: float) -> bool:
        """Wait so many seconds for the first list, and return whether it arrived or proved impossible."""
        return self._ready.wait(seconds)

    def items(self) -> dict[ObjectKey, Object]:
        """Return the objects as last known; they must not be changed."""
        with self._lock:
            return dict(self._cache.objects)

    def item(self, key: ObjectKey) -> Object | None:
        """Return one object as last known."""
        with self._lock:
            return self._cache.objects.get(key)

    def faults(self) -> dict[str, tuple[Fault, ...]]:
        """Return Ref.key of each object that cannot be read as a whole, with what cannot."""
        kind = group_kind_of(self.resource.api_version, self.resource.kind)
        with self._lock:
            return {f"{kind}/{namespace}/{name}": faults for (namespace, name), faults in self._cache.faults.items()}

    def hold_out(self, key: ObjectKey, uid: str, reason: Fault) -> bool:
        """As `ObjectCache.hold_out`, for a while."""
        with self._lock:
            return self._cache.hold_out(key, uid, reason, self.clock() + self.timings.held_out)

    def hold_out_nothing(self) -> None:
        """End all holds."""
        with self._lock:
            self._cache.try_again(inf)

    def version_reached(self) -> int:
        """Return the version of the cluster up to which the cache knows this kind; 0 before the first list."""
        with self._lock:
            return version_as_number(self._cache.version)

    def keyed_items(self) -> Mapping[str, Object]:
        """Return the same by `Ref.key`, in the order of the keys; made once for each state of the cache."""
        with self._lock:
            self._cache.try_again(self.clock())
            if self._keyed[0] == self._cache.changes:
                return self._keyed[1]
            objects = self._cache.objects
            if self._sorted_keys.keys() != objects.keys():  # keys are sorted again only after a creation or deletion
                kind = group_kind_of(self.resource.api_version, self.resource.kind)
                known = {at: key for at, key in self._sorted_keys.items() if at in objects}
                known |= {at: f"{kind}/{at[0]}/{at[1]}" for at in objects if at not in known}
                self._sorted_keys = dict(sorted(known.items(), key=itemgetter(1)))
            self._keyed = self._cache.changes, {key: objects[at] for at, key in self._sorted_keys.items()}
            return self._keyed[1]

    def expect_kind(self) -> None:
        """Take the kind for one that was served before: with objects of ours a 404 does not mean that it is empty."""
        health = self.health
        if health.was_served or self._is_removed:
            return
        health.expect_served()
        if not health.is_served:
            health.record_problem(self._removal_message(), health.is_withdrawn)
            health.note_discovery(self._is_discovered())

    def obstacle(self) -> str:
        """Return why the objects of this kind are not known for certain now; empty when they are."""
        if not self.health.is_served:
            return f"the cluster does not serve {self.resource.kind} in {self.resource.api_version}"
        if self.health.is_synced:
            return ""
        return f"{self.resource.kind} cannot be read: {self.health.problem or 'no list has come yet'}"

    def follow(self) -> float:
        """List and watch until that fails, or is to begin again; seconds to wait before."""
        pause = 0.0
        try:
            self._list_and_watch()
        except (Gone, RelistError, Silent) as error:
            if not isinstance(error, Silent):
                pause = self._next_pause("relist", self.timings.longest_relist_pause)
            self._record_relist(error)
        except (Forbidden, NotFound, Unauthorized) as error:
            pause = self._record_refusal(error)
        except ApiError as error:
            pause = self._next_pause("unreachable", self.timings.longest_pause)
            if isinstance(error, Retry) and self._failures > 1:
                pause = max(pause, min(error.after, self.timings.longest_unavailable_pause))
            self._refused_since = self._missing_since = None
            self._record_problem(error, str(error))
        except Exception as error:
            self.heartbeat.record_error(error)
            pause = self._next_pause("unexpected", self.timings.longest_pause)
            self._record_problem(error, short_error(error))
        return pause

    def _next_pause(self, cause: str, longest: float) -> float:
        """Return the seconds to wait after `cause`: doubled while the same cause repeats, with jitter."""
        self._failures = self._failures + 1 if cause == self._cause else 1
        self._cause = cause
        return doubled(self.timings.first_pause, self._failures - 1, longest) * self._random.uniform(0.5, 1.0)

    def _record_relist(self, error: Exception) -> None:
        """Note that the list is read again, as the protocol asks for. The known objects stay valid until that fails."""
        self.relists += 1
        reason = str(error)[:300]
        level = logging.DEBUG if reason == self._logged_reason else logging.INFO
        self._logged_reason = reason
        log.log(level, "watch begins again", extra={"resource": self.resource.plural, "reason": reason})

    def _record_problem(self, error: Exception, message: str, is_withdrawn: bool = False) -> None:
        self._record_relist(error)
        health = self.health
        is_news = health.is_synced or health.problem != message
        health.record_problem(message, is_withdrawn)
        if is_news:
            self.wake()

    def _record_refusal(self, error: ApiError) -> float:
        """Note a 401, 403 or 404; seconds to wait before the next attempt."""
        now, health = self.clock(), self.health
        self._refused_since = now if self._refused_since is None else self._refused_since
        if not isinstance(error, NotFound):
            self._missing_since = None
            self._record_problem(error, str(error))
            self._ready.set()
        elif self._has_no_objects(now):
            self._record_relist(error)
            was_served, self._is_removed = health.is_served, health.was_served or self._is_removed
            health.record_unserved()
            with self._lock:
                self._cache.replace_objects((), "")
            self._ready.set()
            if was_served:
                self.wake()
        else:
            self._record_absence(error)
        timings = self.timings
        is_new = health.was_served or now - self._refused_since < timings.start
        longest = timings.longest_pause if is_new else timings.longest_unavailable_pause
        return self._next_pause("refused", longest)

    def _record_absence(self, error: ApiError) -> None:
        """Note a 404 that does not prove yet that there are no objects."""
        health = self.health
        was_withdrawn = health.is_withdrawn
        self._record_problem(error, self._removal_message() if health.was_served else str(error), was_withdrawn)
        health.note_discovery(not health.was_served or self._is_discovered())
        if health.is_withdrawn != was_withdrawn:
            self.wake()

    def _has_no_objects(self, now: float) -> bool:
        """Return whether a 404 has lasted long enough to mean that the cluster does not have the kind."""
        self._missing_since = now if self._missing_since is None else self._missing_since
        missing_for = now - self._missing_since
        if not self.health.was_served:
            return missing_for >= self.timings.unserved_after
        return missing_for >= self.timings.removed_after and not self._is_discovered()

    def _removal_message(self) -> str:
        return f"{self.resource.kind} in {self.resource.api_version} was served before and is not now (404)"

    def _is_discovered(self) -> bool:
        """Return whether discovery shows the kind, or cannot be asked."""
        try:
            return self.client.is_served(self.resource)
        except ApiError:
            return True

    def _list_and_watch(self) -> None:
        """One list, then watches that resume one another until it is time to list again."""
        pages = []
        for page in self.client.pages(self.resource, selector=self.selector):
            pages.append(page)
            self.heartbeat.beat()
        items = (item for items, _ in pages for item in items)
        with self._lock:
            changed = self._cache.replace_objects(items, pages[-1][1])
        was_good = self.health.is_synced and self.health.is_served
        self.health.record_list(self.clock())
        self._refused_since = self._missing_since = None
        self._is_removed, self._logged_reason = False, ""
        self._ready.set()
        if changed or not was_good:
            self.wake()
        until = self.clock() + self.timings.relist * self._random.uniform(0.9, 1.1)
        while not self._stop.is_set() and self.clock() < until:
            began = self.clock()
            self._watch_once(began)
            if self.clock() - began < self.timings.stable:
                self._stop.wait(self._next_pause("ends at once", self.timings.longest_relist_pause))
            else:
                self._cause, self._failures = "", 0

    def _watch_once(self, began: float) -> None:
        seconds = self._random.randint(*self.timings.request)
        for line in self.client.watch(self.resource, self._cache.version, seconds, self.selector):
            if self._stop.is_set():
                return
            self.heartbeat.beat()
            with self._lock:
                changed = self._cache.apply_event(line)
                updated = self._cache.updated
            now = self.clock()
            if line.strip():
                self.health.record_event(now)
            if now - began >= self.timings.stable:
                self._cause, self._failures = "", 0
            if updated is not None and self.on_update is not None:
                self.on_update(updated)
            elif changed:
                self.wake()
