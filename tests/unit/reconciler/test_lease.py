"""One replica acts: on a clock of its own, whatever happens to the wire."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.kube import Retry
from reconciler.lease import Lease
from tests.unit.reconciler.scripted import Answer, Server, refusal


class Kept:
    """The one Lease object, with resource versions; `down` cuts the wire."""

    def __init__(self) -> None:
        self.thing: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.now = 0.0

    def script(self, method: str, path: str, body: Any) -> Answer:
        if self.down:
            return refusal(503)
        if method == "GET":
            return Answer(200, self.thing) if self.thing else refusal(404)
        stale = (
            self.thing is not None
            and body["metadata"].get("resourceVersion") != self.thing["metadata"]["resourceVersion"]
        )
        if stale:
            return refusal(409)
        self.version += 1
        self.thing = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return Answer(200, self.thing)

    def lease(self, identity: str) -> Lease:
        return Lease(Server(self.script).client(), "gangplan-system", "gangplan-test", identity, clock=lambda: self.now)


def test_the_first_takes_it_and_the_second_waits_until_it_was_not_renewed_for_its_duration() -> None:
    kept = Kept()
    one, two = kept.lease("one"), kept.lease("two")
    assert one.attempt()
    assert not two.attempt()
    kept.now = 14
    assert not two.attempt()
    assert not one.held(), "the holder stops before anybody else may begin"
    kept.now = 16
    assert two.attempt()
    assert two.held()


def test_a_renewal_starts_the_others_wait_again() -> None:
    kept = Kept()
    one, two = kept.lease("one"), kept.lease("two")
    one.attempt()
    two.attempt()
    kept.now = 9
    assert one.attempt()
    kept.now = 16
    assert not two.attempt()


def test_a_holder_that_cannot_renew_stops_in_time() -> None:
    kept = Kept()
    one = kept.lease("one")
    one.attempt()
    kept.down = True
    kept.now = 5
    with pytest.raises(Retry):
        one.attempt()
    assert one.held()
    kept.now = 10
    assert not one.held()


def test_the_same_identity_goes_on_at_once_after_a_restart() -> None:
    kept = Kept()
    kept.lease("one").attempt()
    assert kept.lease("one").attempt()


def test_what_was_given_back_is_taken_at_once() -> None:
    kept = Kept()
    one, two = kept.lease("one"), kept.lease("two")
    one.attempt()
    one.release()
    assert not one.held()
    assert two.attempt()


def test_of_two_writers_one_loses() -> None:
    kept = Kept()
    one, two = kept.lease("one"), kept.lease("two")
    one.attempt()
    one.release()
    inner = kept.script

    def meanwhile(method: str, path: str, body: Any) -> Answer:
        if method == "PUT":
            kept.script = inner  # type: ignore[method-assign]
            assert one.attempt()
        return inner(method, path, body)

    two.client = Server(meanwhile).client()
    assert not two.attempt()
    assert one.held()
    assert not two.held()


@pytest.mark.parametrize(("period", "deadline", "duration"), [(2, 15, 15), (10, 10, 15), (0, 10, 15)])
def test_timings_under_which_two_could_hold_it_are_refused(period: float, deadline: float, duration: float) -> None:
    with pytest.raises(ValueError, match="period < deadline < duration"):
        Lease(
            Server(lambda *_: Answer(200, {})).client(),
            "n",
            "l",
            "one",
            period=period,
            deadline=deadline,
            duration=duration,
        )
