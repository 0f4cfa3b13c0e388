"""NUMA cells and shared devices: from what people write, and what a cluster says, to the cells of the problem."""

from __future__ import annotations

import json

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.lower.lowering import lower
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.views.data import plan_document as as_data
from solver.problem import Problem, SlotRequest
from solver.validation.values import validate
from tests.builders import cluster_objects, declared
from tests.builders.declared import Object
from tests.builders.plans import verified_plan
from tests.unit.compiler.lower.devices import (
    EIGHT_CPUS,
    FRACTIONS,
    SINGLE,
    TWO_CELLS,
    VGPUS,
    conf,
    job,
    lowered,
    numa_topology,
    tree,
)

PLAIN, AWARE = conf(), conf("numa-aware")
CPUS: Object = {"capacity": {"cpu": 32}}


def cells(policy: str = SINGLE) -> Object:
    """A node of two NUMA cells of 16 CPUs."""
    numa = {"topologyManagerPolicy": policy, "cells": [{"cpu": 16}, {"cpu": 16}]}
    return {"capacity": {"cpu": 32, "memory": "64Gi"}, "numa": numa}


def sharing(switch: str) -> Object:
    return conf({"name": "deviceshare", "arguments": {f"deviceshare.{switch}Enable": True}})


def amounts(problem: Problem, which: str = "free") -> list[dict[str, int]]:
    """Of each cell of the first node what it has, zeroes left out."""
    return [
        {r: a for r, a in zip(problem.resources, getattr(cell, which), strict=True) if a}
        for cell in problem.nodes[0].slots
    ]


def pod(name: str, limits: dict[str, str], annotations: dict[str, str] | None = None) -> Object:
    return cluster_objects.pod(name, "n-0", limits=limits, namespace="else", annotations=annotations or {})


TWO_CARDS = {"volcano.sh/gpu-memory": "32", "volcano.sh/gpu-number": "2"}


def virtual(**amounts: int) -> dict[str, str]:
    """What a node offers of virtual GPUs."""
    return {f"volcano.sh/vgpu-{key}": str(amount) for key, amount in amounts.items()}


def live_node(allocatable: dict[str, str], annotations: dict[str, str] | None = None) -> Object:
    return cluster_objects.node("n-0", {"cpu": "32", **allocatable}, annotations=annotations or {})


def test_a_guaranteed_pod_of_one_numa_node_takes_what_cells_divide_from_one_of_them() -> None:
    problem = lowered(cells(), AWARE, job("{cpu: 10, memory: 8Gi}", 3, SINGLE))
    assert problem.slot_groups == ("numa",)
    (portion,) = problem.gangs[0].roles[0].slot_requests
    assert (
        portion.number,
        portion.share[problem.resources.index("cpu")],
        portion.share[problem.resources.index("memory")],
    ) == (1, 10_000, 0)
    assert amounts(problem) == [{"cpu": 16_000}, {"cpu": 16_000}]
    assert verified_plan(problem).decisions[0].facts[0].code == "GW118", (
        "30 of 32 CPUs, but 10 + 10 is more than a cell"
    )
    assert verified_plan(lowered(cells(), AWARE, job("{cpu: 8, memory: 8Gi}", 3, SINGLE))).decisions[0].slot_uses


@pytest.mark.parametrize(
    ("limits", "policy", "conf"),
    [
        ("{cpu: 10, memory: 8Gi}", SINGLE, PLAIN),
        ("{cpu: 10}", SINGLE, AWARE),
        ("{cpu: 10, memory: 8Gi}", "none", AWARE),
        ("{cpu: 10, memory: 8Gi}", "", AWARE),
    ],
)
def test_without_the_plugin_the_policy_or_the_class_numa_is_no_matter(limits: str, policy: str, conf: Object) -> None:
    problem = lowered(cells(), conf, job(limits, 3, policy))
    assert problem.slot_groups == ()
    assert problem.nodes[0].slots == ()
    assert verified_plan(problem).decisions[0].action == "start"


def test_a_node_of_another_policy_is_closed() -> None:
    problem = lowered(cells("best-effort"), AWARE, job("{cpu: 10, memory: 8Gi}", 1, SINGLE))
    assert verified_plan(problem).decisions[0].facts[0].code == "GW107"
    fitting = lowered(cells("best-effort"), AWARE, job("{cpu: 20, memory: 8Gi}", 1, "best-effort"))
    assert verified_plan(fitting).decisions[0].action == "start", "best-effort keeps to one cell only where it can"


@pytest.mark.parametrize(("cpu", "portions"), [(10, 1), (20, 0)])
def test_restricted_is_held_to_one_cell_where_one_empty_cell_is_enough(cpu: int, portions: int) -> None:
    problem = lowered(cells("restricted"), AWARE, job(f"{{cpu: {cpu}, memory: 8Gi}}", 1, "restricted"))
    assert len(problem.gangs[0].roles[0].slot_requests) == portions


def test_a_numatopology_tells_the_cells_and_what_is_left_of_their_cpus() -> None:
    cpus: Object = {"0": {}, "1": {"core": 1}, "2": {"numa": 1}, "3": {"numa": 1, "core": 1}}
    live = (live_node({"cpu": "4", "memory": "8Gi"}), numa_topology("0,2-3", cpus))
    pool = {"capacity": {"cpu": 4, "memory": "8Gi"}}
    problem = lowered(pool, AWARE, job("{cpu: 2, memory: 1Gi}", 1, SINGLE), live=live)
    assert amounts(problem, "capacity") == [{"cpu": 2000}, {"cpu": 2000}]
    assert amounts(problem) == [{"cpu": 1000}, {"cpu": 2000}]
    assert [use.slot for use in verified_plan(problem).decisions[0].slot_uses] == [1]


def told(idle: str, *pods: Object, reserved: str = "0") -> tuple[Problem, tuple[str, ...]]:
    """A node of two NUMA cells of 4 CPUs, of which these are said to be idle, with these pods; and the nodes that are
    behind."""
    live = (live_node({"cpu": "8", "memory": "8Gi"}), numa_topology(idle, TWO_CELLS, reserved), *pods)
    specs = read_specs(tree(EIGHT_CPUS, AWARE, job("{cpu: 3, memory: 1Gi}", 1, SINGLE)))
    problem, origins = lower(specs, ClusterState.from_objects(live))
    validate(problem)
    return problem, origins.outdated_nodes


def test_the_cpus_that_the_system_keeps_are_the_first_ones() -> None:
    problem, behind = told("0-7", reserved="1500m")
    assert amounts(problem, "capacity") == amounts(problem) == [{"cpu": 2000}, {"cpu": 4000}]
    assert behind == ()


def test_a_pod_of_which_the_numatopology_has_not_heard_holds_a_cell_all_the_same() -> None:
    first, second = (pod(name, {"cpu": "3", "memory": "1Gi"}) for name in ("first", "second"))
    first["status"]["startTime"], second["status"]["startTime"] = "2026-03-02T12:00:00Z", "2026-03-02T12:00:05Z"
    problem, behind = told("3-7", first, second)
    assert amounts(problem) == [{"cpu": 1000}, {"cpu": 1000}], "the first pod's CPUs are off, the second's are not yet"
    assert behind == ("n-0",)
    assert verified_plan(problem).decisions[0].facts[0].code == "GW102"
    problem, behind = told("3,7", first, second)
    assert (amounts(problem), behind) == ([{"cpu": 1000}, {"cpu": 1000}], ())


def test_cpus_that_are_still_said_to_be_taken_are_news_to_come() -> None:
    problem, behind = told("3,7", pod("first", {"cpu": "3", "memory": "1Gi"}))
    assert (amounts(problem), behind) == ([{"cpu": 1000}, {"cpu": 1000}], ("n-0",))
    shared = pod("shared", {"cpu": "2500m", "memory": "1Gi"})
    assert told("0-7", shared)[1] == (), "parts of CPUs are nobody's own"


def test_a_part_of_a_device_comes_from_one_and_whole_ones_are_different() -> None:
    problem = lowered(
        FRACTIONS,
        job("{example.com/gpu-milli: 600}", 2),
        job("{example.com/gpu: 2}", name="k"),
        job("{example.com/gpu-milli: 2000}", name="l"),
    )
    milli = problem.resources.index("example.com/gpu-milli")
    asked = [[(p.number, p.share[milli]) for p in gang.roles[0].slot_requests] for gang in problem.gangs]
    assert asked == [[(1, 600)], [(2, 1000)], [(2, 1000)]]
    assert [{cell.capacity[milli] for cell in node.slots} for node in problem.nodes] == [{1000}]
    assert [d.action for d in verified_plan(problem).decisions].count("start") == 1, (
        "two devices hold any one of the three"
    )


def test_pods_without_known_devices_count_on_the_fullest_device() -> None:
    live = (
        live_node({"example.com/gpu-milli": "2000"}),
        *(pod(f"p{i}", {"example.com/gpu-milli": "300"}) for i in range(3)),
    )
    problem = lowered(FRACTIONS, job("{example.com/gpu-milli: 600}", 2), live=live)
    assert amounts(problem) == [{"example.com/gpu-milli": 100}, {"example.com/gpu-milli": 1000}]


def test_a_virtual_gpu_asks_each_of_several_devices_for_memory_and_cores() -> None:
    problem = lowered(
        VGPUS, job("{volcano.sh/vgpu-number: 2, volcano.sh/vgpu-memory: 9000, volcano.sh/vgpu-cores: 40}", 2)
    )
    assert problem.slot_groups == ("volcano.sh/vgpu-memory",)
    names = {"volcano.sh/vgpu-memory": 9000, "volcano.sh/vgpu-cores": 40, "volcano.sh/vgpu-number": 1}
    share = tuple(names.get(name, 0) for name in problem.resources)
    assert problem.gangs[0].roles[0].slot_requests == (SlotRequest(0, 2, share),)
    assert verified_plan(problem).decisions[0].facts[0].code == "GW118"


@pytest.mark.parametrize(
    ("limits", "memory", "cores"),
    [
        ("{volcano.sh/vgpu-number: 1}", 16000, 1),
        ("{volcano.sh/vgpu-memory: 3000}", 3000, 1),
        ("{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory-percentage: 25, volcano.sh/vgpu-cores: 100}", 4000, 100),
    ],
)
def test_what_a_virtual_gpu_does_not_say_is_all_of_it(limits: str, memory: int, cores: int) -> None:
    problem = lowered(VGPUS, job(limits))
    (portion,) = problem.gangs[0].roles[0].slot_requests
    said = dict(zip(problem.resources, portion.share, strict=True))
    assert (portion.number, said["volcano.sh/vgpu-memory"], said["volcano.sh/vgpu-cores"]) == (1, memory, cores)


PERCENT = "{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory-percentage: %d}"


@pytest.mark.parametrize(
    ("percent", "pods", "action"),
    [(60, 1, "start"), (60, 2, "start"), (60, 3, "wait"), (50, 4, "start"), (50, 5, "wait")],
)
def test_a_percentage_of_memory_is_a_part_of_a_device_and_nothing_of_a_node(
    percent: int, pods: int, action: str
) -> None:
    """Two devices: each holds one pod of 60 %, or two of 50 %."""
    problem = lowered(VGPUS, job(PERCENT % percent, pods))
    assert "volcano.sh/vgpu-memory-percentage" not in problem.resources
    (decision,) = verified_plan(problem).decisions
    assert decision.action == action
    assert [fact.code for fact in decision.facts] == ([] if action == "start" else ["GW118"])


@pytest.mark.parametrize(("percent", "action"), [(50, "start"), (51, "wait")])
def test_a_percentage_beside_a_pod_that_holds_half_of_the_device(percent: int, action: str) -> None:
    half = pod("p", {"volcano.sh/vgpu-number": "1"}, {"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,8000,0:"})
    register = {"volcano.sh/node-vgpu-register": "GPU-a,10,16000,NVIDIA-A,true,:"}
    live = (live_node(virtual(memory=16000, number=10, cores=100), register), half)
    assert verified_plan(lowered(VGPUS, job(PERCENT % percent), live=live)).decisions[0].action == action


def test_no_queue_counts_a_percentage() -> None:
    """As in Volcano, whose devices tell a queue the memory and the cores that a pod holds, never the percentage."""
    limited = declared.queue(capability={"volcano.sh/vgpu-memory-percentage": 50})
    assert verified_plan(lowered(VGPUS, job(PERCENT % 60), limited)).decisions[0].action == "start"


def test_a_live_nodes_register_and_its_pods_annotations_say_which_device_is_taken() -> None:
    healthy = {"a": "true", "b": "true", "c": "false"}
    register = "".join(f"GPU-{name},10,16000,NVIDIA-A,{flag},hami-core:" for name, flag in healthy.items())
    taken = pod("p", {"volcano.sh/vgpu-number": "1"}, {"volcano.sh/vgpu-ids-new": "GPU-b,NVIDIA,10000,30:"})
    node = live_node(virtual(memory=32000, number=20, cores=200), {"volcano.sh/node-vgpu-register": register})
    asks = job("{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 8000, volcano.sh/vgpu-cores: 50}")
    problem = lowered(VGPUS, asks, live=(node, taken))
    memory = problem.resources.index("volcano.sh/vgpu-memory")
    assert [cell.free[memory] for cell in problem.nodes[0].slots] == [16000, 6000, 0], "GPU-c is ill"
    assert [use.slot for use in verified_plan(problem).decisions[0].slot_uses] == [0]


def test_a_node_is_behind_until_volcano_has_noted_the_cards_of_a_pod() -> None:
    register = "GPU-a,10,16000,NVIDIA-A,true,hami-core:GPU-b,10,16000,NVIDIA-A,true,hami-core:"
    node = live_node(virtual(memory=32000), {"volcano.sh/node-vgpu-register": register})
    specs = read_specs(tree(VGPUS, job("{volcano.sh/vgpu-number: 1}")))
    for note, behind in (("", ("n-0",)), ("GPU-b,NVIDIA,16000,0:", ())):
        held = pod("p", {"volcano.sh/vgpu-number": "1"}, {"volcano.sh/vgpu-ids-new": note})
        assert lower(specs, ClusterState.from_objects((node, held)))[1].outdated_nodes == behind


def test_cards_that_share_memory_are_equal_parts_of_the_sum() -> None:
    problem = lowered(CPUS, job("{volcano.sh/gpu-memory: 10}", 3), live=(live_node(TWO_CARDS),))
    assert amounts(problem) == [{"volcano.sh/gpu-memory": 16}] * 2
    assert verified_plan(problem).decisions[0].facts[0].code == "GW118"


def test_a_part_of_shared_memory_is_of_one_card() -> None:
    """Volcano gives no pod memory of two cards, however much there is in sum."""
    large = job("{volcano.sh/gpu-memory: 17}")
    assert is_never(lowered(CPUS, sharing("GPUSharing"), large, live=(live_node(TWO_CARDS),))) is True


def test_cards_that_share_memory_are_those_that_the_node_has_not_those_that_it_offers() -> None:
    node = live_node(TWO_CARDS, {"volcano.sh/gpu-unhealthy-ids": "0"})
    node["status"]["capacity"] = {"cpu": "32", "volcano.sh/gpu-memory": "48", "volcano.sh/gpu-number": "3"}
    for each, never in ((10, False), (17, True)):
        pods = job(f"{{volcano.sh/gpu-memory: {each}}}", 3 - never)
        problem = lowered(CPUS, sharing("GPUSharing"), pods, live=(node,))
        assert amounts(problem) == [{"volcano.sh/gpu-memory": 16}] * 2 + [{}]
        assert is_never(problem) is never, "the first card may recover, and has 16"


def is_never(problem: Problem) -> bool:
    """Whether the only gang, which waits, can never start."""
    (decision,) = verified_plan(problem).decisions
    assert decision.action == "wait"
    return any(fact.never for fact in decision.facts)


REGISTER = "GPU-a,2,16000,NVIDIA-A,true,hami-core:GPU-b,2,16000,NVIDIA-A,%s,hami-core:"
OFFERED = virtual(memory=32000, number=4, cores=200) | TWO_CARDS


@pytest.mark.parametrize(
    ("limits", "switch", "healthy", "never"),
    [
        ("{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 9000}", "VGPU", "true", True),
        ("{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 9000}", "VGPU", "false", True),
        ("{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 5000}", "VGPU", "false", False),
        ("{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 9000}", "GPUSharing", "true", False),
        ("{volcano.sh/vgpu-number: 1}", "GPUSharing", "true", False),
        ("{volcano.sh/gpu-memory: 9}", "GPUSharing", "true", True),
        ("{volcano.sh/gpu-memory: 9}", "GPUNumber", "true", False),
    ],
)
def test_never_is_said_of_devices_that_volcano_gives_out_one_by_one(
    limits: str, switch: str, healthy: str, never: bool
) -> None:
    """Of others it compares sums. Unhealthy ones count, since they may recover, and it gives them out (seen on the
    real one)."""
    live = (live_node(OFFERED, {"volcano.sh/node-vgpu-register": REGISTER % healthy}),)
    problem = lowered(CPUS, sharing(switch), job(limits, 3), live=live)
    assert is_never(problem) is never


def test_several_containers_may_take_from_several_numa_nodes() -> None:
    """Volcano puts each into a NUMA node, the plan all of them into one, as the kubelet's pod scope does."""
    two = job("{cpu: 10, memory: 8Gi}", 1, SINGLE)
    containers = two["spec"]["tasks"][0]["template"]["spec"]["containers"]
    containers.append({**containers[0], "name": "other"})
    assert is_never(lowered(cells(), AWARE, two)) is False
    assert is_never(lowered(cells(), AWARE, job("{cpu: 20, memory: 8Gi}", 1, SINGLE))) is True


def test_memory_of_ascends_parts_is_no_amount_of_a_node_where_hami_gives_them_out() -> None:
    node = live_node({"huawei.com/Ascend310P": "7"})
    limits = "{huawei.com/Ascend310P: 1, huawei.com/Ascend310P-memory: 3072}"
    for switch, action in (("AscendHAMiVNPU", "start"), ("AscendMindClusterVNPU", "wait")):
        problem = lowered(CPUS, sharing(switch), job(limits), live=(node,))
        assert verified_plan(problem).decisions[0].action == action


def test_a_lost_nodes_cells_hold_nothing() -> None:
    node = live_node({"example.com/gpu-milli": "2000"})
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    problem = lowered(FRACTIONS, job("{example.com/gpu-milli: 600}"), live=(node,))
    assert {cell.free for cell in problem.nodes[0].slots} == {(0,) * len(problem.resources)}


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        (
            job("{example.com/gpu-milli: 600}", 3),
            "its nodes are large enough, but their devices or NUMA cells, even empty, hold 2 of 3 pods of role w; "
            "each takes 600 example.com/gpu-milli of one",
        ),
        (
            job("{example.com/gpu: 2}", 2),
            "its nodes are large enough, but their devices or NUMA cells, even empty, hold 1 of 2 pods of role w; "
            "each takes 1000 example.com/gpu-milli of each of 2",
        ),
    ],
)
def test_too_few_devices_are_said_with_what_a_pod_takes_of_one(pods: Object, message: str) -> None:
    """Two devices of 1000; the node has CPUs and devices by name enough for all."""
    live = live_node({"example.com/gpu-milli": "9000", "example.com/gpu": "9"})
    (decided,) = compile_repository(tree(FRACTIONS, pods), state=ClusterState.from_objects([live])).decisions
    assert [(reason.code, reason.message) for reason in decided.reasons] == [("GW118", message)]


def test_a_world_that_asks_for_no_parts_has_no_cells() -> None:
    assert lowered(FRACTIONS, job("{cpu: 1}")).nodes[0].slots == ()
    assert lowered(VGPUS, job("{cpu: 1}")).slot_groups == ()


def test_the_json_plan_shows_the_cells_of_pods_that_use_some() -> None:
    outcome = compile_repository(tree(FRACTIONS, job("{example.com/gpu-milli: 500}", 2), job("{cpu: 1}", name="k")))
    first, second = outcome.decisions
    cell = {"role": "w", "node": "n-0", "division": "example.com/gpu-milli", "cell": 0, "pods": 2}
    assert first.slot_assignments == (cell,)
    shown = json.loads(json.dumps(as_data(outcome)))["gangs"]
    assert shown[0]["cells"] == [
        {"role": "w", "node": "n-0", "division": "example.com/gpu-milli", "cell": 0, "pods": 2}
    ]
    assert "cells" not in shown[1]
    assert second.slot_assignments == ()
