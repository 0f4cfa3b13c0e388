"""Whose pods Volcano's actions preempt and reclaim evict, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.problem import Policy, Queue
from solver.simulation.measures import usage
from solver.simulation.replay import Run, Simulation
from solver.simulation.volcano.evictions import Evictions, ReclaimRules
from solver.simulation.volcano.policy import Volcano
from solver.simulation.workload import SECOND, Job, Plugin, VolcanoScheduler, Workload
from tests.builders.beside import beside
from tests.builders.replays import assert_replay
from tests.builders.simulations import job, machines, replay, workload
from tests.unit.solver.simulation.volcano.test_policy import configured, divided, in_queue, queue

CASES = beside(__file__)


@pytest.mark.parametrize("case", CASES)
def test_replay(case: str) -> None:
    assert_replay(CASES[case])


BREAKABLE = Plugin("gang", flags={"enablePreemptable": False, "enableReclaimable": False})
PREEMPT = configured("priority", BREAKABLE, actions=("allocate", "preempt"))
PROPORTION, CAPACITY = (
    configured("priority", BREAKABLE, plugin, actions=("allocate", "reclaim")) for plugin in ("proportion", "capacity")
)


def runs(world: Workload) -> dict[str, Run]:
    """Job -> what came of it."""
    return dict(zip((job.name for job in world.jobs), replay("volcano", world).runs, strict=True))


def evicted(world: Workload) -> set[str]:
    return {name for name, run in runs(world).items() if run.restarts}


def preempting(*jobs: Job, nodes: int = 2, gpus: int = 1, scheduler: VolcanoScheduler = PREEMPT) -> Workload:
    return replace(workload(machines(nodes, gpus), *jobs), scheduler=scheduler)


LOW, HIGH = job("low", size=2, runs=10), job("high", runs=3, at=2, priority=9)


def test_a_gang_goes_whole_for_one_of_higher_priority_and_starts_again_from_the_beginning() -> None:
    """`high` has pods at 3 and starts at 4; `low`, which comes again at 3, has pods at 5."""
    world = preempting(LOW, HIGH)
    found = runs(world)
    assert {name: (run.start or 0) // SECOND for name, run in found.items()} == {"high": 4, "low": 7}
    assert found["low"] == Run(7 * SECOND, 17 * SECOND, found["low"].holds, restarts=1, lost=2 * SECOND)
    used = usage(replay("volcano", world))
    assert (used.restarts, used.lost) == (1, 4 * SECOND)


def test_the_lowest_priority_goes_first_then_the_youngest_and_no_more_than_needed() -> None:
    low = [job(f"j{at}", runs=20, at=at, priority=priority) for at, priority in enumerate((1, 0, 0, 2))]
    first = job("high", runs=3, at=8, priority=9)
    assert evicted(preempting(*low, first, nodes=1, gpus=4)) == {"j2"}
    assert evicted(preempting(*low, replace(first, role=replace(first.role, request=(3,))), nodes=1, gpus=4)) == {
        "j0",
        "j1",
        "j2",
    }


def sharing(scheduler: VolcanoScheduler, queues: list[Queue], claim: Job, size: int = 1) -> Workload:
    """Four GPUs that jobs of the first queue hold when the second asks for some."""
    policy = Policy(proportion=True) if scheduler == PROPORTION else Policy(capacity=True)
    low = [job(f"a{n}", size=size, runs=10) for n in range(4 // size)]
    return divided(4, policy, scheduler, queues, *low, in_queue(1, claim))


CLAIM = job("claim", size=2, runs=5, at=3)


@pytest.mark.parametrize(
    ("scheduler", "queues", "went"),
    [
        (PROPORTION, [queue("a"), queue("b")], 2),
        (PROPORTION, [queue("a", weight=3), queue("b")], 0),
        (PROPORTION, [queue("a", reclaimable=False), queue("b")], 0),
        (CAPACITY, [queue("a", 2), queue("b", 2)], 2),
        (CAPACITY, [queue("a", 3), queue("b", 1)], 0),
        (CAPACITY, [queue("a", 3), queue("b", 2)], 0),
        (CAPACITY, [queue("a"), queue("b", 2)], 2),
        (CAPACITY, [queue("a"), queue("b")], 0),
        (CAPACITY, [queue("a", 2, guarantee=(3,)), queue("b", 2)], 0),
    ],
)
def test_a_queue_takes_back_what_it_deserves_from_one_that_holds_more(
    scheduler: VolcanoScheduler, queues: list[Queue], went: int
) -> None:
    assert len(evicted(sharing(scheduler, queues, CLAIM))) == went


def test_a_gang_is_reclaimed_whole_although_its_queue_then_holds_less_than_it_deserves() -> None:
    assert evicted(sharing(CAPACITY, [queue("a", 3), queue("b", 1)], replace(CLAIM, role=job("", runs=1).role), 4))


def test_without_the_plugins_rules_more_would_be_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutations of the model that the cases above tell apart."""
    entitled = sharing(CAPACITY, [queue("a", 3), queue("b", 1)], CLAIM)
    with monkeypatch.context() as patch:
        patch.setattr(ReclaimRules, "may_reclaim", lambda *_: True)
        patch.setattr(ReclaimRules, "_has_to_spare", lambda *_: True)
        assert evicted(entitled)

    with monkeypatch.context() as patch:
        patch.setattr(Evictions, "_released", lambda *asked: asked[-1])
        assert evicted(preempting(LOW, replace(HIGH, priority=0)))


def test_who_was_evicted_often_enough_is_evicted_no_more() -> None:
    high = [job(f"high{at}", runs=2, at=6 * at + 3, priority=9) for at in range(4)]
    world = preempting(job("low", size=2, runs=9), *high)
    assert runs(world)["low"].restarts == 4
    assert Simulation(world, Volcano(world, most_evictions=2)).run().runs[0].restarts == 2
