"""What Volcano's actions and plugins decide, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from solver.problem import Node, Policy, Problem, Queue, Role
from solver.simulation.volcano_configuration import Plugin, VolcanoScheduler
from solver.simulation.workload import SECOND, Job, Workload
from tests.builders.simulations import job, machines, replay, starts, workload

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


def test_a_job_is_let_in_at_a_cycle_and_starts_at_the_next() -> None:
    world = workload(machines(1), job("a", runs=4), job("b", runs=1, at=1))
    assert starts("volcano", world) == {"a": 1, "b": 6}
    slow = replace(world, scheduler=configured("gang", period=5 * SECOND))
    assert starts("volcano", slow) == {"a": 5, "b": 10}


def test_overcommit_keeps_a_job_out_while_those_let_in_and_running_fill_its_factor() -> None:
    """Of 4.8 machines `a` holds 3 from second 1, and counts twice until the next cycle; `b` must wait for its end."""
    world = workload(machines(4), job("a", size=3, runs=10), job("b", size=4, runs=9, at=1), job("c", runs=3, at=2))
    assert starts("volcano", world) == {"a": 1, "b": 12, "c": 4}
    roomy = Plugin("overcommit", {"overcommit-factor": 4.0})
    assert starts("volcano", replace(world, scheduler=configured(roomy))) == {"a": 1, "b": 11, "c": 3}


def test_a_job_that_ended_between_two_cycles_counts_as_let_in_at_the_second() -> None:
    """Of 4.8 machines `a` takes 3 from 5 to 7; its podgroup is Inqueue at 10, so that `b` is let in at 15."""
    world = workload(machines(4), job("a", size=3, runs=2), job("b", size=4, runs=9, at=6))
    slow = configured("overcommit", period=5 * SECOND)
    assert starts("volcano", replace(world, scheduler=slow)) == {"a": 5, "b": 20}


def test_without_the_action_enqueue_every_job_has_pods() -> None:
    world = workload(machines(4), job("a", size=3, runs=10), job("b", size=4, runs=9, at=1), job("c", runs=3, at=2))
    scheduler = configured("overcommit", actions=("allocate",))
    assert starts("volcano", replace(world, scheduler=scheduler)) == {"a": 1, "b": 11, "c": 3}


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


def test_proportion_gives_nothing_to_a_gang_beyond_the_share() -> None:
    jobs = [in_queue(0, job("gang", size=3, runs=10)), in_queue(1, job("b0", runs=10)), in_queue(1, job("b1", runs=10))]
    world = divided(4, Policy(proportion=True), configured("proportion"), [queue("a"), queue("b")], *jobs)
    assert starts("volcano", world) == {"gang": 11, "b0": 1, "b1": 1}


def test_capacity_serves_the_queue_with_the_lower_share_and_lends_what_is_idle() -> None:
    jobs = [in_queue(0, job(f"a{n}", runs=10)) for n in range(4)] + [in_queue(1, job(f"b{n}", runs=10)) for n in (0, 1)]
    queues = [queue("a", deserved=1), queue("b", deserved=3)]
    world = divided(4, Policy(capacity=True), configured("capacity"), queues, *jobs)
    assert starts("volcano", world) == {"a0": 1, "a1": 1, "a2": 11, "a3": 11, "b0": 1, "b1": 1}
    first = divided(4, Policy(capacity=True), configured("capacity"), [queue("a", priority=1), queue("b")], *jobs)
    assert starts("volcano", first) == {"a0": 1, "a1": 1, "a2": 1, "a3": 1, "b0": 11, "b1": 11}


def test_capability_limits_a_queue_and_closed_queues_let_nothing_in() -> None:
    jobs = [in_queue(0, job("a0", runs=10)), in_queue(0, job("a1", runs=10)), in_queue(1, job("b", runs=10))]
    queues = [queue("a", capability=1), queue("b", open=False)]
    world = divided(4, Policy(capacity=True), configured("capacity"), queues, *jobs)
    assert starts("volcano", world) == {"a0": 1, "a1": 12, "b": None}


def test_with_the_hierarchy_a_queue_above_limits_those_below_it() -> None:
    jobs = [in_queue(number, job(f"j{number}", runs=10)) for number in (1, 2)]
    queues = [queue("above", capability=1), queue("left", parent=0), queue("right", parent=0)]
    policy = Policy(capacity=True, capacity_hierarchy=True)
    world = divided(4, policy, configured("capacity"), queues, *jobs)
    assert starts("volcano", world) == {"j1": 1, "j2": 12}


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


def test_cycles_are_when_they_are_known_to_be_and_then_every_period() -> None:
    scheduler = configured("gang", period=4 * SECOND, cycles=(3 * SECOND, 5 * SECOND))
    world = replace(workload(machines(4), job("a", runs=9), job("b", runs=9, at=4)), scheduler=scheduler)
    assert starts("volcano", world) == {"a": 5, "b": 9}


def test_of_jobs_of_one_second_the_first_by_name_comes_first() -> None:
    """A podgroup is called `<job>-<uid>`, and names are compared as text."""
    world = workload(machines(1), job("j-2", runs=3), job("j-10", runs=3), job("j-1", runs=3))
    found = starts("volcano", world)
    assert sorted(found, key=lambda name: found[name] or 0) == ["j-1", "j-10", "j-2"]
