"""Gangs of 1 to 128 hosts with 8 GPUs each on the real, ragged tree of the Lingjun trace: GPUs placed, and how far each
gang is spread."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from bench.baselines import kueue, volcano
from bench.bound import placed_upper_bound
from bench.registry import Comparison, Figures, register_case
from bench.rivals import PLAN, PlacementResult, compare_with_baselines, mean
from bench.traces import GPUS_PER_HOST, lingjun_topology
from solver.planner import solve
from solver.problem import Gang, Problem, Queue, Role, Topology
from solver.semantics.topology import TopologyTree

BASELINES = {"Volcano's order": volcano.place_gangs, "Kueue's best fit": kueue.place_gangs}
SIZES = {1: 20, 2: 15, 4: 15, 8: 20, 16: 12, 32: 10, 64: 5, 128: 3}
"""Pods of a gang -> percent of the gangs."""

HOST_TIER, POD_TIER = 1, 2
"""Tiers: below one access switch (at most 8 hosts), below one pod switch."""

TOPOLOGY_CHOICES = ("hard", "hard", "soft", "soft", "none")
"""Equally likely. Up to 8 pods ask for one access switch, more for one pod switch; soft ones only prefer to be near."""

LEAST_SHARE = 0.99
"""Least part of the LP bound to be placed."""


def draw_gangs(hosts: int, load: float, seed: int) -> tuple[Gang, ...]:
    """Gangs that ask for `load` times the hosts, the last one cut to fit."""
    rng = random.Random(seed)  # noqa: S311  # the same draw each time
    found: list[Gang] = []
    left = round(load * hosts)
    while left:
        pods = min(left, rng.choices(list(SIZES), list(SIZES.values()))[0])
        wish = rng.choice(TOPOLOGY_CHOICES)
        topology = (
            None
            if wish == "none"
            else Topology("soft", 3)
            if wish == "soft"
            else Topology("hard", HOST_TIER if pods <= 8 else POD_TIER)
        )
        role = Role("worker", pods, pods, (GPUS_PER_HOST,), frozenset({0}))
        found.append(Gang(f"gang-{len(found):03}", 0, 0, len(found), pods, (role,), topology))
        left -= pods
    return tuple(found)


def problem(load: float, seed: int) -> Problem:
    tree, nodes = lingjun_topology()
    queue = Queue("all", None, 1, 0, (None,), (None,), (None,), (0,))
    return Problem(("gpu",), nodes, tree, (queue,), draw_gangs(len(nodes), load, seed))


def measure_comparison(percent: int, seed: int) -> Figures:
    world = problem(percent / 100, seed)
    found, _, figures = compare_with_baselines(world, "gpu", BASELINES)
    given = {
        name: _total_cost(other, other.gangs) if name == PLAN else replanned_cost(world, other)
        for name, other in found.items()
    }
    bound = placed_upper_bound(world, 0)
    rows = tuple(
        (*_result_row(f"{percent}%, seed {seed}: {name}", of, found, bound, len(world.gangs)), str(given[name]))
        for name, of in found.items()
    )
    heads = (
        "load and draw",
        "GPUs placed",
        "of the LP bound",
        "gangs",
        "started",
        "access switches per gang",
        "pod switches",
        "cost, gangs that all start",
        "cost, its own gangs",
        "the plan's, given these",
    )
    plan = found[PLAN]
    claims = {f"the plan places at least {LEAST_SHARE:.0%} of the LP bound": plan.placed >= LEAST_SHARE * bound}
    for name, other in found.items():
        if name != PLAN:
            claims[f"it places no fewer GPUs than {name}"] = plan.placed >= other.placed
            common = plan.gangs & other.gangs
            claims[f"it spreads the gangs that both start no further than {name}"] = _total_cost(
                plan, common
            ) <= _total_cost(other, common)
            claims[f"given the gangs of {name}, it spreads them no further"] = given[name] <= _total_cost(
                other, other.gangs
            )
    title = "The Lingjun tree, 847 hosts of 8 GPUs below 119 access and 3 pod switches"
    return replace(figures, comparison=Comparison(title, heads, rows), claims=claims)


def _result_row(
    name: str, result: PlacementResult, results: dict[str, PlacementResult], bound: int, asked: int
) -> tuple[str, ...]:
    common = frozenset.intersection(*(other.gangs for other in results.values()))
    domains = [mean(result.domains[j][level] for j in common) for level in (0, 1)]
    costs = str(_total_cost(result, common)), str(_total_cost(result, result.gangs))
    return (
        name,
        str(result.placed),
        f"{result.placed / bound:.2%}",
        str(asked),
        str(len(result.gangs)),
        f"{domains[0]:.2f}",
        f"{domains[1]:.2f}",
        *costs,
    )


def _total_cost(result: PlacementResult, gangs: Iterable[int]) -> int:
    return sum(result.cost[j] for j in gangs)


def replanned_cost(world: Problem, result: PlacementResult) -> int:
    """Return the plan's cost if only the started gangs request anything. Raises RuntimeError if it does not start all
    of them."""
    plan = solve(replace(world, gangs=tuple(world.gangs[j] for j in sorted(result.gangs))))
    if any(decision.action != "start" for decision in plan.decisions):
        raise RuntimeError("the plan starts fewer of these gangs than who chose them")
    tree = TopologyTree(world)
    return sum(tree.tier_span(world.nodes[p.node].leaf for p in decision.placements) for decision in plan.decisions)


for percent in (60, 90, 120):
    for seed in (1, 2, 3):
        register_case(
            f"lingjun-{percent}-{seed}",
            f"plan the Lingjun tree, {percent}% load, seed {seed}",
            partial(measure_comparison, percent, seed),
        )
