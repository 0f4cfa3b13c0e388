"""NUMA cells and shared devices: from what people write, and what a cluster says, to the cells of the problem."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.lower.lowering import lower
from compiler.outcome import SlotAssignment
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.views.data import plan_document as as_data
from solver.problem import Problem, SlotRequest
from solver.validation.values import validate
from tests.builders import cluster_objects
from tests.builders.plans import verified_plan
from tests.builders.repositories import AWARE, SCHEDULER

POOL = "apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {name: n}\nspec:\n  count: 1\n"
NUMA = "  capacity: {cpu: 32, memory: 64Gi}\n  numa: {topologyManagerPolicy: POLICY, cells: [{cpu: 16}, {cpu: 16}]}\n"
FRACTIONS = (
    "  capacity: {cpu: 32}\n  sharedDevices: [{resource: "
    "example.com/gpu-milli, devices: 2, each: 1000, whole: example.com/gpu}]\n"
)
VGPUS = "  capacity: {cpu: 32}\n  sharedDevices: [{resource: volcano.sh/vgpu-memory, devices: 2, each: 16000}]\n"


def job(limits: str, replicas: int = 1, policy: str = "", name: str = "j") -> str:
    task = (
        f"{{name: w, replicas: {replicas}, {policy}template: {{spec: "
        f"{{containers: [{{name: main, image: a, resources: {{limits: {limits}}}}}]}}}}}}"
    )
    return (
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        f"metadata: {{name: {name}, namespace: t}}\nspec: {{tasks: [{task}]}}\n"
    )


def tree(pool: str, *jobs: str, plugins: str = "") -> Repository:
    files = {
        "cluster-specs/c/pool.yaml": POOL + pool,
        "cluster-specs/c/scheduler.yaml": SCHEDULER.replace("PLUGINS", plugins),
    }
    files |= {f"jobs/{number}.yaml": text for number, text in enumerate(jobs)}
    return Repository({name: text.encode() for name, text in files.items()})


def lowered(pool: str, *jobs: str, plugins: str = "", live: tuple[dict[str, Any], ...] = ()) -> Problem:
    specs = read_specs(tree(pool, *jobs, plugins=plugins))
    assert [d for d in specs.diagnostics if d.severity == "error"] == []
    problem, _ = lower(specs, ClusterState.from_objects(live) if live else None)
    validate(problem)
    return problem


def amounts(problem: Problem, which: str = "free") -> list[dict[str, int]]:
    """Of each cell of the first node what it has, zeroes left out."""
    return [
        {r: a for r, a in zip(problem.resources, getattr(cell, which), strict=True) if a}
        for cell in problem.nodes[0].slots
    ]


def pod(
    name: str, limits: dict[str, str], annotations: dict[str, str] | None = None, node: str = "n-0"
) -> dict[str, Any]:
    return cluster_objects.pod(name, node, limits=limits, namespace="else", annotations=annotations or {})


def live_node(allocatable: dict[str, str], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return cluster_objects.node("n-0", allocatable, annotations=annotations or {})


SINGLE = "topologyPolicy: single-numa-node, "
SHARING = ", {name: deviceshare, arguments: {deviceshare.%sEnable: true}}"


def test_a_guaranteed_pod_of_one_numa_node_takes_what_cells_divide_from_one_of_them() -> None:
    problem = lowered(
        NUMA.replace("POLICY", "single-numa-node"), job("{cpu: 10, memory: 8Gi}", 3, SINGLE), plugins=AWARE
    )
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
    assert (
        verified_plan(
            lowered(NUMA.replace("POLICY", "single-numa-node"), job("{cpu: 8, memory: 8Gi}", 3, SINGLE), plugins=AWARE)
        )
        .decisions[0]
        .slot_uses
    )


@pytest.mark.parametrize(
    ("limits", "policy", "plugins"),
    [
        ("{cpu: 10, memory: 8Gi}", SINGLE, ""),
        ("{cpu: 10}", SINGLE, AWARE),
        ("{cpu: 10, memory: 8Gi}", "topologyPolicy: none, ", AWARE),
        ("{cpu: 10, memory: 8Gi}", "", AWARE),
    ],
)
def test_without_the_plugin_the_policy_or_the_class_numa_is_no_matter(limits: str, policy: str, plugins: str) -> None:
    problem = lowered(NUMA.replace("POLICY", "single-numa-node"), job(limits, 3, policy), plugins=plugins)
    assert problem.slot_groups == ()
    assert problem.nodes[0].slots == ()
    assert verified_plan(problem).decisions[0].action == "start"


def test_a_node_of_another_policy_is_closed() -> None:
    problem = lowered(NUMA.replace("POLICY", "best-effort"), job("{cpu: 10, memory: 8Gi}", 1, SINGLE), plugins=AWARE)
    assert verified_plan(problem).decisions[0].facts[0].code == "GW107"
    fitting = lowered(
        NUMA.replace("POLICY", "best-effort"),
        job("{cpu: 20, memory: 8Gi}", 1, "topologyPolicy: best-effort, "),
        plugins=AWARE,
    )
    assert verified_plan(fitting).decisions[0].action == "start", "best-effort keeps to one cell only where it can"


@pytest.mark.parametrize(("cpu", "portions"), [(10, 1), (20, 0)])
def test_restricted_is_held_to_one_cell_where_one_empty_cell_is_enough(cpu: int, portions: int) -> None:
    pool, asks = (
        NUMA.replace("POLICY", "restricted"),
        job(f"{{cpu: {cpu}, memory: 8Gi}}", 1, "topologyPolicy: restricted, "),
    )
    assert len(lowered(pool, asks, plugins=AWARE).gangs[0].roles[0].slot_requests) == portions


def test_a_numatopology_tells_the_cells_and_what_is_left_of_their_cpus() -> None:
    numa = {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": "n-0"},
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
            "numares": {"cpu": {"allocatable": "0,2-3", "capacity": 4}},
            "cpuDetail": {"0": {}, "1": {"core": 1}, "2": {"numa": 1}, "3": {"numa": 1, "core": 1}},
        },
    }
    pool = "  capacity: {cpu: 4, memory: 8Gi}\n"
    live = (live_node({"cpu": "4", "memory": "8Gi"}), numa)
    problem = lowered(pool, job("{cpu: 2, memory: 1Gi}", 1, SINGLE), plugins=AWARE, live=live)
    assert amounts(problem, "capacity") == [{"cpu": 2000}, {"cpu": 2000}]
    assert amounts(problem) == [{"cpu": 1000}, {"cpu": 2000}]
    assert [use.slot for use in verified_plan(problem).decisions[0].slot_uses] == [1]


CELLS = {
    "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
    "cpuDetail": {str(cpu): {"numa": cpu // 4, "socket": cpu // 4, "core": cpu // 2} for cpu in range(8)},
}
ONE_CELL = job("{cpu: 3, memory: 1Gi}", 1, SINGLE)


def told(idle: str, *pods: dict[str, Any], reserved: str = "0") -> tuple[Problem, tuple[str, ...]]:
    """A node of two NUMA cells of 4 CPUs, of which these are said to be idle, with these pods; and the nodes that are
    behind."""
    spec = {**CELLS, "numares": {"cpu": {"allocatable": idle, "capacity": 8}}, "resReserved": {"cpu": reserved}}
    numa = {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": "n-0"},
        "spec": spec,
    }
    specs = read_specs(tree("  capacity: {cpu: 8, memory: 8Gi}\n", ONE_CELL, plugins=AWARE))
    problem, origins = lower(specs, ClusterState.from_objects((live_node({"cpu": "8", "memory": "8Gi"}), numa, *pods)))
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
        live_node({"cpu": "32", "example.com/gpu-milli": "2000"}),
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
    allocatable = {
        "cpu": "32",
        "volcano.sh/vgpu-memory": "16000",
        "volcano.sh/vgpu-number": "10",
        "volcano.sh/vgpu-cores": "100",
    }
    live = (live_node(allocatable, {"volcano.sh/node-vgpu-register": "GPU-a,10,16000,NVIDIA-A,true,:"}), half)
    assert verified_plan(lowered(VGPUS, job(PERCENT % percent), live=live)).decisions[0].action == action


def test_no_queue_counts_a_percentage() -> None:
    """As in Volcano, whose devices tell a queue the memory and the cores that a pod holds, never the percentage."""
    limited = (
        "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\n"
        "metadata: {name: default}\nspec: {capability: {%s: 50}}\n"
    )
    limited %= "volcano.sh/vgpu-memory-percentage"
    assert verified_plan(lowered(VGPUS, job(PERCENT % 60) + limited)).decisions[0].action == "start"


def test_a_live_nodes_register_and_its_pods_annotations_say_which_device_is_taken() -> None:
    healthy = {"a": "true", "b": "true", "c": "false"}
    register = "".join(f"GPU-{name},10,16000,NVIDIA-A,{flag},hami-core:" for name, flag in healthy.items())
    allocatable = {
        "cpu": "32",
        "volcano.sh/vgpu-memory": "32000",
        "volcano.sh/vgpu-number": "20",
        "volcano.sh/vgpu-cores": "200",
    }
    taken = pod("p", {"volcano.sh/vgpu-number": "1"}, {"volcano.sh/vgpu-ids-new": "GPU-b,NVIDIA,10000,30:"})
    live = (live_node(allocatable, {"volcano.sh/node-vgpu-register": register}), taken)
    problem = lowered(
        VGPUS, job("{volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 8000, volcano.sh/vgpu-cores: 50}"), live=live
    )
    memory = problem.resources.index("volcano.sh/vgpu-memory")
    assert [cell.free[memory] for cell in problem.nodes[0].slots] == [16000, 6000, 0], "GPU-c is ill"
    assert [use.slot for use in verified_plan(problem).decisions[0].slot_uses] == [0]


def test_a_node_is_behind_until_volcano_has_noted_the_cards_of_a_pod() -> None:
    register = "GPU-a,10,16000,NVIDIA-A,true,hami-core:GPU-b,10,16000,NVIDIA-A,true,hami-core:"
    node = live_node({"cpu": "32", "volcano.sh/vgpu-memory": "32000"}, {"volcano.sh/node-vgpu-register": register})
    specs = read_specs(tree(VGPUS, job("{volcano.sh/vgpu-number: 1}")))
    for note, behind in (("", ("n-0",)), ("GPU-b,NVIDIA,16000,0:", ())):
        live = ClusterState.from_objects(
            (node, pod("p", {"volcano.sh/vgpu-number": "1"}, {"volcano.sh/vgpu-ids-new": note}))
        )
        assert lower(specs, live)[1].outdated_nodes == behind


def test_cards_that_share_memory_are_equal_parts_of_the_sum() -> None:
    live = (live_node({"cpu": "32", "volcano.sh/gpu-memory": "32", "volcano.sh/gpu-number": "2"}),)
    problem = lowered("  capacity: {cpu: 32}\n", job("{volcano.sh/gpu-memory: 10}", 3), live=live)
    assert amounts(problem) == [{"volcano.sh/gpu-memory": 16}] * 2
    assert verified_plan(problem).decisions[0].facts[0].code == "GW118"


def test_a_part_of_shared_memory_is_of_one_card() -> None:
    """Volcano gives no pod memory of two cards, however much there is in sum."""
    live = (live_node({"cpu": "32", "volcano.sh/gpu-memory": "32", "volcano.sh/gpu-number": "2"}),)
    large = job("{volcano.sh/gpu-memory: 17}")
    assert is_never(lowered("  capacity: {cpu: 32}\n", large, plugins=SHARING % "GPUSharing", live=live)) is True


def test_cards_that_share_memory_are_those_that_the_node_has_not_those_that_it_offers() -> None:
    node = live_node({"cpu": "32", "volcano.sh/gpu-memory": "32", "volcano.sh/gpu-number": "2"})
    node["metadata"]["annotations"] = {"volcano.sh/gpu-unhealthy-ids": "0"}
    node["status"]["capacity"] = {"cpu": "32", "volcano.sh/gpu-memory": "48", "volcano.sh/gpu-number": "3"}
    for each, never in ((10, False), (17, True)):
        pods = job(f"{{volcano.sh/gpu-memory: {each}}}", 3 - never)
        problem = lowered("  capacity: {cpu: 32}\n", pods, plugins=SHARING % "GPUSharing", live=(node,))
        assert amounts(problem) == [{"volcano.sh/gpu-memory": 16}] * 2 + [{}]
        assert is_never(problem) is never, "the first card may recover, and has 16"


def is_never(problem: Problem) -> bool:
    """Whether the only gang, which waits, can never start."""
    (decision,) = verified_plan(problem).decisions
    assert decision.action == "wait"
    return any(fact.never for fact in decision.facts)


REGISTER = "GPU-a,2,16000,NVIDIA-A,true,hami-core:GPU-b,2,16000,NVIDIA-A,%s,hami-core:"
OFFERED = {
    "cpu": "32",
    "volcano.sh/vgpu-memory": "32000",
    "volcano.sh/vgpu-number": "4",
    "volcano.sh/vgpu-cores": "200",
    "volcano.sh/gpu-memory": "32",
    "volcano.sh/gpu-number": "2",
}


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
    problem = lowered("  capacity: {cpu: 32}\n", job(limits, 3), plugins=SHARING % switch, live=live)
    assert is_never(problem) is never


def test_several_containers_may_take_from_several_numa_nodes() -> None:
    """Volcano puts each into a NUMA node, the plan all of them into one, as the kubelet's pod scope does."""
    cells, two = NUMA.replace("POLICY", "single-numa-node"), job("{cpu: 10, memory: 8Gi}", 1, SINGLE)
    container = "{name: main, image: a, resources: {limits: {cpu: 10, memory: 8Gi}}}"
    assert container in two
    two = two.replace(container, f"{container}, {container.replace('main', 'other')}")
    assert is_never(lowered(cells, two, plugins=AWARE)) is False
    assert is_never(lowered(cells, job("{cpu: 20, memory: 8Gi}", 1, SINGLE), plugins=AWARE)) is True


def test_memory_of_ascends_parts_is_no_amount_of_a_node_where_hami_gives_them_out() -> None:
    node = live_node({"cpu": "32", "huawei.com/Ascend310P": "7"})
    limits = "{huawei.com/Ascend310P: 1, huawei.com/Ascend310P-memory: 3072}"
    for switch, action in (("AscendHAMiVNPU", "start"), ("AscendMindClusterVNPU", "wait")):
        problem = lowered("  capacity: {cpu: 32}\n", job(limits), plugins=SHARING % switch, live=(node,))
        assert verified_plan(problem).decisions[0].action == action


def test_a_lost_nodes_cells_hold_nothing() -> None:
    node = live_node({"cpu": "32", "example.com/gpu-milli": "2000"})
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
def test_too_few_devices_are_said_with_what_a_pod_takes_of_one(pods: str, message: str) -> None:
    """Two devices of 1000; the node has CPUs and devices by name enough for all."""
    live = live_node({"cpu": "32", "example.com/gpu-milli": "9000", "example.com/gpu": "9"})
    (decided,) = compile_repository(tree(FRACTIONS, pods), state=ClusterState.from_objects([live])).decisions
    assert [(reason.code, reason.message) for reason in decided.reasons] == [("GW118", message)]


def test_a_world_that_asks_for_no_parts_has_no_cells() -> None:
    assert lowered(FRACTIONS, job("{cpu: 1}")).nodes[0].slots == ()
    assert lowered(VGPUS, job("{cpu: 1}")).slot_groups == ()


def test_the_json_plan_shows_the_cells_of_pods_that_use_some() -> None:
    outcome = compile_repository(tree(FRACTIONS, job("{example.com/gpu-milli: 500}", 2), job("{cpu: 1}", name="k")))
    first, second = outcome.decisions
    assert first.slot_assignments == (SlotAssignment("w", "n-0", "example.com/gpu-milli", 0, 2),)
    shown = json.loads(json.dumps(as_data(outcome)))["gangs"]
    assert shown[0]["cells"] == [
        {"role": "w", "node": "n-0", "division": "example.com/gpu-milli", "cell": 0, "pods": 2}
    ]
    assert "cells" not in shown[1]
    assert second.slot_assignments == ()
