"""When an eviction is asked for again."""

from __future__ import annotations

from compiler.kubernetes import is_terminating
from reconciler.cluster.objects import Object
from reconciler.pods.departures import EvictionMemory

POD: Object = {"metadata": {"name": "p", "uid": "p"}}


def test_a_refused_eviction_waits_at_least_as_the_server_says_and_is_forgotten_with_its_pod() -> None:
    memory = EvictionMemory()
    memory.record_refusal(POD, "budget", 30.0, 7.0)
    assert memory.deadlines() == [37.0]
    memory.observe([{"metadata": {"name": "q", "uid": "q"}}], [], 8)
    assert memory.is_due(POD, 8)


def test_a_granted_eviction_is_awaited_until_the_watch_shows_it() -> None:
    """A plan made in between would count the pod as running, and evict another in its place."""
    memory = EvictionMemory()
    memory.record_grant(POD)
    memory.observe([POD], [], 101.0)
    assert memory.unseen
    assert not memory.is_due(POD, 101.0), "it was asked for again in each pass"
    ending: Object = {"metadata": {**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    for shown in ([], [ending], [{"metadata": {"name": "p", "uid": "2"}}]):
        memory.record_grant(POD)
        memory.observe(shown, filter(is_terminating, shown), 101.0)
        assert not memory.unseen
    memory.record_grant(POD)
    memory.observe([POD], [], 1000.0)
    assert memory.unseen, "it ends by what the watch shows, never by time"
