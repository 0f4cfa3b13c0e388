"""Writers take turns, and all of them wait when the server asks one to."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import pytest

from reconciler.cluster.client import NotFound, Retry
from reconciler.cluster.objects import Ref
from reconciler.cluster.rate import RateLimit
from reconciler.timings import TIMINGS
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer


@dataclass
class Clock:
    now: float = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def limit(self, rate: float, burst: float) -> RateLimit:
        return RateLimit(rate, burst, lambda: self.now, self.sleep)


def test_a_burst_passes_at_once_and_then_so_many_a_second() -> None:
    clock = Clock()
    limit = clock.limit(10, 5)
    for _ in range(5):
        assert limit.take_turn() == 0.0
    assert clock.now == 100.0
    for _ in range(20):
        assert limit.take_turn() == 0.0
    assert clock.now == pytest.approx(102.0)


def test_a_request_that_would_wait_too_long_learns_how_long() -> None:
    clock = Clock()
    limit = clock.limit(10, 5)
    limit.pause(30)
    assert limit.take_turn() == 30.0
    assert clock.now == 100.0
    clock.now += 29.5
    assert limit.take_turn() == 0.0
    assert clock.now == 130.0


def test_a_server_that_asks_to_wait_gets_nothing_more_until_then() -> None:
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: error_answer(429, headers={"Retry-After": "20"})
    client = cluster.client()
    clock = Clock()
    client.rate = clock.limit(10, 5)
    for _ in range(4):
        with pytest.raises(Retry) as refused:
            client.delete(Ref("v1", "ConfigMap", "default", "c"), "uid")
        assert refused.value.after == 20.0
    assert len(cluster.requests) == 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [("ConfigMap", 'admission webhook "slow.example.com" denied the request: come back later'), ("Pod", "its budget")],
)
def test_what_a_webhook_refuses_makes_no_other_write_wait(kind: str, message: str) -> None:
    """It may name 429 and five minutes for one object: nothing at all was written then for that long. So does the
    budget of an eviction."""
    cluster = FakeCluster()
    answers = iter([error_answer(429, message, headers={"Retry-After": "300"})])
    cluster.before = lambda method, path, body: next(answers, None)
    client = cluster.client()
    write = client.evict if kind == "Pod" else client.delete
    with pytest.raises(Retry) as refused:
        write(Ref("v1", kind, "default", "c"), "uid")
    assert refused.value.after == 300.0
    with nullcontext() if kind == "Pod" else pytest.raises(NotFound):
        write(Ref("v1", kind, "default", "d"), "uid")


def test_one_object_does_not_make_all_wait_for_minutes() -> None:
    clock = Clock()
    limit = clock.limit(10, 5)
    limit.pause(300, "/one")
    assert limit.take_turn("/one") == 300
    assert (limit.take_turn("/two"), clock.now) == (0.0, 100 + TIMINGS.rate.first_pause)
    limit.pause(300, "/two")
    assert limit.take_turn("/three") == TIMINGS.rate.longest_pause, "it asks whatever it is asked about"
