"""The part of what operators ask for in a ConfigMap, not in git: leave objects alone for now, run a job again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from compiler.kubernetes import is_suspended
from reconciler.changes.diff import Change
from reconciler.cluster.client import ApiError, Client, Conflict, NotFound
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.part import Part
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import RequestTimings

FORMAT_VERSION = 1
EVERYTHING = "all"
MAX_ATTEMPTS = 5


@dataclass(frozen=True)
class Requests:
    """suspended: `EVERYTHING`, kinds ("Queue", "Job.batch.volcano.sh") and objects (Ref.key). reruns: Ref.key of a job
    -> the digest that is to run again, and the number of that run. retries: Ref.key of a job -> how often an operator
    asked for another round of binding. problems: single requests that cannot be read. The job of such a rerun is
    suspended: which of its runs is to be there is not known."""

    suspended: frozenset[str] = frozenset()
    reruns: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    retries: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def suspends(self, ref: Ref) -> bool:
        return not self.suspended.isdisjoint((EVERYTHING, ref.kind, ref.group_kind, ref.key))

    def with_suspended(self, target: str) -> Requests:
        return replace(self, suspended=self.suspended | {target})

    def with_resumed(self, target: str) -> Requests:
        """`EVERYTHING` resumes all that is suspended."""
        return replace(self, suspended=frozenset() if target == EVERYTHING else self.suspended - {target})

    def with_rerun(self, key: str, digest: str, number: int) -> Requests:
        return replace(self, reruns={**self.reruns, key: (digest, number)})

    def with_retry(self, key: str) -> Requests:
        return replace(self, retries={**self.retries, key: self.retries.get(key, 0) + 1})

    def as_json(self) -> str:
        lists = {"suspended": sorted(self.suspended), "reruns": dict(self.reruns), "retries": dict(self.retries)}
        return json.dumps({"version": FORMAT_VERSION, **lists}, sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Requests:
        """Raises ValueError for a text that holds no requests: an error is never an empty set."""
        try:
            data = json.loads(text)
            if data["version"] > FORMAT_VERSION:
                raise ValueError(f"requests of version {data['version']} are from a newer gangplan")
            reruns, bad_reruns = _readable(data["reruns"], _rerun)
            retries, bad_retries = _readable(data["retries"], int)
            suspended = frozenset(map(str, data["suspended"])).union(bad_reruns)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the requests cannot be read: {error!r}") from error
        bad = [*(f"rerun of {key}" for key in bad_reruns), *(f"retry of {key}" for key in bad_retries)]
        return cls(suspended, reruns, retries, tuple(bad))


Value = TypeVar("Value")


def _rerun(row: Any) -> tuple[str, int]:
    digest, number = row
    return str(digest), int(number)


def _readable(rows: Mapping[str, Any], read: Callable[[Any], Value]) -> tuple[dict[str, Value], list[str]]:
    """Return the rows that can be read, and the keys of the others."""
    found, bad = dict[str, Value](), list[str]()
    for key, row in rows.items():
        try:
            found[key] = read(row)
        except (TypeError, ValueError, OverflowError):
            bad.append(key)
    return found, bad


@dataclass(slots=True)
class RequestStore:
    """Reads and changes the ConfigMap of the requests."""

    client: Client
    namespace: str
    cluster: str

    @property
    def ref(self) -> Ref:
        return Ref("v1", "ConfigMap", self.namespace, f"gangplan-{self.cluster}-requests")

    def read(self) -> Requests:
        """Return the requests; none without a ConfigMap. Raises ApiError, or ValueError for an unreadable one."""
        try:
            return _requests_of(self.client.get(self.ref))
        except NotFound:
            return Requests()

    def change(self, function: Callable[[Requests], Requests]) -> Requests:
        """Replace the requests by what the function makes of them; tried again when another writer was first."""
        for _ in range(MAX_ATTEMPTS - 1):
            with suppress(Conflict):
                return self._change_once(function)
        return self._change_once(function)

    def _change_once(self, function: Callable[[Requests], Requests]) -> Requests:
        metadata: dict[str, object] = {"namespace": self.namespace, "name": self.ref.name}
        known, write = Requests(), self.client.create
        with suppress(NotFound):
            found = self.client.get(self.ref)
            known, write = _requests_of(found), self.client.replace
            if known.problems:
                raise ValueError(f"{_problem_text(known)}. Fix: correct ConfigMap {self.ref.name}")
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        changed = function(known)
        data = {"requests.json": changed.as_json()}
        write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        return changed


def _requests_of(item: Object) -> Requests:
    try:
        return Requests.from_json(item["data"]["requests.json"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        name = item["metadata"].get("name")
        raise ValueError(f"ConfigMap {name} holds no requests: {error!r}. Fix: correct or delete it") from error


def _problem_text(requests: Requests) -> str:
    """Return which requests cannot be read; empty for none."""
    return f"requests that cannot be read: {', '.join(requests.problems)}" if requests.problems else ""


UNREADABLE = Requests(frozenset({EVERYTHING}))
"""Assumed while the operators' requests are unknown: they may have suspended anything."""
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
        """Return the requests as last read; `UNREADABLE` while they never could be parsed. Raises ApiError as long as
        the server never answered."""
        if self._latest is None:
            self._read()
        return self._latest or UNREADABLE

    def poll_once(self) -> float:
        """Read the requests; seconds until the next time."""
        before = self._latest, self.problem
        try:
            self._read()
        except ApiError as error:
            self.problem = f"what operators ask for cannot be read: {error}"
        if (self._latest, self.problem) != before:
            self.wake()
        return self.timings.poll

    def _read(self) -> None:
        """Raises ApiError."""
        try:
            self._latest = self.store.read()
            self.problem = _problem_text(self._latest)
        except ValueError as error:
            until = "" if self._latest else "; until then all is suspended"
            self.problem = f"what operators ask for cannot be read: {error}{until}"

    def suspended_keys(self, objects: Mapping[str, Object]) -> set[str]:
        """Return the suspended objects among these, by Ref.key."""
        requests = self.current()
        return {key for key, item in objects.items() if _is_suspended(requests, item)}

    def suspended_jobs(self, refs: Iterable[Ref]) -> dict[str, str]:
        """Return Ref.key of each job that a request suspends, with why it is not planned."""
        requests = self.current()
        return {ref.key: BY_REQUEST for ref in refs if requests.suspends(ref)} if requests.suspended else {}

    def hold_reason(self, change: Change) -> str:
        """Return why the object of this change must not be deleted or given back; empty if it may."""
        return SUSPENDED if change.live is not None and _is_suspended(self.current(), change.live) else ""


def _is_suspended(requests: Requests, item: Object) -> bool:
    """Return whether the annotation of an object, in git or in the cluster, or an operator's request suspends it."""
    by_annotation = is_suspended(item)
    return by_annotation or (bool(requests.suspended) and requests.suspends(ref_of(item)))
