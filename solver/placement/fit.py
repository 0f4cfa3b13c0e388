"""Whether one gang fits alone in a state: what counting proves, and the exact model."""

from __future__ import annotations

import numpy as np
import pulp

from solver.admission.admit import Admission, pods_per_bucket
from solver.facts import DomainShortage, Fact, Fragmentation, SubgroupShortage
from solver.mip.engine import solve_model
from solver.models import constraints, variables
from solver.models.sets import Sets, coarsest_buckets, split_buckets
from solver.options import Options
from solver.placement.pack import pack_buckets
from solver.placement.spread import gang_pods_by_bucket
from solver.problem import Subgroup
from solver.semantics.gang_classes import GangClass
from solver.semantics.order import precedence
from solver.semantics.topology import ROOT, TopologyTree
from solver.state.state import State


def shortage(state: State, gang_class: GangClass) -> Fact | None:
    """Return a proof by counting that the gang does not fit: a role alone, all roles together, every subgroup, every
    domain. None proves nothing."""
    tree, reach = state.tree, fit_counts_by_role(state, gang_class)
    for t, role in enumerate(gang_class.roles):
        if reach[t][ROOT] < role.min_pods:
            return Fragmentation(role.min_pods, reach[t][ROOT], t)
    for k in range(len(gang_class.subgroups)):
        if (short := subgroup_shortage(tree, gang_class, k, reach)) is not None:
            return short
    return total_shortage(gang_class, reach) or domain_shortage(tree, gang_class, reach)


def fit_counts_by_role(state: State, gang_class: GangClass) -> list[dict[int, int]]:
    """Return role -> domain -> pods of the role that fit under it by number, pod rules aside."""
    tree, nodes = state.tree, state.free_nodes
    return [
        tree.sum_per_domain(np.where(tree.class_mask(role.node_classes), nodes.fit_counts(role.pod_request), 0))
        for role in gang_class.roles
    ]


def total_shortage(gang_class: GangClass, reach: list[dict[int, int]]) -> Fragmentation | None:
    """Return all roles together find room for too few pods."""
    total = sum(min(role.max_pods, reach[t][ROOT]) for t, role in enumerate(gang_class.roles))
    return Fragmentation(gang_class.min_pods, total) if total < gang_class.min_pods else None


def domain_shortage(tree: TopologyTree, gang_class: GangClass, reach: list[dict[int, int]]) -> DomainShortage | None:
    """No domain of the gang's tier has room by number; the best of them."""
    if gang_class.hard_tier is None or gang_class.hard_tier > tree.highest_tier:
        return None
    best, at, needed = -1, None, sum(role.min_pods for role in gang_class.roles)
    for h in tree.domains_at_tier(gang_class.hard_tier):
        pods = sum(min(reach[t][h], role.min_pods) for t, role in enumerate(gang_class.roles))
        if pods == needed and sum(r[h] for r in reach) >= gang_class.min_pods:
            return None
        best, at = (pods, h) if pods > best else (best, at)
    return DomainShortage(gang_class.min_pods, max(0, min(best, gang_class.min_pods - 1)), gang_class.hard_tier, at)


def subgroup_shortage(
    tree: TopologyTree, gang_class: GangClass, k: int, reach: list[dict[int, int]]
) -> SubgroupShortage | None:
    """Return the shortage where the domains of subgroup k's tier hold too few of it by number, in the gang's best
    domain; else None."""
    subgroup = gang_class.subgroups[k]
    if gang_class.running_pods or not tree.confines(subgroup.topology):
        return None
    wanted = subgroups_needed(gang_class, subgroup)
    domains, tier, parts = tree.domains_at_tier(subgroup.topology.tier), gang_class.hard_tier, 0
    for home in (ROOT,) if tier is None or tier > tree.highest_tier else tree.domains_at_tier(tier):
        pods = (sum(reach[t][h] for t in subgroup.roles) for h in _common_domains(tree, domains, home))
        parts = max(parts, sum(number // subgroup.size for number in pods))
    return SubgroupShortage(k, subgroup.topology.tier, wanted, parts, subgroup.size) if parts < wanted else None


def subgroups_needed(gang_class: GangClass, subgroup: Subgroup) -> int:
    """Return the least number of parts of the subgroup that the gang needs, without running ones."""
    others = sum(role.max_pods for t, role in enumerate(gang_class.roles) if t not in subgroup.roles)
    pods = max(sum(gang_class.roles[t].min_pods for t in subgroup.roles), gang_class.min_pods - others)
    return -(-pods // subgroup.size)


def _common_domains(tree: TopologyTree, domains: tuple[int, ...], home: int) -> list[int]:
    """Return the intersection of a subgroup's domains with the home of the whole gang, whichever is smaller."""
    if home == ROOT:
        return list(domains)
    return [h for h in domains if home in tree.path(h)] or [home for h in domains if h in tree.path(home)]


def fits_exactly(state: State, j: int, gang_class: GangClass, options: Options) -> bool | None:
    """Return whether gang j fits, queues aside, by the model alone. None when a limit struck before an answer."""
    buckets, gang = coarsest_buckets(state.tree), state.problem.gangs[j]
    while True:
        s = Sets(state, buckets, (gang_class,), {(gang.queue, precedence(gang), 0): (j,)})
        x = variables.build_variables(s)
        constraints.add_constraints(s, x, constraints.PLACEMENT_CONSTRAINTS)
        (y,) = x.y.values()
        x.model.setObjective(pulp.LpAffineExpression([(y, 1)]))
        answer = solve_model(x.model, options)
        if not answer.values.get(y.name):
            proven = answer.status == "infeasible" or (answer.values and answer.status == "optimal")
            return False if proven else None
        admission = Admission((j,), pods_per_bucket(x, answer.values), ())
        packed = pack_buckets(s, (j,), gang_pods_by_bucket(s, admission), options)
        if not isinstance(packed, tuple):
            return True
        buckets, coarse = split_buckets(buckets, packed), len(buckets)
        if len(buckets) == coarse:
            return None  # on a single node the search for device slots gave up
