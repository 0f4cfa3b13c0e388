"""Which running pod has which device or NUMA cell, as far as that is sure, and what eviction makes of it."""

from __future__ import annotations

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.lower.device_slots import SlotState, certain_slots
from compiler.pipeline import compile_repository
from solver import solve
from solver.problem import Problem, SlotHold, SlotRequest
from solver.verify import verify
from tests.builders import cluster_objects, declared
from tests.builders.cluster_objects import volcano_job_pod
from tests.builders.declared import Object, priority_class
from tests.unit.compiler.lower import devices
from tests.unit.compiler.lower.devices import EIGHT_CPUS, FRACTIONS, SINGLE, TWO_CELLS, VGPUS, numa_topology

CONF = declared.scheduler(
    ("priority", {"name": "gang", "enablePreemptable": False}, "conformance"),
    ("predicates", "numa-aware"),
    actions=("allocate", "preempt"),
)
CLASSES = priority_class("low", 1), priority_class("high", 9)
VGPU = "{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 16000}"


def job(name: str, limits: str, priority: str, policy: str = "", replicas: int = 1, minimum: int = 1) -> Object:
    more = {"annotations": {"volcano.sh/preemptable": "true"}, "minAvailable": minimum, "priorityClassName": priority}
    return devices.job(limits, replicas, policy, name, **more)


def lowered(pool: Object, jobs: list[Object], live: list[Object]) -> Problem:
    return devices.lowered(pool, CONF, *CLASSES, *jobs, live=live)


def node(allocatable: dict[str, str], register: str = "") -> Object:
    annotations = {"volcano.sh/node-vgpu-register": register} if register else {}
    return cluster_objects.node("n-0", {"cpu": "32", **allocatable}, annotations=annotations)


def pod(owner: str, limits: dict[str, str], device: str = "", policy: str = "") -> Object:
    annotations = {"volcano.sh/task-spec": "w", **({"volcano.sh/vgpu-ids-new": device} if device else {})}
    if policy:
        annotations["volcano.sh/numa-topology-policy"] = policy
    return volcano_job_pod(f"{owner}-w-0", owner, node="n-0", limits=limits, namespace="t", annotations=annotations)


def actions(problem: Problem) -> dict[str, str]:
    plan = solve(problem)
    assert verify(problem, plan) == []
    return {problem.gangs[d.gang].name.removeprefix("t/"): d.action for d in plan.decisions}


def holds(problem: Problem) -> dict[str, tuple[SlotHold, ...]]:
    return {gang.name.removeprefix("t/"): gang.slot_holds for gang in problem.gangs if gang.running}


REGISTER = "GPU-a,10,16384,NVIDIA,true,:GPU-b,10,16384,NVIDIA,true,:"
TWO_VGPUS = node(
    {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "32768", "volcano.sh/vgpu-cores": "200"}, REGISTER
)
LIMITS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "16000"}
VGPU_JOBS = [job("a", VGPU, "low"), job("b", VGPU, "low"), job("hi", VGPU, "high")]


def test_a_virtual_gpu_named_by_an_annotation_is_given_to_the_gang_that_its_pod_goes_for() -> None:
    live = [TWO_VGPUS, pod("a", LIMITS, "GPU-b,NVIDIA,16000,0:"), pod("b", LIMITS, "GPU-a,NVIDIA,16000,0:")]
    problem = lowered(VGPUS, VGPU_JOBS, live)
    assert holds(problem) == {"a": (SlotHold(0, 0, 1, 1),), "b": (SlotHold(0, 0, 0, 1),)}
    assert sorted(actions(problem).values()) == ["evict", "keep", "start"]


@pytest.mark.parametrize(
    ("device", "known"),
    [("GPU-b,NVIDIA,16000,0:", True), ("GPU-b,NVIDIA,9000,0:", False), ("GPU-z,NVIDIA,16000,0:", False)],
    ids=["all", "less", "elsewhere"],
)
def test_a_pod_that_holds_less_than_its_role_requests_returns_nothing(device: str, known: bool) -> None:
    problem = lowered(
        VGPUS, VGPU_JOBS, [TWO_VGPUS, pod("a", LIMITS, device), pod("b", LIMITS, "GPU-a,NVIDIA,16000,0:")]
    )
    assert holds(problem)["a"] == ((SlotHold(0, 0, 1, 1),) if known else ())


def test_of_a_device_of_which_more_is_held_than_it_has_nothing_is_sure_to_come_back() -> None:
    both = [pod("a", LIMITS, "GPU-a,NVIDIA,16000,0:"), pod("b", LIMITS, "GPU-a,NVIDIA,16000,0:")]
    assert holds(lowered(VGPUS, VGPU_JOBS, [TWO_VGPUS, *both])) == {"a": (), "b": ()}


def milli(amount: str) -> list[Object]:
    return [job(name, f"{{example.com/gpu-milli: {amount}}}", "low") for name in "ab"]


TWO_DEVICES = node({"example.com/gpu-milli": "2000"})


def test_holders_of_whole_devices_count_as_located() -> None:
    live = [TWO_DEVICES, *(pod(name, {"example.com/gpu-milli": "1000"}) for name in ("a", "b"))]
    problem = lowered(FRACTIONS, [*milli("1000"), job("hi", "{example.com/gpu-milli: 600}", "high")], live)
    assert sorted(len(hold) for hold in holds(problem).values()) == [1, 1]
    assert sorted(actions(problem).values()) == ["evict", "keep", "start"]


def test_no_pod_is_evicted_on_a_guessed_device() -> None:
    """Either of the two may be on either device; were they on one, the other one would be free."""
    live = [TWO_DEVICES, *(pod(name, {"example.com/gpu-milli": "600"}) for name in ("a", "b"))]
    problem = lowered(FRACTIONS, [*milli("600"), job("hi", "{example.com/gpu-milli: 800}", "high")], live)
    assert holds(problem) == {"a": (), "b": ()}
    assert actions(problem) == {"a": "keep", "b": "keep", "hi": "wait"}


@pytest.mark.parametrize(
    ("amount", "evicts", "told"), [("600", True, True), ("600", False, False), ("1000", True, False)]
)
def test_a_finding_tells_the_waiting_gang_of_victims_on_unknown_devices(amount: str, evicts: bool, told: bool) -> None:
    """Whole devices need no names; and where no victim would be allowed, names would not help."""
    live = [TWO_DEVICES, *(pod(name, {"example.com/gpu-milli": amount}) for name in ("a", "b"))]
    jobs = [*milli(amount), job("hi", "{example.com/gpu-milli: 800}", "high" if evicts else "low")]
    tree = devices.tree(FRACTIONS, CONF, *CLASSES, *jobs)
    outcome = compile_repository(tree, state=ClusterState.from_objects(live))
    found = [d for d in outcome.diagnostics if d.code == "GP523"]
    assert [(d.object, "t/a on n-0 hold and 1 more" in d.message) for d in found] == (
        [("Job t/hi", True)] if told else []
    )


def test_a_pod_in_the_only_device_of_its_node_is_there() -> None:
    one = {**FRACTIONS, "sharedDevices": [{**FRACTIONS["sharedDevices"][0], "devices": 1}]}
    live = [
        node({"example.com/gpu-milli": "1000"}),
        *(pod(name, {"example.com/gpu-milli": "400"}) for name in ("a", "b")),
    ]
    problem = lowered(one, [*milli("400"), job("hi", "{example.com/gpu-milli: 600}", "high")], live)
    assert holds(problem) == {"a": (SlotHold(0, 0, 0, 1),), "b": (SlotHold(0, 0, 0, 1),)}
    assert sorted(actions(problem).values()) == ["evict", "keep", "start"]


@pytest.mark.parametrize(
    ("free", "known"),
    [("3,4-7", (SlotHold(0, 0, 0, 1),)), ("0-3,7", (SlotHold(0, 0, 1, 1),)), ("3,7", ())],
    ids=["first", "second", "either"],
)
def test_a_pod_is_in_the_numa_cell_that_is_short_of_its_cpus(free: str, known: tuple[SlotHold, ...]) -> None:
    """A Numatopology says which CPUs are left, not whose the others are."""
    jobs = [job("a", "{cpu: 3, memory: 1Gi}", "low", SINGLE), job("hi", "{cpu: 4, memory: 1Gi}", "high", SINGLE)]
    live = [
        node({"cpu": "8", "memory": "8Gi"}),
        numa_topology(free, TWO_CELLS),
        pod("a", {"cpu": "3", "memory": "1Gi"}, policy="single-numa-node"),
    ]
    assert holds(lowered(EIGHT_CPUS, jobs, live)) == {"a": known}


def test_a_numa_cell_that_a_victim_is_sure_to_leave_is_given_to_the_winner() -> None:
    jobs = [
        job("a", "{cpu: 3, memory: 1Gi}", "low", SINGLE),
        job("hi", "{cpu: 4, memory: 1Gi}", "high", SINGLE, replicas=2, minimum=2),
    ]
    live = [
        node({"cpu": "8", "memory": "8Gi"}),
        numa_topology("3,4-7", TWO_CELLS),
        pod("a", {"cpu": "3", "memory": "1Gi"}, policy="single-numa-node"),
    ]
    assert actions(lowered(EIGHT_CPUS, jobs, live)) == {"a": "evict", "hi": "start"}


def cell(left: int, told: bool = False) -> SlotState:
    return SlotState((10,), (left,), frozenset({0}) if told else frozenset())


@pytest.mark.parametrize(
    ("shares", "cells", "sure"),
    [
        ((10, 10), (cell(10), cell(10)), {0: (0,), 1: (1,)}),
        ((10,), (cell(10), cell(10)), {0: (0,)}),
        ((10,), (cell(3), cell(10)), {0: (1,)}),
        ((6, 6), (cell(10), cell(10)), {}),
        ((10, 10), (cell(0, True), cell(0, True)), {0: (0,), 1: (1,)}),
        ((10,), (cell(0, True), cell(0, True)), {}),
        ((10, 10, 10), (cell(10), cell(10)), {}),
    ],
)
def test_slots_that_running_pods_certainly_hold(
    shares: tuple[int, ...], cells: tuple[SlotState, ...], sure: dict[int, tuple[int, ...]]
) -> None:
    """Of two cells that the node itself says are full, one pod may have either; two that fill one each have both."""
    assert certain_slots([SlotRequest(0, 1, (share,)) for share in shares], dict(enumerate(cells))) == sure
