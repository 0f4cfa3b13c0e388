"""One replica acts: on a clock of its own, whatever happens to the wire."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.cluster.client import Client, LostLease, Retry
from reconciler.cluster.lease import Fence, Lease, vacancy
from reconciler.timings import TIMINGS, ClientTimings, LeaseTimings
from tests.builders.scripted_server import Script, ScriptedAnswer, ScriptedServer, error_answer

OFTEN = LeaseTimings(period=0.01)


class Kept:
    """The one Lease object, with resource versions; `down` cuts the wire."""

    def __init__(self) -> None:
        self.thing: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.now = 0.0

    def script(self, method: str, path: str, body: Any) -> ScriptedAnswer:
        if self.down:
            return error_answer(503)
        if self.thing is None and method != "POST":
            return error_answer(404)
        if method == "GET":
            return ScriptedAnswer(200, self.thing)
        if self.thing and body["metadata"].get("resourceVersion") != self.thing["metadata"]["resourceVersion"]:
            return error_answer(409)
        self.version += 1
        self.thing = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return ScriptedAnswer(200, self.thing)

    def lease(self, identity: str, timings: LeaseTimings = TIMINGS.lease, script: Script | None = None) -> Lease:
        client = ScriptedServer(script or self.script).client()
        return Lease(client, "gangplan-system", "gangplan-test", identity, timings, lambda: self.now)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def one(kept: Kept) -> Lease:
    return kept.lease("one")


@pytest.fixture
def two(kept: Kept) -> Lease:
    return kept.lease("two")


def test_the_first_takes_it_and_the_second_waits_until_it_was_not_renewed_for_its_duration(
    kept: Kept, one: Lease, two: Lease
) -> None:
    assert one.try_acquire()
    assert not two.try_acquire()
    kept.now = 9
    assert one.try_acquire(), "the wait of others begins again"
    kept.now, kept.down = 18, True
    with pytest.raises(Retry):
        one.try_acquire()
    assert one.is_held()
    kept.now, kept.down = 19, False
    assert not one.is_held(), "the holder stops before anybody else may begin"
    assert not two.try_acquire()
    kept.now = 33
    assert not two.try_acquire()
    kept.now = 35
    assert two.try_acquire()
    assert two.is_held()


def test_a_restart_goes_on_at_once_and_what_was_given_back_is_taken_at_once(kept: Kept, one: Lease, two: Lease) -> None:
    kept.lease("one").try_acquire()
    assert one.try_acquire()
    one.release()
    assert not one.is_held()
    assert two.try_acquire()


def test_of_two_writers_one_loses(kept: Kept, one: Lease, two: Lease) -> None:
    one.try_acquire()
    one.release()
    inner = kept.script

    def meanwhile(method: str, path: str, body: Any) -> ScriptedAnswer:
        if method == "PUT":
            kept.script = inner  # type: ignore[method-assign]
            assert one.try_acquire()
        return inner(method, path, body)

    two.client = ScriptedServer(meanwhile).client()
    assert not two.try_acquire()
    assert (one.is_held(), two.is_held()) == (True, False)


@pytest.mark.parametrize(("period", "deadline", "duration"), [(2, 15, 15), (10, 10, 15), (0, 10, 15)])
def test_timings_under_which_two_could_hold_it_are_refused(period: float, deadline: float, duration: float) -> None:
    with pytest.raises(ValueError, match="period < deadline < duration"):
        Kept().lease("one", LeaseTimings(duration, deadline, period))


def test_a_lease_that_was_lost_and_won_again_does_not_open_the_fence_again(kept: Kept, one: Lease, two: Lease) -> None:
    one.try_acquire()
    fence = Fence(one)
    fence.enter()
    fence.check()
    kept.now = 5
    two.try_acquire()
    kept.now = 21
    assert two.try_acquire()
    two.release()
    assert one.try_acquire()
    with pytest.raises(LostLease):
        fence.check()
    assert fence.enter() > 1
    fence.check()


@pytest.mark.parametrize("seconds", [0.5, 2.5, 3.9])
def test_a_server_that_is_slow_to_answer_loses_no_lease(kept: Kept, seconds: float) -> None:
    """At 2 s an answer the lease was lost and won again and again, since each renewal was two requests."""
    held: list[bool] = []

    def answer_late(method: str, path: str, body: Any) -> ScriptedAnswer:
        kept.now += seconds
        held.append(lease.is_held())
        return kept.script(method, path, body)

    lease = kept.lease("one", script=answer_late)
    for _ in range(10):
        kept.now += lease._renew()
        assert lease.is_held()
    assert all(held[2:]), "without a break"


def test_a_lease_that_cannot_be_had_for_long_is_told_until_it_can(kept: Kept, one: Lease) -> None:
    """Without the right to leases a replica did nothing and looked well: who holds none writes no status."""
    kept.down = True
    for kept.now in range(0, 17, 2):
        one._renew()
        assert bool(one.obstacle()) == (kept.now > one.timings.duration)
    assert "503" in one.obstacle()
    kept.down = False
    one._renew()
    assert not one.obstacle()


def test_a_server_that_asks_to_wait_for_minutes_is_asked_for_the_lease_all_the_same(kept: Kept) -> None:
    """A leader that obeys such an answer once leaves the cluster to nobody for as long."""
    asked = 0

    def throttle_once(method: str, path: str, body: Any) -> ScriptedAnswer:
        nonlocal asked
        asked += method == "PUT"
        return error_answer(429, headers={"Retry-After": "300"}) if asked == 1 else kept.script(method, path, body)

    one = Lease(ScriptedServer(throttle_once).client(), "gangplan-system", "gangplan-test", "one", OFTEN)
    assert one.try_acquire()
    with pytest.raises(Retry):
        one.try_acquire()
    time.sleep(0.02)
    assert one.try_acquire()


@pytest.mark.parametrize(
    ("holder", "minutes", "is_vacant"),
    [("one", 0, False), ("one", 1, False), ("one", 2, True), ("one", -5, False), ("", 0, True)],
)
def test_a_lease_that_nobody_renews_is_told(holder: str, minutes: int, is_vacant: bool) -> None:
    """The status looked as if all were well."""
    renewed = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-02T12:00:00.000000Z"}
    assert bool(vacancy({"spec": spec}, renewed + timedelta(minutes=minutes))) == is_vacant
    assert vacancy({"spec": {**spec, "renewTime": None}}, renewed) == vacancy({}, renewed) == ""


def test_one_request_that_hangs_loses_no_lease(one: Lease) -> None:
    assert one.timings.period + 2 * one.client.timings.request.total <= one.timings.deadline


def test_a_credential_plugin_that_hangs_loses_no_lease(kept: Kept) -> None:
    """After one broken connection the lease's thread waited half a minute for the plugin, and had good credentials."""
    gate, servers = threading.Event(), list[ScriptedServer]()

    def connect() -> ScriptedServer:
        if servers:
            assert threading.current_thread() is not threading.main_thread(), "the lease's thread waits for it"
            gate.wait()
        servers.append(ScriptedServer(kept.script))
        return servers[-1]

    def cut(method: str, path: str, body: Any) -> ScriptedAnswer:
        raise ConnectionResetError("the wire was cut")

    client, timings = Client(connect, ClientTimings(reconnect=0.0)), LeaseTimings(0.3, 0.2, 0.1)
    one = Lease(client, "n", "l", "one", timings, clock=lambda: kept.now)
    assert one.try_acquire()
    servers[0].script = cut
    with pytest.raises(Retry):
        one.try_acquire()
    servers[0].script = kept.script
    kept.now = 0.15
    assert one.try_acquire(), "by the former connection"
    gate.set()
    while len(servers) < 2:
        time.sleep(0.001)
    servers[0].script = cut
    with pytest.raises(Retry):
        one.try_acquire()
    assert one.try_acquire(), "and by the new one as soon as it is there"
    assert servers[1].requests or servers[2].requests


def test_a_renewal_of_which_the_answer_was_lost_is_followed_by_another(kept: Kept) -> None:
    cut = True

    def lose_answer(method: str, path: str, body: Any) -> ScriptedAnswer:
        answer = kept.script(method, path, body)
        return error_answer(500) if method == "PUT" and cut else answer

    one = kept.lease("one", script=lose_answer)
    one.try_acquire()
    with pytest.raises(Retry):
        one.try_acquire()
    cut, kept.now = False, 8
    assert one.try_acquire()
    kept.now = 17
    assert one.is_held()
    assert one.transitions == 1


def test_a_lease_that_somebody_deletes_is_made_again(kept: Kept) -> None:
    one = kept.lease("one")
    one.try_acquire()
    kept.thing = None
    assert one.try_acquire()
    assert kept.thing is not None


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no clock that counts sleep")
def test_a_lease_that_is_deleted_under_its_holder_is_no_vacancy(kept: Kept, one: Lease, two: Lease) -> None:
    """The other replica made a new one at once, and two led until the holder's next renewal."""
    one.try_acquire()
    assert not two.try_acquire()
    kept.thing, kept.now = None, 5
    assert not two.try_acquire()
    assert one.is_held()
    assert one.try_acquire()
    assert one.transitions == 2, "what was seen before rests on a lease that is gone"
    assert not two.try_acquire()
    kept.thing, kept.now = None, 10
    assert not two.try_acquire()
    kept.now = 24
    assert not two.try_acquire()
    kept.now = 25
    assert two.try_acquire()
    assert not one.is_held()


def test_the_clock_counts_what_the_machine_sleeps(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two replicas the holder's machine was suspended for a minute. No other clock of Python's counts that, and
    on a machine that was never suspended all of them show the same."""
    awake, asleep = time.monotonic, 0.0

    def read(clock: int) -> float:
        return awake() + (asleep if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", read)
    one = Lease(ScriptedServer(kept.script).client(), "gangplan-system", "gangplan-test", "one")
    assert one.try_acquire()
    assert one.is_held()
    asleep = 60.0
    assert not one.is_held()
