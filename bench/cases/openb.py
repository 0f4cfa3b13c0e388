"""The openb cluster (1,523 machines, 6,212 GPUs of 7 models) filled with single pods that arrive until it is full, as
in the FGD paper (ATC'23)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bench.baselines import single, volcano
from bench.bound import placed_upper_bound
from bench.registry import Comparison, Figures, register_case
from bench.rivals import PLAN, PlacementResult, compare_with_baselines
from bench.traces import TraceMachine, TracePod, openb_machines, openb_pods
from solver.options import Options
from solver.problem import DeviceSlot, Gang, Node, Problem, Queue, Role, SlotRequest

RESOURCES = ("cpu", "memory", "gpu")
GPU = RESOURCES.index("gpu")
GPU_UNITS = 1000
"""Thousandths of a device, the unit in which GPUs are counted."""

OVERLOAD = 1.3
"""Pods arrive until they have asked for this many times the cluster's GPUs."""

SECONDS = 120.0
"""For the plan, so that its own limits strike before the clock."""

BASELINES = {
    "gradient descent": lambda problem: single.place_by_gradient(problem, "gpu", GPU_UNITS),
    "best fit": single.place_by_best_fit,
    "Volcano's order": volcano.place_gangs,
}

POD_SELECTIONS = {"whole GPUs": False, "shared GPUs": True}
"""Which pods of a list arrive -> whether pods that request less than a GPU are among them."""


def problem(machines: list[TraceMachine], pods: list[TracePod], seed: int, overload: float = OVERLOAD) -> Problem:
    """Pods drawn with replacement from the list, in the order of their arrival; each is a gang of one. Kinds are GPU
    models.

    GPUs are cells of their node, from which a pod takes its shares, where some pod asks for less than a whole one; else
    a number.
    """
    models = sorted({m.model for m in machines})
    rng = random.Random(seed)  # noqa: S311  # the same draw each time
    shared = any(pod.share % GPU_UNITS for pod in pods)
    device = (0, 0, GPU_UNITS)
    nodes = []
    for m in machines:
        amount = (m.cpu, m.memory, m.gpus * GPU_UNITS)
        nodes.append(
            Node(
                m.name,
                models.index(m.model),
                None,
                amount,
                amount,
                (DeviceSlot(0, device, device),) * m.gpus if shared else (),
            )
        )
    left, gangs = overload * sum(m.gpus for m in machines) * GPU_UNITS, list[Gang]()
    while left > 0:
        pod = rng.choice(pods)
        kinds = frozenset(k for k, model in enumerate(models) if not pod.models or model in pod.models)
        portions = (SlotRequest(0, pod.gpus, (0, 0, pod.share)),) if shared and pod.gpus else ()
        role = Role("pod", 1, 1, (pod.cpu, pod.memory, pod.gpus * pod.share), kinds, slot_requests=portions)
        gangs.append(Gang(f"pod-{len(gangs):05}", 0, 0, len(gangs), 1, (role,)))
        left -= pod.gpus * pod.share
    nothing = (None,) * len(RESOURCES)
    queue = Queue("all", None, 1, 0, nothing, nothing, nothing, (0, 0, 0))
    return Problem(RESOURCES, tuple(nodes), (), (queue,), tuple(gangs), slot_groups=("device",) if shared else ())


def measure_filling(list_name: str, pod_selection: str, seed: int) -> Figures:
    """Figures of a plan of the list `list_name`, of its pods those of `pod_selection` (`POD_SELECTIONS`)."""
    world = problem(
        openb_machines(),
        [pod for pod in openb_pods(list_name) if POD_SELECTIONS[pod_selection] or pod.share in (0, GPU_UNITS)],
        seed,
    )
    found, _, figures = compare_with_baselines(world, "gpu", BASELINES, Options(time_limit=SECONDS))
    bound = placed_upper_bound(world, GPU)
    rows = tuple(
        _result_row(f"{list_name}, {pod_selection}: {name}", of, found, world, bound) for name, of in found.items()
    )
    heads = (
        "pods and who",
        "GPUs",
        "allocated",
        "of the LP bound",
        "the plan's part more",
        "stranded",
        "pods",
        "seconds",
    )
    title = f"openb, pods that ask for {OVERLOAD:.0%} of its GPUs"
    plan = found[PLAN]
    claims = {}
    for name, of in found.items():
        if name != PLAN:
            claims[f"the plan allocates no fewer GPUs than {name}"] = plan.placed >= of.placed
    return replace(figures, comparison=Comparison(title, heads, rows), claims=claims)


def _result_row(
    label: str, result: PlacementResult, results: Mapping[str, PlacementResult], world: Problem, bound: int
) -> tuple[str, ...]:
    total = sum(node.capacity[GPU] for node in world.nodes)
    return (
        label,
        str(total // GPU_UNITS),
        f"{result.placed / GPU_UNITS:.1f}",
        f"{result.placed / bound:.2%}",
        f"{results[PLAN].placed / result.placed - 1:+.2%}",
        f"{(total - result.placed) / GPU_UNITS:.1f}",
        str(len(result.gangs)),
        f"{result.seconds:.1f}",
    )


for which in ("default", "gpuspec33"):
    for pods, part in (("whole GPUs", ""), ("shared GPUs", "-shared")):
        register_case(
            f"openb-{which}{part}",
            f"plan the openb cluster, list {which}, {pods}",
            partial(measure_filling, which, pods, 1),
        )
