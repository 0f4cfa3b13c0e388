"""Gangs of 1 to 128 hosts with 8 GPUs each on the real, ragged tree of the Lingjun trace: GPUs placed, and how far each
gang is spread."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from bench.baselines import kueue, volcano
from bench.bound import most_placed
from bench.registry import Comparison, Figures, case
from bench.rivals import PLAN, Outcome, mean, race
from bench.traces import GPUS, lingjun
from solver.planner import solve
from solver.problem import Gang, Problem, Queue, Role, Topology
from solver.semantics.topology import TopologyTree

BASELINES = {"Volcano's order": volcano.place, "Kueue's best fit": kueue.place}
SIZES = {1: 20, 2: 15, 4: 15, 8: 20, 16: 12, 32: 10, 64: 5, 128: 3}
"""Pods of a gang -> percent of the gangs."""

HOST, POD = 1, 2
"""Tiers: below one access switch (at most 8 hosts), below one pod switch."""

WISHES = ("hard", "hard", "soft", "soft", "none")
"""Equally likely. Up to 8 pods ask for one access switch, more for one pod switch; soft ones only prefer to be near."""

LEAST = 0.99
"""Of the LP bound, to be placed."""


def gangs(hosts: int, load: float, seed: int) -> tuple[Gang, ...]:
    """Gangs that ask for `load` times the hosts, the last one cut to fit."""
    rng = random.Random(seed)  # noqa: S311  # the same draw each time
    found: list[Gang] = []
    left = round(load * hosts)
    while left:
        pods = min(left, rng.choices(list(SIZES), list(SIZES.values()))[0])
        wish = rng.choice(WISHES)
        topology = (
            None
            if wish == "none"
            else Topology("soft", 3)
            if wish == "soft"
            else Topology("hard", HOST if pods <= 8 else POD)
        )
        role = Role("worker", pods, pods, (GPUS,), frozenset({0}))
        found.append(Gang(f"gang-{len(found):03}", 0, 0, len(found), pods, (role,), topology))
        left -= pods
    return tuple(found)


def problem(load: float, seed: int) -> Problem:
    tree, nodes = lingjun()
    queue = Queue("all", None, 1, 0, (None,), (None,), (None,), (0,))
    return Problem(("gpu",), nodes, tree, (queue,), gangs(len(nodes), load, seed))


def compared(percent: int, seed: int) -> Figures:
    world = problem(percent / 100, seed)
    found, _, figures = race(world, "gpu", BASELINES)
    given = {
        name: _cost(other, other.gangs) if name == PLAN else planned(world, other) for name, other in found.items()
    }
    bound = most_placed(world, 0)
    rows = tuple(
        (*_row(f"{percent}%, seed {seed}: {name}", of, found, bound, len(world.gangs)), str(given[name]))
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
    claims = {f"the plan places at least {LEAST:.0%} of the LP bound": plan.placed >= LEAST * bound}
    for name, other in found.items():
        if name != PLAN:
            claims[f"it places no fewer GPUs than {name}"] = plan.placed >= other.placed
            common = plan.gangs & other.gangs
            claims[f"it spreads the gangs that both start no further than {name}"] = _cost(plan, common) <= _cost(
                other, common
            )
            claims[f"given the gangs of {name}, it spreads them no further"] = given[name] <= _cost(other, other.gangs)
    title = "The Lingjun tree, 847 hosts of 8 GPUs below 119 access and 3 pod switches"
    return replace(figures, comparison=Comparison(title, heads, rows), claims=claims)


def _row(name: str, of: Outcome, every: dict[str, Outcome], bound: int, asked: int) -> tuple[str, ...]:
    common = frozenset.intersection(*(other.gangs for other in every.values()))
    domains = [mean(of.domains[j][level] for j in common) for level in (0, 1)]
    costs = str(_cost(of, common)), str(_cost(of, of.gangs))
    return (
        name,
        str(of.placed),
        f"{of.placed / bound:.2%}",
        str(asked),
        str(len(of.gangs)),
        f"{domains[0]:.2f}",
        f"{domains[1]:.2f}",
        *costs,
    )


def _cost(of: Outcome, gangs: Iterable[int]) -> int:
    return sum(of.cost[j] for j in gangs)


def planned(world: Problem, of: Outcome) -> int:
    """What the plan costs where nobody else asks than the gangs that someone started. Raises RuntimeError where it does
    not start all of them."""
    plan = solve(replace(world, gangs=tuple(world.gangs[j] for j in sorted(of.gangs))))
    if any(decision.action != "start" for decision in plan.decisions):
        raise RuntimeError("the plan starts fewer of these gangs than who chose them")
    tree = TopologyTree(world)
    return sum(tree.tier_span(world.nodes[p.node].leaf for p in decision.placements) for decision in plan.decisions)


for percent in (60, 90, 120):
    for seed in (1, 2, 3):
        case(
            f"lingjun-{percent}-{seed}",
            f"plan the Lingjun tree, {percent}% load, seed {seed}",
            partial(compared, percent, seed),
        )
