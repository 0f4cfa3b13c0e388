"""Writers take turns, and all of them wait when the server asks one to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from reconciler.cluster.client import Retry
from reconciler.cluster.objects import Ref
from reconciler.cluster.rate import RateLimit
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


def test_an_eviction_that_its_budget_refuses_makes_no_other_write_wait() -> None:
    cluster = FakeCluster()
    answers = iter([error_answer(429, headers={"Retry-After": "20"})])
    cluster.before = lambda method, path, body: next(answers, None)
    client = cluster.client()
    with pytest.raises(Retry):
        client.evict(Ref("v1", "Pod", "default", "p"), "uid")
    client.evict(Ref("v1", "Pod", "default", "q"), "uid")
