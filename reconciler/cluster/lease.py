"""Leader election: of several replicas the holder of a coordination.k8s.io Lease acts.

Guaranteed: a holder that cannot renew stops calling itself holder after `deadline` seconds of its own monotonic clock.
Another replica becomes holder only after it has seen the lease unchanged for `duration` seconds of *its* own clock.
With deadline < duration the two never overlap, whatever the wall clocks show. The clock counts the time that a machine
sleeps.

Not guaranteed: a write already on the wire when the deadline passes is not called back. So every write asks the `Fence`
first and changes name the uid they are meant for. The inventory carries the lease's transitions and is written with a
resource version before each batch. A late write meets a different object, or is known as an intent
(docs/develop/decisions/0018-fencing.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from reconciler.cluster.client import ApiError, Client, Conflict, LostLease, NotFound, Transport, short_error
from reconciler.cluster.objects import Object, Ref
from reconciler.cluster.rate import RateLimit
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import TIMINGS, LeaseTimings, Limits

log = logging.getLogger(__name__)


def seconds_since_boot() -> float:
    """Return a clock that is never set, and that counts time asleep where the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class BriefConnect:
    """Connects within so many seconds, else by the last connection: a credential plugin may take 30 s, and the lease is
    lost after ten. A later connection serves a later call."""

    def __init__(self, connect: Callable[[], Transport], seconds: float) -> None:
        self.connect, self.seconds = connect, seconds
        self._attempt: Future[Transport] | None = None
        self._last: Transport | None = None

    def __call__(self) -> Transport:
        """Return a new connection, or the last one. Raises the error of `connect`, or TimeoutError, where there is
        none."""
        attempt = self._attempt = self._attempt or self._begin()
        error: BaseException | None = TimeoutError(f"they were not read within {self.seconds:g} s")
        if wait([attempt], self.seconds).done:
            self._attempt, error = None, attempt.exception()
        if error is None:
            self._last = attempt.result()
        elif self._last is None:
            raise error
        else:
            reason = {"reason": short_error(error)}
            log.info("the last connection is used again, since a new one cannot be had", extra=reason)
        return self._last

    def _begin(self) -> Future[Transport]:
        attempt: Future[Transport] = Future()

        def run() -> None:
            try:
                attempt.set_result(self.connect())
            except Exception as error:  # it is raised where somebody waits for it
                attempt.set_exception(error)

        threading.Thread(target=run, name="connect", daemon=True).start()
        return attempt


@dataclass(slots=True)
class Lease:
    """The lease of one cluster, renewed by a thread.

    client: its requests get limits of their own. on_change: called when the lease is won or lost. transitions: of its
    holders, as of the last renewal. trouble: why it could not be asked for, and since when on the clock; no message
    where it could.
    """

    client: Client
    namespace: str
    name: str
    identity: str
    timings: LeaseTimings = TIMINGS.lease
    clock: Callable[[], float] = seconds_since_boot
    on_change: Callable[[bool], None] = lambda held: None
    heartbeat: Heartbeat = field(init=False)
    transitions: int = 0
    trouble: tuple[str, float] = ("", 0.0)
    _was_held: bool = False
    _renewed_at: float | None = None
    _last_seen_version: tuple[str, float] = ("", 0.0)
    _last_holder: str = ""
    _written: Object | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        period, deadline, duration = self.timings.period, self.timings.deadline, self.timings.duration
        if not 0 < period < deadline < duration:
            raise ValueError(f"a lease needs 0 < period < deadline < duration, not {period}, {deadline}, {duration}")
        self.heartbeat = Heartbeat("lease", self.timings.heartbeat_limit)
        seconds = self.timings.request_share * deadline
        limits = Limits(min(2.0, seconds), seconds, seconds)
        connect = BriefConnect(self.client.connect, limits.connect)
        timings = replace(self.client.timings, request=limits)
        self.client = Client(connect, timings, rate=RateLimit(longest=period))

    def is_held(self) -> bool:
        return self._renewed_at is not None and self.clock() - self._renewed_at < self.timings.deadline

    def obstacle(self) -> str:
        """Return why this replica could not lead for a while. The status, which the holder writes, cannot report it."""
        reason, since = self.trouble
        lasts = self.clock() - since
        is_reported = reason and lasts > self.timings.duration
        return f"the lease could not be had for {lasts:.0f} s: {reason}" if is_reported else ""

    def start(self) -> None:
        self._thread = start_thread(self._renew, self._stop, self.heartbeat)

    def release(self) -> None:
        """Stop renewing and give the lease away, so that the next replica need not wait."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.timings.deadline)
        if not self.is_held():
            return
        self._renewed_at = self._written = None
        try:
            current = self.client.get(self._ref)
            if current["spec"].get("holderIdentity") == self.identity:
                current["spec"]["holderIdentity"] = ""
                self.client.replace(current)
        except ApiError as error:
            log.info("the lease was not given back", extra={"reason": str(error)})

    def _renew(self) -> float:
        """Take or renew the lease if that is allowed now; seconds until it is tried again."""
        began_at = self.clock()
        try:
            self.try_acquire()
            self.trouble = "", began_at
        except ApiError as error:
            self.trouble = str(error), self.trouble[1] if self.trouble[0] else began_at
            log.warning("the lease was not renewed", extra={"reason": str(error)})
        finally:
            if (is_held := self.is_held()) != self._was_held:
                self._was_held = is_held
                self.on_change(is_held)
        return max(0.0, began_at + self.timings.period - self.clock())

    def try_acquire(self) -> bool:
        """Take or renew the lease if that is allowed now; whether it is ours. Raises ApiError."""
        if self._written is not None:
            try:
                self._write(self._written)
            except (Conflict, NotFound):  # it was written since, or our answer was lost
                self._written = None
            else:
                return True
        asked_at = self.clock()
        try:
            lease = self.client.get(self._ref)
        except NotFound:
            metadata = {"namespace": self.namespace, "name": self.name}
            lease = {"apiVersion": self._ref.api_version, "kind": "Lease", "metadata": metadata, "spec": {}}
        spec = lease.setdefault("spec", {})
        version = str(lease["metadata"].get("resourceVersion") or "")
        if version != self._last_seen_version[0]:
            self._last_seen_version = (version, asked_at)
        if version:
            self._last_holder = str(spec.get("holderIdentity") or "")
        holder = self._last_holder  # after a deletion its holder leads until it notices
        unchanged_for = asked_at - self._last_seen_version[1]
        duration = float(spec.get("leaseDurationSeconds") or self.timings.duration)
        if holder not in ("", self.identity) and unchanged_for < duration:
            self._renewed_at = None
            return False
        try:
            self._write(lease)
        except Conflict:
            self._renewed_at = None
            return False
        return True

    def _write(self, lease: Object) -> None:
        """Write that it is ours from now on. Its time begins before the request is sent: others count from later."""
        asked_at, now = self.clock(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = lease["spec"]
        if spec.get("holderIdentity") != self.identity:
            transitions = max(int(spec.get("leaseTransitions") or 0), self.transitions) + 1
            spec = {**spec, "acquireTime": now, "leaseTransitions": transitions}
        seconds = int(self.timings.duration)
        spec = {**spec, "holderIdentity": self.identity, "leaseDurationSeconds": seconds, "renewTime": now}
        is_new = not lease["metadata"].get("resourceVersion")
        answer = (self.client.create if is_new else self.client.replace)({**lease, "spec": spec})
        version = str(answer["metadata"]["resourceVersion"])
        self.transitions, self._renewed_at = int(spec.get("leaseTransitions") or 0), asked_at
        self._written = {**lease, "spec": spec, "metadata": {**lease["metadata"], "resourceVersion": version}}
        self._last_seen_version = (version, asked_at)

    @property
    def _ref(self) -> Ref:
        return Ref("coordination.k8s.io/v1", "Lease", self.namespace, self.name)


def vacancy(lease: Object, now: datetime, timings: LeaseTimings = TIMINGS.lease) -> str:
    """Return a sentence if no replica renews the lease; empty if one does, or if that cannot be determined."""
    spec = lease.get("spec") or {}
    try:
        age = (now - datetime.fromisoformat(str(spec["renewTime"]))).total_seconds()
        duration = float(spec.get("leaseDurationSeconds") or timings.duration)
    except (KeyError, TypeError, ValueError):
        return ""
    if spec.get("holderIdentity") and age < duration + timings.clock_slack:
        return ""
    return f"no replica leads, the last one did {max(age, 0.0):.0f} s ago: what follows is as it was then"


@dataclass(slots=True)
class Fence:
    """Asked before each write: lets it pass as long as the lease is held without a break since `enter`."""

    lease: Lease
    term: int = -1

    def enter(self) -> int:
        """Begin to act; the lease's transitions, which the inventory carries from now on."""
        self.term = self.lease.transitions
        return self.term

    def is_open(self) -> bool:
        return self.lease.is_held() and self.lease.transitions == self.term

    def check(self) -> None:
        """Raise LostLease unless this replica led without a break: its writes depend on what it observed as leader."""
        if not self.is_open():
            raise LostLease("another replica holds the lease")
