"""Gates and evictions that a pass has left: their end is noted and told once. When an eviction is asked for again."""

from __future__ import annotations

import pytest

from compiler.kubernetes import is_terminating
from reconciler.cluster.objects import Object, ref_of
from reconciler.cluster.write_threads import NO_ANSWER
from reconciler.inventory.store import InventoryEntry
from reconciler.pods.departures import EvictionMemory
from reconciler.timings import TIMINGS
from tests.builders.pods import NOTHING, PODS, PORTS, PodsWorld, key_of, live_job, planned, pod
from tests.builders.scripted_server import error_answer

WRITERS = TIMINGS.writes.writers


def hold(world: PodsWorld, name: str, *pods: Object) -> list[Object]:
    """Put a job into the inventory, and its pods into the cluster."""
    job = live_job(name)
    world.inventory.enter(InventoryEntry(ref_of(job), job["metadata"]["uid"]))
    world.put(*pods)
    return [job, *pods]


def has_started(world: PodsWorld, name: str) -> bool:
    return world.inventory.entries[key_of(name)].started


def evict_late(world: PodsWorld) -> tuple[Object, ...]:
    """A pod of a gang that runs is not bound in time, and its eviction has no answer."""
    pods = pod("g", 0, "n1", bound=False, message=PORTS), pod("g", 1, "n2")
    world.hang("/eviction")
    world.plan(planned("g", "start", n1=1, n2=1))
    for world.now in (0.0, 120.0):
        p = world.act(live_job("g"), *pods)
    assert (world.evicted, p.effects.evicted, p.reasons) == (["g-w-0"], (), [])
    assert [change.reason for change in p.effects.held if NO_ANSWER in change.reason], "it is told"
    assert (world.evictor.memory.refused, world.evictor.memory.unseen, world.evictor.broken) == ({}, set(), set())
    return pods


def test_an_eviction_that_is_granted_late_counts_as_any_other(world: PodsWorld) -> None:
    """It counted as refused: the plan took the pod to be there still, and the rest of the gang kept its nodes."""
    pods = evict_late(world)
    assert world.act(live_job("g"), *pods).effects.evicted == ()
    world.let_go()
    world.now += 5
    p = world.act(live_job("g"), *pods)
    assert (p.effects.evicted, p.reasons) == (("Pod default/g-w-0",), ["NotBound"])
    assert world.evictor.broken == {"job-g"}
    assert (world.evictor.memory.refused, [*world.evictor.memory.unseen]) == ({}, ["g-0"])
    assert world.act(live_job("g"), *pods).reasons == [], "once"
    assert world.evicted == ["g-w-0"]
    world.plan(planned("g", "wait", n2=1))
    again = {**pod("g", 0), "metadata": {**pod("g", 0)["metadata"], "uid": "new"}}
    assert world.act(live_job("g"), again, pods[1]).effects.evicted == ("Pod default/g-w-1",)


def test_an_eviction_that_is_refused_late_was_refused_once(world: PodsWorld) -> None:
    pods = evict_late(world)
    world.let_go(error_answer(429, "Cannot evict pod as it would violate its budget"))
    p = world.act(live_job("g"), *pods)
    ((refusals, _, message),) = world.evictor.memory.refused.values()
    assert (refusals, "budget" in message, p.effects.evicted, world.evictor.broken) == (1, True, (), set())


def test_a_gang_of_which_no_gate_was_sent_has_not_started_and_starts_when_others_have_ended(world: PodsWorld) -> None:
    """Another specification of it was held until the end of a run that never began."""
    many = hold(world, "a", *(pod("a", at, asks=NOTHING) for at in range(WRITERS)))
    everything = [*many, *hold(world, "z", pod("z", 0))]

    def patched(name: str) -> int:
        return sum(f"/pods/{name}-w-" in path for _, path in world.cluster.writes)

    world.hang("/a-w-")
    world.plan(planned("a", "start", n1=6, n2=6), planned("z", "start", n3=1))
    for world.now in (0.0, 10.0):
        p = world.act(*everything)
        assert p.unlifted == {key_of("a"): NO_ANSWER, key_of("z"): NO_ANSWER}
        assert (patched("a"), patched("z")) == (WRITERS, 0)
        assert (has_started(world, "a"), has_started(world, "z")) == (True, False)
    world.let_go()
    p = world.act(*everything)
    assert (p.lifted, p.reasons) == ({key_of("a"): WRITERS, key_of("z"): 1}, ["Placed", "Placed"])
    assert (has_started(world, "z"), patched("a")) == (True, WRITERS)


@pytest.mark.parametrize(("status", "counts"), [(403, False), (500, True)])
def test_a_gang_whose_gates_are_refused_late_has_not_started(world: PodsWorld, status: int, counts: bool) -> None:
    """Where an answer says nothing for certain, a pod may be on its way."""
    everything = hold(world, "g", pod("g", 0), pod("g", 1))
    world.hang("/g-w-", "PATCH")
    world.plan(planned("g", "start", n1=2))
    world.act(*everything)
    assert has_started(world, "g"), "while it is under way"
    world.let_go(error_answer(status, "no"))
    before = len(world.cluster.writes)
    p = world.act(*everything)
    assert (has_started(world, "g"), [*p.unlifted]) == (counts, [key_of("g")])
    assert len(world.cluster.writes) == before, "the pass that takes up an answer does not try again"


def test_an_inventory_that_is_read_again_decides_which_gangs_have_started(world: PodsWorld) -> None:
    """Another replica has led meanwhile, and has lifted the gates that we were refused."""
    everything = hold(world, "g", pod("g", 0))
    world.hang("/g-w-", "PATCH")
    world.plan(planned("g", "start", n1=1))
    world.act(*everything)
    world.lifter.believe_starts()
    world.let_go(error_answer(422, "the gate is gone"))
    world.act(*everything)
    assert has_started(world, "g")


def test_a_pass_is_busy_while_a_write_is_under_way_or_a_gate_is_not_lifted(world: PodsWorld) -> None:
    """`--once` ended with 0 in the second pass, while a gate hung: it told of that only after three seconds."""
    everything = hold(world, "g", pod("g", 0), pod("g", 1))
    world.hang("/g-w-0", "PATCH")
    world.plan(planned("g", "start", n1=2))

    def is_idle() -> bool:
        p = world.act(*everything)
        return not (p.lifted or world.part.is_busy() or world.threads.is_any_open())

    for world.now in (0.0, 2.1, 10.0):
        assert not is_idle()
    world.let_go(error_answer(403, "may not patch pods"))
    for world.now in (11.0, 11.1):
        assert is_idle(), "it is told, and may never be over"
    world.now = 20.0
    everything = hold(world, "g", *(world.cluster.objects[f"{PODS}g-w-{at}"] for at in (0, 1)))
    assert not is_idle(), "a gate is lifted"


def test_a_pass_is_busy_until_it_is_told_that_a_gate_cannot_be_lifted(world: PodsWorld) -> None:
    everything = hold(world, "g", pod("g", 0))
    world.cluster.fail(error_answer(403, "no"), "/g-w-0")
    world.plan(planned("g", "start", n1=1))
    for world.now, is_idle in ((0.0, False), (1.0, False), (1.1, False), (5.0, True)):
        world.act(*everything)
        assert world.part.is_busy() != is_idle


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
