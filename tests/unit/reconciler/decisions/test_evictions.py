"""Evictions that a budget refuses are asked for again, with pauses that grow."""

from __future__ import annotations

from reconciler.cluster.objects import Object
from reconciler.decisions.evictions import EvictionMemory

POD: Object = {"metadata": {"name": "p", "uid": "p"}}


def test_a_refused_eviction_waits_twice_as_long_each_time_and_at_least_as_the_server_says() -> None:
    memory = EvictionMemory()
    assert memory.is_due(POD, 0)
    for now, pause in ((0.0, 1.0), (1.0, 2.0), (3.0, 4.0)):
        memory.record_refusal(POD, "budget", 0.5, now)
        assert not memory.is_due(POD, now + pause - 0.1)
        assert memory.is_due(POD, now + pause)
    memory.record_refusal(POD, "budget", 30.0, 7.0)
    assert memory.deadlines() == [37.0]
    memory.forget_others({"q"})
    assert memory.is_due(POD, 8)
