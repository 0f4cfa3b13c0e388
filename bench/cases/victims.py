"""100 full clusters, one gang of high priority each: how many pods go for it, by the plan and by a port of Volcano's
gangpreempt."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace

from bench.baselines.gangpreempt import preempt_for_gang
from bench.baselines.plan import plan_of_placements
from bench.measure import peak_memory
from bench.registry import Comparison, Figures, register_case
from solver.planner import solve
from solver.problem import EvictionTerms, Gang, HyperNode, Node, Placement, Problem, Queue, Role, Topology
from solver.verify import verify

CLUSTERS = 100
GPUS, LEAVES_PER_SPINE = 8, 4
LOW, MIDDLE, HIGH = 10, 100, 1000
SECONDS_RUN = 3600
"""Seconds that every running pod has run: with equal losses the least loss is the fewest pods."""


def problem(seed: int) -> Problem:
    """8 to 16 leaves of 4 to 8 nodes with 8 GPUs, all held by running gangs, most of which may be evicted and some of
    which have pods to spare."""
    rng = random.Random(seed)  # noqa: S311  # the same draw each time
    leaves, width = rng.choice((8, 12, 16)), rng.choice((4, 6, 8))
    spines = leaves // LEAVES_PER_SPINE
    tree = (
        *(HyperNode(f"leaf-{h}", 1, leaves + h // LEAVES_PER_SPINE) for h in range(leaves)),
        *(HyperNode(f"spine-{h}", 2) for h in range(spines)),
    )
    nodes = tuple(Node(f"node-{n}", 0, n // width, (GPUS,), (GPUS,)) for n in range(leaves * width))
    running = _running_gangs(rng, len(nodes))
    pods, size = rng.choice((2, 4, 6, 8)), rng.choice((2, 4, 8))
    topology = rng.choice((Topology("hard", 1), Topology("hard", 2), None))
    if topology is not None and topology.tier == 1:
        pods = min(pods, width)
    role = Role("worker", pods, pods, (size,), frozenset({0}))
    winner = Gang("winner", 0, HIGH, len(running), pods, (role,), topology)
    queue = Queue("all", None, 1, 0, (None,), (None,), (None,), (0,))
    return Problem(("gpu",), nodes, tree, (queue,), (*running, winner), preempt_enabled=True)


def _running_gangs(rng: random.Random, nodes: int) -> list[Gang]:
    """Gangs of up to 8 pods of one size, on neighbouring nodes as they would have been placed, until nothing is
    free."""
    free: list[int] = [GPUS] * nodes
    gangs: list[Gang] = []
    while any(free):
        size, pods = rng.choice((1, 2, 4, 8, 8)), rng.randint(1, 8)
        placed: dict[int, int] = {}
        start = rng.randrange(nodes)
        for n in ((start + i) % nodes for i in range(nodes)):
            fits = min(pods - sum(placed.values()), free[n] // size)
            if fits > 0:
                placed[n] = fits
                free[n] -= fits * size
        number = sum(placed.values())
        if number:
            least = number if rng.random() < 0.7 else max(1, number - rng.randint(1, number))
            role = Role("worker", number, least, (size,), frozenset({0}))
            run = tuple(Placement(0, n, count) for n, count in sorted(placed.items()))
            priority, evictable = rng.choice((LOW, MIDDLE)), rng.random() < 0.9
            gangs.append(
                Gang(
                    f"gang-{len(gangs)}",
                    0,
                    priority,
                    len(gangs),
                    least,
                    (role,),
                    running=run,
                    eviction=EvictionTerms(evictable=evictable, loss=SECONDS_RUN),
                )
            )
    return gangs


@dataclass(frozen=True, slots=True)
class EvictionCount:
    """pods, gangs: evicted. None where the gang does not start."""

    pods: int
    gangs: int


def evictions_by_plan(world: Problem) -> EvictionCount | None:
    """Raises RuntimeError for a plan that the verifier refuses."""
    plan = solve(world)
    if faults := verify(world, plan):
        raise RuntimeError(f"not a valid plan: {faults[0]}")
    if plan.decisions[-1].action != "start":
        return None
    gone = [d.evicted_pods for d in plan.decisions if d.evicted_pods]
    return EvictionCount(sum(p.pods for pods in gone for p in pods), len(gone))


def evictions_by_port(world: Problem) -> EvictionCount | None:
    """The verifier may only find that victims go for nothing, which Volcano does not promise against. Raises
    RuntimeError for anything else."""
    winner = len(world.gangs) - 1
    found = preempt_for_gang(world, winner)
    if found is None:
        return None
    kept = {
        j: tuple(_remaining_pods(gang, found.evicted_pods.get(j, ())))
        for j, gang in enumerate(world.gangs)
        if gang.running
    }
    plan = plan_of_placements(world, {**kept, winner: found.placements}, found.evicted_pods, winner)
    if faults := [fault for fault in verify(world, plan) if fault.rule != "eviction_necessity"]:
        raise RuntimeError(f"the port made no valid plan: {faults[0]}")
    return EvictionCount(sum(p.pods for pods in found.evicted_pods.values() for p in pods), len(found.evicted_pods))


def _remaining_pods(gang: Gang, evicted_pods: tuple[Placement, ...]) -> list[Placement]:
    lost = {(p.role, p.node): p.pods for p in evicted_pods}
    return [
        replace(p, pods=p.pods - lost.get((p.role, p.node), 0))
        for p in gang.running
        if p.pods > lost.get((p.role, p.node), 0)
    ]


def measure_victims() -> Figures:
    worlds = [problem(seed) for seed in range(1, CLUSTERS + 1)]
    wall, cpu = time.perf_counter(), time.process_time()
    plans = [evictions_by_plan(world) for world in worlds]
    wall, cpu, most = time.perf_counter() - wall, time.process_time() - cpu, peak_memory()
    ports = [evictions_by_port(world) for world in worlds]
    both = [
        (ours, theirs) for ours, theirs in zip(plans, ports, strict=True) if ours is not None and theirs is not None
    ]
    ours, theirs = (sum(pair[which].pods for pair in both) for which in (0, 1))
    rows = tuple(
        (
            name,
            str(sum(x is not None for x in found)),
            str(pods),
            str(sum(pair[which].gangs for pair in both)),
            f"{pods / max(1, ours):.2f}",
        )
        for which, (name, found, pods) in enumerate((("plan", plans, ours), ("Volcano's gangpreempt", ports, theirs)))
    )
    heads = ("who", "gangs that start", "pods evicted where both start one", "gangs hit", "pods, the plan's = 1")
    claims = {
        "the plan starts every gang that the port starts": all(
            ours is not None for ours, theirs in zip(plans, ports, strict=True) if theirs is not None
        ),
        "it evicts no more pods than the port in any cluster": all(ours.pods <= theirs.pods for ours, theirs in both),
    }
    title = f"{CLUSTERS} full clusters of 32 to 128 nodes, one gang of high priority each"
    return Figures(wall, cpu, most, comparison=Comparison(title, heads, rows), claims=claims)


register_case("victims", f"plan {CLUSTERS} full clusters, one gang of high priority each", measure_victims)
