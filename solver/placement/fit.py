"""Whether one gang fits alone on given free vectors: by counting where counting proves a no, by the greedy for a yes,
else by an exact model."""

from __future__ import annotations

import pulp

from solver.admission.admit import Admission, pods_per_bucket
from solver.facts import DomainShortage, Fact, Fragmentation, SubgroupShortage
from solver.greedy.best_fit import GreedyPlacer
from solver.mip.engine import solve_model
from solver.models import constraints, variables
from solver.models.sets import Sets, coarsest_buckets, split_buckets
from solver.options import Options
from solver.placement.realise import pack_buckets
from solver.placement.spread import gang_pods_by_bucket
from solver.problem import Placement, Problem, Subgroup
from solver.semantics.device_slots import FreeVectors
from solver.semantics.gang_classes import GangClass
from solver.semantics.priorities import precedence
from solver.semantics.topology import ROOT, TopologyTree
from solver.state.free_nodes import FreeNodes
from solver.state.pod_rules import PodRuleCounts
from solver.state.queue_books import QueueBooks


def shortage(problem: Problem, tree: TopologyTree, shape: GangClass, free: FreeVectors) -> Fact | None:
    """A proof by counting that the gang does not fit: a role alone, all roles together, every subgroup, every domain.
    None proves nothing."""
    reach = fit_counts_by_role(problem, tree, shape, free)
    for t, role in enumerate(shape.roles):
        if reach[t][ROOT] < role.min_pods:
            return Fragmentation(role.min_pods, reach[t][ROOT], t)
    for k in range(len(shape.subgroups)):
        if (short := subgroup_shortage(tree, shape, k, reach)) is not None:
            return short
    return total_shortage(shape, reach) or domain_shortage(tree, shape, reach)


def fit_counts_by_role(
    problem: Problem, tree: TopologyTree, shape: GangClass, free: FreeVectors
) -> list[dict[int, int]]:
    """Role -> domain -> pods of the role that fit under it by number."""
    greedy = GreedyPlacer(problem, tree, FreeNodes(free))
    return [greedy.fit_counts_by_domain(shape, t) for t in range(len(shape.roles))]


def total_shortage(shape: GangClass, reach: list[dict[int, int]]) -> Fragmentation | None:
    """All roles together find room for too few pods."""
    total = sum(min(role.max_pods, reach[t][ROOT]) for t, role in enumerate(shape.roles))
    return Fragmentation(shape.min_pods, total) if total < shape.min_pods else None


def domain_shortage(tree: TopologyTree, shape: GangClass, reach: list[dict[int, int]]) -> DomainShortage | None:
    """No domain of the gang's tier has room by number; the best of them."""
    if shape.hard_tier is None or shape.hard_tier > tree.highest_tier:
        return None
    best, at = -1, None
    for h in tree.domains_at_tier(shape.hard_tier):
        if (
            all(reach[t][h] >= role.min_pods for t, role in enumerate(shape.roles))
            and sum(r[h] for r in reach) >= shape.min_pods
        ):
            return None
        pods = sum(min(reach[t][h], role.min_pods) for t, role in enumerate(shape.roles))
        best, at = (pods, h) if pods > best else (best, at)
    return DomainShortage(shape.min_pods, max(0, min(best, shape.min_pods - 1)), shape.hard_tier, at)


def subgroup_shortage(
    tree: TopologyTree, shape: GangClass, k: int, reach: list[dict[int, int]]
) -> SubgroupShortage | None:
    """The domains of subgroup k's tier hold too few of it by number, inside the best domain of the gang."""
    subgroup = shape.subgroups[k]
    if subgroup.topology.mode != "hard" or subgroup.topology.tier > tree.highest_tier or shape.running_pods:
        return None
    wanted = subgroups_needed(shape, subgroup)
    domains = tree.domains_at_tier(subgroup.topology.tier)
    homes = (
        tree.domains_at_tier(shape.hard_tier)
        if shape.hard_tier is not None and shape.hard_tier <= tree.highest_tier
        else (ROOT,)
    )
    parts = max(
        (
            sum(sum(reach[t][h] for t in subgroup.roles) // subgroup.size for h in _common_domains(tree, domains, home))
            for home in homes
        ),
        default=0,
    )
    return SubgroupShortage(k, subgroup.topology.tier, wanted, parts, subgroup.size) if parts < wanted else None


def subgroups_needed(shape: GangClass, subgroup: Subgroup) -> int:
    """How many parts of the subgroup the gang needs at least, those that run not counted."""
    others = sum(role.max_pods for t, role in enumerate(shape.roles) if t not in subgroup.roles)
    return -(-max(sum(shape.roles[t].min_pods for t in subgroup.roles), shape.min_pods - others) // subgroup.size)


def _common_domains(tree: TopologyTree, domains: tuple[int, ...], home: int) -> list[int]:
    """What the domains of a subgroup have in common with the home of the whole gang, be they smaller or larger."""
    if home == ROOT:
        return list(domains)
    return [h for h in domains if home in tree.path(h)] or [home for h in domains if h in tree.path(home)]


def gang_fits(
    problem: Problem,
    tree: TopologyTree,
    j: int,
    shape: GangClass,
    free: FreeVectors,
    options: Options,
    neighbours: PodRuleCounts | None = None,
) -> bool | None:
    """Whether the gang fits, queues aside: exact; None when a limit struck before an answer. Without neighbours
    relations are not minded."""
    placed = greedy_placement(problem, tree, j, shape, free, neighbours)
    return True if placed is not None else fits_exactly(problem, tree, j, shape, free, options, neighbours)


def greedy_placement(
    problem: Problem,
    tree: TopologyTree,
    j: int,
    shape: GangClass,
    free: FreeVectors,
    neighbours: PodRuleCounts | None = None,
) -> tuple[Placement, ...] | None:
    """A place for the gang as the greedy finds it; None proves nothing."""
    return GreedyPlacer(problem, tree, FreeNodes(free, neighbours)).place_gang(j, shape)


def fits_exactly(
    problem: Problem,
    tree: TopologyTree,
    j: int,
    shape: GangClass,
    free: FreeVectors,
    options: Options,
    neighbours: PodRuleCounts | None = None,
) -> bool | None:
    """`holds` by the model alone."""
    places = coarsest_buckets(problem)
    waiting = {(problem.gangs[j].queue, precedence(problem.gangs[j]), 0): (j,)}
    while True:
        s = Sets(problem, tree, places, free, QueueBooks(problem), (shape,), waiting, neighbours)
        x = variables.build_variables(s)
        constraints.add_constraints(s, x, constraints.PLACEMENT_CONSTRAINTS)
        (y,) = x.y.values()
        x.model.setObjective(pulp.LpAffineExpression([(y, 1)]))
        answer = solve_model(x.model, options)
        if answer.status == "infeasible" or (
            answer.values and answer.status == "optimal" and not answer.values[y.name]
        ):
            return False
        if not answer.values or not answer.values[y.name]:
            return None
        packed = pack_buckets(
            s, (j,), gang_pods_by_bucket(s, Admission((j,), pods_per_bucket(x, answer.values), ())), options
        )
        if not isinstance(packed, tuple):
            return True
        places = split_buckets(places, packed)
