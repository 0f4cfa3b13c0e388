"""The catalogue of obstacles on nodes: for each the world without it, and the fact that states it with its numbers in a
world in which all other named obstacles are out of the way.

A new kind of obstacle is one more `Obstacle` in `current_obstacles` or `permanent_obstacles`, and its fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from solver import facts
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import minimal_subset
from solver.diagnosis.question import FitQuestion
from solver.diagnosis.world import World, has_pod_rules, topology_of, with_role, with_topology
from solver.placement import fit
from solver.problem import Gang, PodRequest, Role, Topology
from solver.semantics.device_slots import FreeVectors
from solver.semantics.topology import ROOT

ANY_DOMAIN = Topology("soft", 1)


@dataclass(frozen=True)
class Obstacle:
    """relax: the world without it. fact: what to state, given a world without all other named obstacles."""

    relax: Callable[[World], World]
    fact: Callable[[World], facts.Fact]


def current_obstacles(case: GangDiagnosis) -> list[Obstacle]:
    """Return the possible present obstacles of a gang that the empty cluster holds, placed from scratch or next to its
    running pods; preferred explanations first."""
    *away, running = cluster_obstacles(case)
    found = [*away, *_pod_rules(case), *_topologies(case, case.gang), *_slots(case, case.gang), running]
    if case.gang.running and case.fits(case.empty_world) is not False:
        found.append(Obstacle(lambda w: replace(w, gang=replace(w.gang, running=())), partial(_own_running_pods, case)))
    return found


def cluster_obstacles(case: GangDiagnosis) -> list[Obstacle]:
    """Return the obstacles outside of the gang: nodes that are away, and last running pods."""
    running = Obstacle(
        lambda w: replace(w, with_running=False), lambda w: _shortage(case.question(_without_topology(w)))
    )
    if not case.state.away_nodes:
        return [running]
    away = Obstacle(lambda w: replace(w, returned_nodes=case.state.away_nodes), partial(_away_nodes, case))
    return [away, running]


def permanent_obstacles(case: GangDiagnosis) -> list[Obstacle]:
    """Return the possible obstacles of a gang even on the empty cluster; the last one is all that it requests."""
    gang = case.empty_world.gang
    roles = range(len(gang.roles))
    found = [*_pod_rules(case), *_topologies(case, gang), *_slots(case, gang)]
    found += [
        Obstacle(partial(_without_requests, (t,)), partial(_oversized_pod, case, t))
        for t in _oversized_roles(case, case.empty_world)
    ]
    if case.closed_classes:
        found.append(Obstacle(partial(_with_open_groups, case), partial(_closed_node_groups, case)))
    found += [Obstacle(partial(_with_all_nodes, case, t), partial(_ineligible_nodes, case, t)) for t in roles]
    return [*found, Obstacle(partial(_without_requests, roles), partial(_oversized_gang, case))]


def _pod_rules(case: GangDiagnosis) -> list[Obstacle]:
    """Return the demands of the gang's pods on others, and of others on them."""
    if case.state.after.rule_counts is None or not has_pod_rules(case.gang):
        return []
    return [Obstacle(lambda w: replace(w, with_pod_rules=False), partial(_pod_rule_conflict, case))]


def _topologies(case: GangDiagnosis, gang: Gang) -> list[Obstacle]:
    """Return the hard topology of the whole gang, and that of each kind of subgroup, which stay whole without it."""
    found = []
    for i in (None, *range(len(gang.subgroups))):
        topology = topology_of(gang, i)
        if topology is not None and case.state.tree.confines(topology):
            short = (
                partial(_domain_shortage, case, topology.tier) if i is None else partial(_subgroup_shortage, case, i)
            )
            found.append(Obstacle(partial(_anywhere, i), short))
    return found


def _slots(case: GangDiagnosis, gang: Gang) -> list[Obstacle]:
    """Return the device slots of the nodes, for each role that requests some."""
    return [
        Obstacle(partial(_without_slot_requests, t), partial(_slot_shortage, case, t))
        for t, role in enumerate(gang.roles)
        if role.slot_requests
    ]


# ---- relaxed worlds


def _anywhere(i: int | None, w: World) -> World:
    return replace(w, gang=with_topology(w.gang, i, ANY_DOMAIN))


def _without_topology(w: World) -> World:
    for i in (None, *range(len(w.gang.subgroups))):
        w = _anywhere(i, w)
    return w


def _without_slot_requests(t: int, w: World) -> World:
    """Return the world in which pods of role t take their request from anywhere in a node."""
    return replace(w, gang=with_role(w.gang, t, slot_requests=()))


def _without_requests(roles: Iterable[int], w: World) -> World:
    """Return the world in which pods of these roles request nothing, as if every eligible node were large enough."""
    gang = w.gang
    for t in roles:
        gang = with_role(gang, t, request=(0,) * len(gang.roles[t].request), slot_requests=())
    return replace(w, gang=gang)


def _with_open_groups(case: GangDiagnosis, w: World) -> World:
    """All node groups are open to the gang's queue."""
    return replace(w, gang=case.with_open_groups(w.gang, case.closed_groups))


def _with_all_nodes(case: GangDiagnosis, t: int, w: World) -> World:
    """Return the world with all nodes eligible for role t, and absent ones returned, except node groups that stay
    closed to its queue."""
    problem = case.state.problem
    closed = () if case.has_open_groups(w.gang) else problem.queues[case.gang.queue].closed_node_groups
    there = [node for node in problem.nodes if node.node_group not in closed]
    classes = frozenset((node.returning or node).node_class for node in there)
    return replace(w, gang=with_role(w.gang, t, node_classes=classes))


# ---- facts


def _pod_rule_conflict(case: GangDiagnosis, w: World) -> facts.Fact:
    """Return the first rule without which alone the greedy places the gang, else the first of all."""
    q, roles = case.question(w), w.gang.roles
    rules = sorted({rho for role in roles for rho in (*role.owned_rules, *role.selecting_rules)})
    chosen = next((rho for rho in rules if _fits_without_rule(q, rho)), rules[0])
    if (limited := _group_limit(q, chosen)) is not None:
        return limited
    owners = [t for t, role in enumerate(roles) if chosen in role.owned_rules]
    selected = [t for t, role in enumerate(roles) if chosen in role.selecting_rules]
    return facts.PodRuleConflict([*owners, *selected][0], chosen)


def _group_limit(q: FitQuestion, rho: int) -> facts.NodeGroupLimit | None:
    """Return the quota with its numbers, where what the gang needs at least is more than it leaves."""
    counts = q.state.rule_counts
    if counts is None or (quota := counts.rule(rho).quota) is None:
        return None
    room, asked = max(0, int(counts.quota_room(rho).max(initial=0))), q.min_demand[quota.resource]
    where = (quota.node_group,)
    found = facts.NodeGroupLimit(asked, room, quota.queue, where, quota.resource, quota.limit)
    return found if asked > room else None


def _fits_without_rule(q: FitQuestion, rho: int) -> bool:
    counts = q.state.rule_counts
    if counts is None:
        return False
    return q.with_free(q.state.free, counts.restrict_to(counts.enforced_rules - {rho})).placement() is not None


def _domain_shortage(case: GangDiagnosis, tier: int, w: World) -> facts.Fact:
    """available: pods that the best domain holds, by counting or the greedy. A gang that runs in part has no choice of
    domain."""
    q = case.question(w)
    reach, asked, running = q.fit_counts(), q.gang_class.min_pods, q.gang_class.running_pods
    if not running:
        return fit.domain_shortage(q.state.tree, q.gang_class, reach) or facts.DomainShortage(asked, q.max_pods(), tier)
    home, pods = q.state.tree.enclosing_domain(q.state.problem.nodes[running[0].node].leaf, tier), 0
    if home is not None:
        pods = sum(min(r[home], role.min_pods) for r, role in zip(reach, q.gang_class.roles, strict=True))
    return facts.DomainShortage(asked, max(0, min(pods, asked - 1)), tier, home)


def _subgroup_shortage(case: GangDiagnosis, i: int, w: World) -> facts.Fact:
    q, part = case.question(w), w.gang.subgroups[i]
    short = fit.subgroup_shortage(q.state.tree, q.gang_class, i, q.fit_counts())
    needed = fit.subgroups_needed(q.gang_class, part)
    return short or facts.SubgroupShortage(i, part.topology.tier, needed, None, part.size)


def _slot_shortage(case: GangDiagnosis, t: int, w: World) -> facts.Fact:
    """No slot has enough of a resource for one pod, or all of them hold too few pods of the role."""
    q, role = case.question(w), w.gang.roles[t]
    free = _eligible_free(q, (role,))
    empty = case.state.capacity.at_nodes(np.isin(q.state.tree.node_class_of, sorted(role.node_classes)))
    for request in role.slot_requests:
        for r, amount in enumerate(request.share):
            most, limit = (int(x.slots[:, request.slot_group, :, r].max(initial=0)) for x in (free, empty))
            if amount > most:
                return facts.SlotShortage(amount, most, t, r, limit)
    asked = _asked_pods(q, t)
    return facts.SlotShortage(asked, min(int(free.fit_counts(role.pod_request).sum()), asked - 1), t)


def _own_running_pods(case: GangDiagnosis, w: World) -> facts.Fact:
    q = case.question(w)
    return facts.OwnRunningPods(q.gang_class.min_pods, q.max_pods())


def _away_nodes(case: GangDiagnosis, w: World) -> facts.Fact:
    """Return the nodes that are away with which it would fit, none of them to spare."""

    def fits(nodes: tuple[int, ...]) -> bool:
        return case.fits(replace(w, returned_nodes=nodes)) is True

    away = case.state.away_nodes
    q = case.question(replace(w, returned_nodes=away))
    placed = q.with_free(q.state.free).placement()
    if placed is not None:
        away = tuple(n for n in away if n in {p.node for p in placed})
    return facts.AwayNodes(minimal_subset(away, fits, case.state.options.budget.minimized_blockers))


def _oversized_roles(case: GangDiagnosis, w: World) -> list[int]:
    """Roles of which no eligible node holds a single pod, or, where none is eligible, no node at all."""
    q, found = case.question(w), []
    for t, role in enumerate(w.gang.roles):
        eligible = _eligible_free(q, (role,))
        nodes = eligible if len(eligible.amounts) else q.state.free
        if q.gang_class.needed_pods(t) and not nodes.fit_counts(PodRequest(role.request)).any():
            found.append(t)
    return found


def _oversized_pod(case: GangDiagnosis, t: int, w: World) -> facts.Fact:
    request = w.gang.roles[t].request
    most = _eligible_free(case.question(w), (w.gang.roles[t],)).amounts.max(axis=0)
    r = next((r for r, amount in enumerate(request) if amount > most[r]), None)
    return facts.UnmatchedPod(t) if r is None else facts.OversizedPod(request[r], int(most[r]), t, r)


def _ineligible_nodes(case: GangDiagnosis, t: int, w: World) -> facts.Fact:
    """No node is eligible for the role, or too few are."""
    q, role = case.question(w), w.gang.roles[t]
    nodes, asked = _eligible_free(q, (role,)), _asked_pods(q, t)
    if not len(nodes.amounts):
        return facts.NoEligibleNode(t)
    return facts.EligibleNodeShortage(asked, min(int(nodes.fit_counts(role.pod_request).sum()), asked - 1), t)


def _closed_node_groups(case: GangDiagnosis, w: World) -> facts.Fact:
    """Return the node groups with which it would fit, none of them to spare."""

    def fits(groups: tuple[int, ...]) -> bool:
        return case.fits(replace(w, gang=case.with_open_groups(w.gang, groups))) is True

    most = case.state.options.budget.minimized_blockers
    return facts.ClosedNodeGroups(case.gang.queue, minimal_subset(case.closed_groups, fits, most))


def _asked_pods(q: FitQuestion, t: int) -> int:
    """Return the pods requested of a role: its minimum, else its most within the gang's minimum."""
    role = q.gang_class.roles[t]
    return q.gang_class.needed_pods(t) or max(1, min(role.max_pods, q.gang_class.min_pods))


def _oversized_gang(case: GangDiagnosis, w: World) -> facts.Fact:
    """The empty cluster has too little of a resource, or the nodes eligible for the gang have."""
    q = case.question(w)
    asked, total = q.min_demand, _total_free(q.state.free)
    r = _scarcest_resource(asked, total)
    return _shortage(q) if r is None else facts.OversizedGang(asked[r], total[r], r)


def _shortage(q: FitQuestion) -> facts.Fact:
    """Too little of a resource on the nodes eligible for a role or for the whole gang, else fragmentation."""
    reach = q.fit_counts()
    for t, role in enumerate(q.gang_class.roles):
        needed = q.gang_class.needed_pods(t)
        if reach[t][ROOT] < needed:
            asked = [a * needed for a in role.request]
            short = _resource_shortage(q, asked, (q.gang.roles[t],), t)
            return short or _fragmentation(q, t, needed, reach[t][ROOT])
    return (
        _resource_shortage(q, q.min_demand, q.gang.roles, None)
        or fit.total_shortage(q.gang_class, reach)
        or facts.Fragmentation(q.gang_class.min_pods, q.max_pods())
    )


def _fragmentation(q: FitQuestion, t: int, asked: int, available: int) -> facts.Fragmentation:
    """Return the fragmentation fact, with the distribution of the scarcest resource where it alone leaves room for too
    few pods."""
    role = q.gang.roles[t]
    amounts = _eligible_free(q, (role,)).amounts
    pods = {r: int((amounts[:, r] // a).sum()) for r, a in enumerate(role.request) if a}
    r = min(pods, key=lambda r: (pods[r], r), default=None)
    if r is None or pods[r] >= asked:
        return facts.Fragmentation(asked, available, t)
    pieces = Counter(amounts[:, r][amounts[:, r] > 0].tolist())
    return facts.Fragmentation(asked, available, t, r, tuple(sorted(pieces.items(), reverse=True)))


def _resource_shortage(
    q: FitQuestion, asked: Iterable[int], roles: Iterable[Role], t: int | None
) -> facts.ResourceShortage | None:
    amounts, total = list(asked), _total_free(_eligible_free(q, roles))
    r = _scarcest_resource(amounts, total)
    return None if r is None else facts.ResourceShortage(amounts[r], total[r], r, t)


def _scarcest_resource(asked: Iterable[int], total: list[int]) -> int | None:
    """Return the resource with the smallest available part of the request; None where all suffice."""
    short = [(total[r] / a, r) for r, a in enumerate(asked) if a > total[r]]
    return min(short)[1] if short else None


def _eligible_free(q: FitQuestion, roles: Iterable[Role]) -> FreeVectors:
    """Return the free amounts on each node that is eligible for one of the roles."""
    classes = frozenset[int]().union(*(role.node_classes for role in roles))
    return q.state.free.at_nodes(np.isin(q.state.tree.node_class_of, sorted(classes)))


def _total_free(free: FreeVectors) -> list[int]:
    return [int(x) for x in free.amounts.sum(axis=0)]
