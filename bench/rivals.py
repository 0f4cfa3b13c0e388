"""A plan and the baselines on one problem: the amounts that each places, how far apart it puts the pods of a gang, and
the remaining fragments.

Every plan, the baselines' too, must satisfy `solver.verify`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bench.baselines.plan import plan_of_placements
from bench.baselines.site import Placements
from bench.measure import peak_memory
from bench.registry import Figures
from solver.options import Options
from solver.plan import Plan
from solver.planner import solve
from solver.problem import Problem
from solver.semantics.topology import TopologyTree
from solver.verify import verify

PLAN = "plan"
Baselines = Mapping[str, Callable[[Problem], Placements]]


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """gangs: started ones. placed: amount of the resource. cost: gang -> `Tree.span`. domains: gang -> domains touched,
    for each tier.

    seconds: wall clock, planning alone.
    """

    gangs: frozenset[int]
    placed: int
    cost: Mapping[int, int]
    domains: Mapping[int, tuple[int, ...]]
    seconds: float


def placement_result(problem: Problem, plan: Plan, resource: str, seconds: float) -> PlacementResult:
    """Raises RuntimeError for a plan that the verifier refuses: a figure without a valid plan is worth nothing."""
    if faults := verify(problem, plan):
        raise RuntimeError(f"not a valid plan: {faults[0]}")
    tree, r = TopologyTree(problem), problem.resources.index(resource)
    started = [d for d in plan.decisions if d.action == "start"]
    leaves = {d.gang: {problem.nodes[p.node].leaf for p in d.placements} for d in started}
    return PlacementResult(
        frozenset(leaves),
        sum(p.pods * problem.gangs[d.gang].roles[p.role].request[r] for d in started for p in d.placements),
        {j: tree.tier_span(touched) for j, touched in leaves.items()},
        {
            j: tuple(len({tree.domains_by_tier(leaf)[level] for leaf in touched}) for level in range(len(tree.tiers)))
            for j, touched in leaves.items()
        },
        seconds,
    )


def compare_with_baselines(
    problem: Problem, resource: str, baselines: Baselines, options: Options | None = None
) -> tuple[dict[str, PlacementResult], Plan, Figures]:
    """Return name -> outcome, the plan first; the plan itself; and its figures, without the baselines."""
    wall, cpu = time.perf_counter(), time.process_time()
    plan = solve(problem, options)
    solved = time.perf_counter() - wall
    faults = verify(problem, plan)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if faults:
        raise RuntimeError(f"not a valid plan: {faults[0]}")
    figures = Figures(wall, cpu, peak_memory(), {"solve": solved, "verify": wall - solved})
    found = {PLAN: placement_result(problem, plan, resource, solved)}
    for name, place in baselines.items():
        start = time.perf_counter()
        placements = place(problem)
        found[name] = placement_result(
            problem, plan_of_placements(problem, placements), resource, time.perf_counter() - start
        )
    return found, plan, figures


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
