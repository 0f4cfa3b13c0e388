"""What may keep a gang from finding room: for each family of obstacles the gang or the world without it, and the fact
that says it with its numbers.

A new kind of obstacle is one more `Family` in `now` or `never`, and a function that makes its fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from solver.diagnosis.blockers import blockers
from solver.diagnosis.minimal import minimal_subset
from solver.diagnosis.world import FitQuestion, GangDiagnosis, Scenario
from solver.facts import (
    AwayNodes,
    DomainShortage,
    EligibleNodeShortage,
    Fact,
    Fragmentation,
    NoEligibleNode,
    OversizedGang,
    OversizedPod,
    OversizedSlotRequest,
    OwnRunningPods,
    PodRuleConflict,
    PrecedingGangs,
    ResourceShortage,
    SlotShortage,
    SubgroupShortage,
    UnmatchedPod,
)
from solver.greedy.best_fit import GreedyPlacer
from solver.placement.fit import (
    domain_shortage,
    fit_counts_by_role,
    greedy_placement,
    subgroup_shortage,
    subgroups_needed,
    total_shortage,
)
from solver.problem import Gang, PodRequest, Role, Topology
from solver.semantics.device_slots import FreeVectors
from solver.semantics.topology import ROOT

ANY_DOMAIN = Topology("soft", 1)


@dataclass(frozen=True)
class ObstacleFamily:
    """relax: the setting without this obstacle. fact: what to say of it, given a setting in which all else that is
    blamed is out of the way."""

    relax: Callable[[Scenario], Scenario]
    fact: Callable[[Scenario], Fact]


def current_obstacles(case: GangDiagnosis) -> list[ObstacleFamily]:
    """What may be in the way now of a gang that the empty cluster holds, anew or beside its pods that run; whom to
    blame first stands first."""
    *first, last = cluster_obstacles(case)
    first = [*first, *pod_rule_obstacles(case)]
    anew = (
        [ObstacleFamily(_relax_own_pods, partial(own_pods_fact, case))]
        if case.gang.running and case.fits(case.empty_scenario) is not False
        else []
    )
    return [*first, *topology_obstacles(case, case.gang), *slot_obstacles(case, case.gang), last, *anew]


def cluster_obstacles(case: GangDiagnosis) -> list[ObstacleFamily]:
    """What does not lie in the gang itself."""
    away = (
        [ObstacleFamily(partial(_relax_away_nodes, case.state.away_nodes), partial(away_nodes_fact, case))]
        if case.state.away_nodes
        else []
    )
    return [*away, ObstacleFamily(_relax_running, partial(capacity_fact, case))]


def permanent_obstacles(case: GangDiagnosis) -> list[ObstacleFamily]:
    """What may be in the way of a gang even on the empty cluster."""
    gang = case.empty_scenario.gang
    roles = range(len(gang.roles))
    made = [*pod_rule_obstacles(case), *topology_obstacles(case, gang), *slot_obstacles(case, gang)]
    made += [
        ObstacleFamily(partial(_relax_pod_requests, (t,)), partial(pod_size_fact, case, t))
        for t in oversized_roles(case, case.empty_scenario)
    ]
    made += [ObstacleFamily(partial(_relax_node_classes, case, t), partial(node_class_fact, case, t)) for t in roles]
    return [*made, ObstacleFamily(partial(_relax_pod_requests, roles), partial(gang_size_fact, case))]


def pod_rule_obstacles(case: GangDiagnosis) -> list[ObstacleFamily]:
    """What the gang's pods say of others, and others of them."""
    related = case.state.rule_counts is not None and any(
        role.owned_rules or role.selecting_rules for role in case.gang.roles
    )
    return [ObstacleFamily(_relax_pod_rules, partial(pod_rule_fact, case))] if related else []


def topology_obstacles(case: GangDiagnosis, gang: Gang) -> list[ObstacleFamily]:
    """The hard topology of the whole gang, and that of each kind of subgroup."""
    made = []
    top = case.state.tree.highest_tier
    if gang.topology is not None and gang.topology.mode == "hard" and gang.topology.tier <= top:
        made.append(ObstacleFamily(_relax_topology, partial(domain_fact, case, gang.topology.tier)))
    for i, part in enumerate(gang.subgroups):
        if part.topology.mode == "hard" and part.topology.tier <= top:
            made.append(ObstacleFamily(partial(_relax_subgroup_topology, i), partial(subgroup_fact, case, i)))
    return made


def slot_obstacles(case: GangDiagnosis, gang: Gang) -> list[ObstacleFamily]:
    """The cells of the nodes, for each role whose pods take portions of them."""
    return [
        ObstacleFamily(partial(_relax_slot_requests, t), partial(slot_fact, case, t))
        for t, role in enumerate(gang.roles)
        if role.slot_requests
    ]


# ---- what is taken away


def _relax_away_nodes(nodes: tuple[int, ...], s: Scenario) -> Scenario:
    return replace(s, returned_nodes=nodes)


def _relax_running(s: Scenario) -> Scenario:
    return replace(s, with_running=False)


def _relax_pod_rules(s: Scenario) -> Scenario:
    """Nobody asks who is where."""
    return replace(s, with_pod_rules=False)


def _relax_own_pods(s: Scenario) -> Scenario:
    """The gang's own pods stop, and all of it is placed together."""
    return replace(s, gang=replace(s.gang, running=()))


def _relax_topology(s: Scenario) -> Scenario:
    return replace(s, gang=replace(s.gang, topology=ANY_DOMAIN))


def _relax_subgroup_topology(i: int, s: Scenario) -> Scenario:
    """Subgroups of kind i are still whole, but anywhere."""
    parts = tuple(replace(part, topology=ANY_DOMAIN) if k == i else part for k, part in enumerate(s.gang.subgroups))
    return replace(s, gang=replace(s.gang, subgroups=parts))


def _relax_slot_requests(t: int, s: Scenario) -> Scenario:
    """The nodes of role t are not divided: what its pods ask for may come from anywhere in a node."""
    return replace(
        s,
        gang=replace(
            s.gang,
            roles=tuple(replace(role, slot_requests=()) if i == t else role for i, role in enumerate(s.gang.roles)),
        ),
    )


def _relax_pod_requests(roles: Iterable[int], s: Scenario) -> Scenario:
    """The pods of these roles ask for nothing, as though every node that is open to them were large enough."""
    nothing = tuple(
        replace(role, request=(0,) * len(role.request), slot_requests=()) if t in roles else role
        for t, role in enumerate(s.gang.roles)
    )
    return replace(s, gang=replace(s.gang, roles=nothing))


def _relax_node_classes(case: GangDiagnosis, t: int, s: Scenario) -> Scenario:
    """All nodes are open to role t."""
    kinds = frozenset(node.node_class for node in case.state.nodes_with_returned(s.returned_nodes)[0])
    return replace(
        s,
        gang=replace(
            s.gang,
            roles=tuple(replace(role, node_classes=kinds) if i == t else role for i, role in enumerate(s.gang.roles)),
        ),
    )


def oversized_roles(case: GangDiagnosis, s: Scenario) -> list[int]:
    """Roles of which no open node holds a single pod, although there are open nodes."""
    q = case.question(s)
    large = []
    for t, role in enumerate(s.gang.roles):
        nodes = _eligible_free(q, (role,))
        if (
            q.gang_class.roles[t].min_pods
            and len(nodes.amounts)
            and not nodes.fit_counts(PodRequest(role.request)).any()
        ):
            large.append(t)
    return large


# ---- what is said


def started_gangs_fact(case: GangDiagnosis, s: Scenario) -> Fact:
    """GW105: the gangs of the plan without which it would fit, none of them to spare."""
    most, gangs = blockers(case, s)
    return PrecedingGangs(asked=case.question(s).gang_class.min_pods, available=most, gangs=gangs)


def pod_rule_fact(case: GangDiagnosis, s: Scenario) -> Fact:
    """GW117: a relation between pods. Named is one without which alone the greedy finds room, else the first."""
    q = case.question(s)
    bound = sorted({rho for role in s.gang.roles for rho in (*role.owned_rules, *role.selecting_rules)})
    tried = (
        (rho, q.rule_counts.restrict_to(q.rule_counts.enforced_rules - {rho}))
        for rho in bound
        if q.rule_counts is not None
    )
    chosen = next(
        (
            rho
            for rho, others in tried
            if greedy_placement(q.state.with_free(q.free, others), 0, q.gang_class) is not None
        ),
        bound[0],
    )
    bears = [t for t, role in enumerate(s.gang.roles) if chosen in role.owned_rules]
    matches = [t for t, role in enumerate(s.gang.roles) if chosen in role.selecting_rules]
    return PodRuleConflict(role=[*bears, *matches][0], pod_rule=chosen)


def domain_fact(case: GangDiagnosis, tier: int, s: Scenario) -> Fact:
    """GW104: no domain of the allowed tier has room. available: pods that the best one holds, as far as counting or the
    greedy tell.

    A gang that runs in part has no choice of domain any more.
    """
    q = case.question(s)
    reach = fit_counts_by_role(q.state, q.gang_class)
    if q.gang_class.running_pods:
        home = q.tree.enclosing_domain(q.problem.nodes[q.gang_class.running_pods[0].node].leaf, tier)
        pods = (
            sum(min(r[home], role.min_pods) for r, role in zip(reach, q.gang_class.roles, strict=True))
            if home is not None
            else 0
        )
        return DomainShortage(q.gang_class.min_pods, max(0, min(pods, q.gang_class.min_pods - 1)), tier, home)
    short = domain_shortage(q.tree, q.gang_class, reach)
    return DomainShortage(q.gang_class.min_pods, _greedy_pods(q), tier) if short is None else short


def subgroup_fact(case: GangDiagnosis, i: int, s: Scenario) -> Fact:
    """GW109: the domains of the tier hold too few whole parts. asked, available: parts; limit: pods of one."""
    q, part = case.question(s), s.gang.subgroups[i]
    short = subgroup_shortage(q.tree, q.gang_class, i, fit_counts_by_role(q.state, q.gang_class))
    return short or SubgroupShortage(i, part.topology.tier, subgroups_needed(q.gang_class, part), None, part.size)


def slot_fact(case: GangDiagnosis, t: int, s: Scenario) -> Fact:
    """GW118: the nodes have room for the role in sum, their cells have not. available: pods of it that the cells hold.

    Where no cell at all has room for the share of one pod: a resource of the share, the roomiest (available) and the
    largest cell (limit).
    """
    q, role = case.question(s), s.gang.roles[t]
    free = _eligible_free(q, (role,))
    large = case.state.capacity.at_nodes(np.isin(q.tree.node_class_of, sorted(role.node_classes)))
    for portion in role.slot_requests:
        for r, amount in enumerate(portion.share):
            if amount > (most := _largest_slot_amount(free, portion.slot_group, r)):
                return OversizedSlotRequest(
                    asked=amount,
                    available=most,
                    role=t,
                    resource=r,
                    limit=_largest_slot_amount(large, portion.slot_group, r),
                )
    held, asked = int(free.fit_counts(role.pod_request).sum()), _asked_pods(q, t)
    return SlotShortage(asked=asked, available=min(held, asked - 1), role=t)


def _largest_slot_amount(free: FreeVectors, slot_group: int, r: int) -> int:
    """Most of a resource in one cell of a division."""
    return int(free.slots[:, slot_group, :, r].max(initial=0))


def capacity_fact(case: GangDiagnosis, s: Scenario) -> Fact:
    """What runs takes the room, wherever the gang may be: GW102 too little is free, GW119 enough, but in pieces."""
    for i in range(len(s.gang.subgroups)):
        s = _relax_subgroup_topology(i, s)
    return _shortage_fact(case.question(_relax_topology(s)))


def own_pods_fact(case: GangDiagnosis, s: Scenario) -> Fact:
    """GW121: beside the pods that run already the rest finds no room, and elsewhere all of it would. asked: the pods
    that are missing."""
    q = case.question(s)
    return OwnRunningPods(asked=q.gang_class.min_pods, available=_greedy_pods(q))


def away_nodes_fact(case: GangDiagnosis, s: Scenario) -> Fact:
    """GW122: nodes that are away for now, none of them to spare, with which it would fit."""
    q = case.question(_relax_away_nodes(case.state.away_nodes, s))
    placed = greedy_placement(q.state.with_free(q.free), 0, q.gang_class)
    used = (
        case.state.away_nodes
        if placed is None
        else tuple(n for n in case.state.away_nodes if n in {p.node for p in placed})
    )
    return AwayNodes(
        nodes=minimal_subset(used, lambda nodes: case.fits(_relax_away_nodes(nodes, s)) is True)
        if len(used) <= case.state.options.budget.minimized_blockers
        else used
    )


def pod_size_fact(case: GangDiagnosis, t: int, s: Scenario) -> Fact:
    """GW103: no open node, empty, holds one pod of the role. No resource is named where it is two together that no node
    has."""
    role = s.gang.roles[t]
    most = _eligible_free(case.question(s), (role,)).amounts.max(axis=0)
    r = next((r for r, a in enumerate(role.request) if a > most[r]), None)
    if r is None:
        return UnmatchedPod(role=t)
    return OversizedPod(asked=role.request[r], available=int(most[r]), role=t, resource=r)


def node_class_fact(case: GangDiagnosis, t: int, s: Scenario) -> Fact:
    """GW107: no node is open to the role. GW120: some are, but too few."""
    q, role = case.question(s), s.gang.roles[t]
    nodes = _eligible_free(q, (role,))
    if not len(nodes.amounts):
        return NoEligibleNode(role=t)
    held, asked = int(nodes.fit_counts(role.pod_request).sum()), _asked_pods(q, t)
    return EligibleNodeShortage(asked=asked, available=min(held, asked - 1), role=t)


def _asked_pods(q: FitQuestion, t: int) -> int:
    """Pods that are asked of a role: as many as it needs; where that is none, as many as it may have of what the gang
    needs in all."""
    role = q.gang_class.roles[t]
    return role.min_pods or max(1, min(role.max_pods, q.gang_class.min_pods))


def gang_size_fact(case: GangDiagnosis, s: Scenario) -> Fact:
    """GW108: the cluster, empty, has less of a resource than the gang asks for. GW102: the nodes open to it have.
    GW119: enough, but in pieces."""
    q = case.question(s)
    asked, total = q.gang_class.min_demand(q.free.amounts.shape[1]), _total_free(q.free)
    r = _scarcest_resource(asked, total)
    return _shortage_fact(q) if r is None else OversizedGang(asked=asked[r], available=total[r], resource=r)


def _shortage_fact(q: FitQuestion) -> Fact:
    """Too little of a resource on the nodes that are open to a role, or to the whole gang (GW102); else the pieces are
    too small (GW119)."""
    reach = fit_counts_by_role(q.state, q.gang_class)
    (gang,) = q.problem.gangs
    for t, role in enumerate(q.gang_class.roles):
        if reach[t][ROOT] < role.min_pods:
            r = _scarcest_resource(
                [a * role.min_pods for a in role.request], total := _total_free(_eligible_free(q, (gang.roles[t],)))
            )
            if r is not None:
                return ResourceShortage(asked=role.request[r] * role.min_pods, available=total[r], resource=r, role=t)
            return Fragmentation(asked=role.min_pods, available=reach[t][ROOT], role=t)
    asked = q.gang_class.min_demand(q.free.amounts.shape[1])
    r = _scarcest_resource(asked, total := _total_free(_eligible_free(q, gang.roles)))
    if r is not None:
        return ResourceShortage(asked=asked[r], available=total[r], resource=r)
    return total_shortage(q.gang_class, reach) or Fragmentation(q.gang_class.min_pods, _greedy_pods(q))


def _scarcest_resource(asked: Iterable[int], total: list[int]) -> int | None:
    """The resource of which least is there, measured by what is asked; None where all of them suffice."""
    short = [(total[r] / a, r) for r, a in enumerate(asked) if a > total[r]]
    return min(short)[1] if short else None


def _eligible_free(q: FitQuestion, roles: Iterable[Role]) -> FreeVectors:
    """What is free on each of the nodes that are open to one of the roles."""
    return q.free.at_nodes(
        np.isin(q.tree.node_class_of, sorted({kind for role in roles for kind in role.node_classes}))
    )


def _total_free(free: FreeVectors) -> list[int]:
    return [int(x) for x in free.amounts.sum(axis=0)]


def _greedy_pods(q: FitQuestion) -> int:
    """Pods of the gang that the greedy gets in, short of all of them."""
    return GreedyPlacer(q.state.with_free(q.free)).max_pods_in_domain(0, q.gang_class)
