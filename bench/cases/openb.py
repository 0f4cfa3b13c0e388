"""The openb cluster (1,523 machines, 6,212 GPUs of 7 models) filled with single pods that arrive until it is full, as in the FGD paper (ATC'23)."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from bench.baselines import single, volcano
from bench.registry import Comparison, Figures, case
from bench.rivals import PLAN, race
from bench.traces import Machine, Pod, openb_machines, openb_pods
from solver.options import Options
from solver.problem import Gang, Node, Problem, Queue, Role

RESOURCES = ("cpu", "memory", "gpu")
GPU = RESOURCES.index("gpu")
WHOLE = 1000
"""Thousandths of a device."""

OVERLOAD = 1.3
"""Pods arrive until they have asked for this many times the cluster's GPUs."""

SECONDS = 30.0
"""For the plan: beyond its floor there is only a model over single nodes, which takes minutes to gain the last percent."""

BASELINES = {
    "gradient descent": lambda problem: single.gradient_descent(problem, "gpu"),
    "best fit": single.best_fit,
    "Volcano's order": volcano.place,
}


def problem(machines: list[Machine], pods: list[Pod], seed: int, overload: float = OVERLOAD) -> Problem:
    """Pods drawn with replacement from the list, in the order of their arrival; each is a gang of one. Kinds are GPU models."""
    models = sorted({m.model for m in machines})
    rng = random.Random(seed)  # noqa: S311  # the same draw each time
    amounts = [(m.cpu, m.memory, m.gpus) for m in machines]
    nodes = tuple(Node(m.name, models.index(m.model), None, a, a) for m, a in zip(machines, amounts, strict=True))
    left, gangs = overload * sum(m.gpus for m in machines), list[Gang]()
    while left > 0:
        pod = rng.choice(pods)
        kinds = frozenset(k for k, model in enumerate(models) if not pod.models or model in pod.models)
        role = Role("pod", 1, 1, (pod.cpu, pod.memory, pod.gpus), kinds)
        gangs.append(Gang(f"pod-{len(gangs):05}", 0, 0, len(gangs), 1, (role,)))
        left -= pod.gpus
    nothing = (None,) * len(RESOURCES)
    return Problem(RESOURCES, nodes, (), (Queue("all", None, 1, 0, nothing, nothing, nothing, (0, 0, 0)),), tuple(gangs))


def whole(which: str, seed: int) -> Figures:
    world = problem(openb_machines(), [pod for pod in openb_pods(which) if pod.share in (0, WHOLE)], seed)
    found, _, figures = race(world, "gpu", BASELINES, Options(time_limit=SECONDS))
    total = sum(node.capacity[GPU] for node in world.nodes)
    rows = tuple(
        (
            f"{which}, whole GPUs: {name}",
            str(total),
            str(of.placed),
            f"{of.placed / total:.2%}",
            str(total - of.placed),
            str(len(of.gangs)),
            f"{of.seconds:.1f}",
        )
        for name, of in found.items()
    )
    heads = ("pods and who", "GPUs", "allocated", "of all", "stranded", "pods", "seconds")
    title = f"openb, pods that ask for {OVERLOAD:.0%} of its GPUs"
    claims = {f"the plan allocates no fewer GPUs than {name}": found[PLAN].placed >= of.placed for name, of in found.items() if name != PLAN}
    return replace(figures, comparison=Comparison(title, heads, rows), claims=claims)


for which in ("default", "gpuspec33"):
    case(f"openb-{which}", f"plan the openb cluster, list {which}, whole GPUs", partial(whole, which, 1))
