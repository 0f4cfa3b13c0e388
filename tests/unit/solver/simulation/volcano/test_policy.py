"""What Volcano's actions and plugins decide, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.problem import Node, Policy, Problem, Queue, Role
from solver.simulation.workload import SECOND, Job, Plugin, VolcanoScheduler, Workload
from tests.builders.beside import beside
from tests.builders.replays import assert_replay
from tests.builders.simulations import job, machines, replay, starts, workload

CASES = beside(__file__)


@pytest.mark.parametrize("case", CASES)
def test_replay(case: str) -> None:
    assert_replay(CASES[case])


RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
GIB = 1 << 30


def configured(
    *plugins: str | Plugin, actions: tuple[str, ...] = ("enqueue", "allocate"), **more: Any
) -> VolcanoScheduler:
    """A configuration of one tier."""
    tier = tuple(Plugin(plugin) if isinstance(plugin, str) else plugin for plugin in plugins)
    return VolcanoScheduler(actions, (tier,), **more)


def queue(name: str, deserved: int | None = None, capability: int | None = None, **more: Any) -> Queue:
    """A queue of a cluster that has only GPUs."""
    found = Queue(name, None, 1, 0, (None,), (deserved,), (capability,), (0,))
    return replace(found, **more)


def divided(gpus: int, policy: Policy, scheduler: VolcanoScheduler, queues: list[Queue], *jobs: Job) -> Workload:
    """One node, and jobs in its queues."""
    cluster = replace(machines(1, gpus), queues=tuple(queues), policy=policy)
    return replace(workload(cluster, *jobs), scheduler=scheduler)


def in_queue(number: int, of: Job) -> Job:
    return replace(of, queue=number)


def test_priority_counts_where_its_plugin_has_a_say() -> None:
    world = workload(machines(1), job("runs", runs=5), job("old", runs=5, at=1), job("high", runs=5, at=2, priority=9))
    assert starts("volcano", replace(world, scheduler=configured("priority")))["high"] == 6
    for scheduler in (configured("gang"), configured(Plugin("priority", flags={"enableJobOrder": False}))):
        assert starts("volcano", replace(world, scheduler=scheduler))["high"] == 11


def test_proportion_holds_a_queue_at_its_share_while_another_asks() -> None:
    """Both ask for more than half of four GPUs, so that each may hold two."""
    jobs = [in_queue(0, job(f"a{n}", runs=10)) for n in range(4)] + [in_queue(1, job(f"b{n}", runs=10)) for n in (0, 1)]
    world = divided(4, Policy(proportion=True), configured("proportion"), [queue("a"), queue("b")], *jobs)
    assert starts("volcano", world) == {"a0": 1, "a1": 1, "a2": 11, "a3": 11, "b0": 1, "b1": 1}
    weighted = [queue("a", weight=3), queue("b")]
    heavy = divided(4, Policy(proportion=True), configured("proportion"), weighted, *jobs)
    assert starts("volcano", heavy) == {"a0": 1, "a1": 1, "a2": 1, "a3": 11, "b0": 1, "b1": 11}


def test_capacity_serves_the_queue_with_the_lower_share_and_lends_what_is_idle() -> None:
    jobs = [in_queue(0, job(f"a{n}", runs=10)) for n in range(4)] + [in_queue(1, job(f"b{n}", runs=10)) for n in (0, 1)]
    queues = [queue("a", deserved=1), queue("b", deserved=3)]
    world = divided(4, Policy(capacity=True), configured("capacity"), queues, *jobs)
    assert starts("volcano", world) == {"a0": 1, "a1": 1, "a2": 11, "a3": 11, "b0": 1, "b1": 1}
    first = divided(4, Policy(capacity=True), configured("capacity"), [queue("a", priority=1), queue("b")], *jobs)
    assert starts("volcano", first) == {"a0": 1, "a1": 1, "a2": 1, "a3": 1, "b0": 11, "b1": 11}


def placed(scheduler: VolcanoScheduler) -> list[str]:
    """Nodes of three pods of half a node's CPU and two GPUs, one after the other, on two nodes of 8 GPUs."""
    nodes = tuple(Node(name, 0, None, (8000, 64 * GIB, 110, 8), (8000, 64 * GIB, 110, 8)) for name in "xy")
    nothing = (None,) * len(RESOURCES)
    queues = (Queue("default", None, 1, 0, nothing, nothing, nothing, (0,) * len(RESOURCES)),)
    cluster = Problem(RESOURCES, nodes, (), queues, ())
    pod = Role("pod", 1, 1, (2000, 4 * GIB, 1, 2), frozenset({0}))
    jobs = [Job(f"j{at}", at * SECOND, 100 * SECOND, 100 * SECOND, pod) for at in range(3)]
    found = replay("volcano", Workload(cluster, jobs, 3, scheduler=scheduler))
    return [nodes[hold.node].name for run in found.runs for hold in run.holds]


def test_nodeorder_spreads_and_binpack_fills_by_the_resources_that_it_names() -> None:
    assert placed(configured("nodeorder")) == ["x", "y", "x"]
    assert placed(configured("nodeorder", "binpack")) == ["x", "y", "x"]
    gpus = Plugin("binpack", {"binpack.weight": 5, "binpack.resources": "nvidia.com/gpu"})
    assert placed(configured("nodeorder", gpus)) == ["x", "x", "x"]
    silent = replace(gpus, flags={"enableNodeOrder": False})
    assert placed(configured("nodeorder", silent)) == ["x", "y", "x"]


def test_mostrequested_fills_nodes() -> None:
    most = Plugin("nodeorder", {"leastrequested.weight": 0, "balancedresource.weight": 0, "mostrequested.weight": 1})
    assert placed(configured(most)) == ["x", "x", "x"]
