"""Whose pods Volcano's actions preempt and reclaim evict, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.problem import Policy, Queue
from solver.simulation.measures import usage
from solver.simulation.replay import Run, Simulation
from solver.simulation.volcano.evictions import Evictions, ReclaimRules
from solver.simulation.volcano.policy import Volcano
from solver.simulation.volcano_configuration import Plugin, VolcanoScheduler
from solver.simulation.workload import SECOND, Job, Workload
from tests.builders.simulations import job, machines, replay, starts, workload
from tests.unit.solver.simulation.volcano.test_policy import configured, divided, in_queue, queue

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


@pytest.mark.parametrize(
    "world",
    [
        preempting(LOW, replace(HIGH, priority=0)),
        preempting(LOW, HIGH, scheduler=replace(PREEMPT, actions=("allocate",))),
        preempting(LOW, HIGH, scheduler=configured("priority", "gang", actions=PREEMPT.actions)),
        preempting(LOW, HIGH, scheduler=configured("overcommit", BREAKABLE, actions=PREEMPT.actions)),
        preempting(LOW, job("high", size=3, runs=3, at=2, priority=9)),
        divided(2, Policy(), PREEMPT, [queue("a"), queue("b")], LOW, in_queue(1, HIGH)),
    ],
    ids=["equals", "without-the-action", "gang", "no-votes", "no-room-for-all", "other-queue"],
)
def test_nobody_is_preempted(world: Workload) -> None:
    assert not evicted(world)


def test_a_gang_that_gets_no_room_for_all_its_pods_evicts_nobody() -> None:
    """Two of its three pods would find room."""
    world = preempting(job("equal", runs=10, priority=9), LOW, job("high", size=3, runs=3, at=2, priority=9), nodes=3)
    assert not evicted(world)


def test_the_lowest_priority_goes_first_then_the_youngest_and_no_more_than_needed() -> None:
    low = [job(f"j{at}", runs=20, at=at, priority=priority) for at, priority in enumerate((1, 0, 0, 2))]
    first = job("high", runs=3, at=8, priority=9)
    assert evicted(preempting(*low, first, nodes=1, gpus=4)) == {"j2"}
    assert evicted(preempting(*low, replace(first, role=replace(first.role, request=(3,))), nodes=1, gpus=4)) == {
        "j0",
        "j1",
        "j2",
    }


def test_drf_lets_go_what_holds_more_than_the_newcomer_whatever_their_priorities() -> None:
    drf = configured("drf", BREAKABLE, actions=PREEMPT.actions)
    small = job("small", runs=3, at=3)
    assert evicted(preempting(LOW, small, scheduler=drf)) == {"low"}
    assert not evicted(preempting(job("one", runs=10), job("two", runs=10), small, scheduler=drf))


def test_a_later_tier_decides_where_gang_keeps_all() -> None:
    tiers = ((Plugin("priority"), Plugin("gang")), (Plugin("drf"),))
    assert evicted(preempting(LOW, HIGH, scheduler=replace(PREEMPT, tiers=tiers))) == {"low"}


def test_a_pod_for_which_others_went_preempts_no_more_if_another_takes_the_room() -> None:
    """Room is made for `winner` at 3, and at 4 `first` takes it."""
    low = [job(f"low{at}", runs=30) for at in range(2)]
    high = [job("winner", runs=5, at=2, priority=9), job("first", runs=5, at=3, priority=99)]
    world = preempting(*low, *high)
    assert len(evicted(world)) == 1
    found = starts("volcano", world)
    assert (found["first"], found["winner"]) == (4, 9)


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


def test_pods_of_a_gang_hold_what_is_idle_while_reclaim_makes_room_for_the_others() -> None:
    """Node 0 is `other`'s; of node 1 `own` leaves room for one of the claim's two pods, and reclaim evicts nobody for a
    pod beside another that it made room for."""
    other, own = job("other", gpus=8, runs=20), job("own", gpus=2, runs=20, queue=1)
    jobs = [other, own, job("claim", size=2, gpus=4, runs=5, at=3, queue=1)]
    cluster = replace(machines(2, 8, weights=(1, 3)), policy=Policy(proportion=True))
    world = replace(workload(cluster, *jobs), scheduler=PROPORTION)
    assert not evicted(world)
    both = replace(PROPORTION, actions=("allocate", "preempt", "reclaim"))
    assert evicted(replace(world, scheduler=both)) == {"other"}


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
