"""The catalogue of obstacles on nodes: for each the world without it, and the fact that states it with numbers.

A new kind of obstacle is one more `Obstacle` in `current_obstacles` or `permanent_obstacles`, and its fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from solver.diagnosis import node_facts
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.world import World, has_pod_rules, with_role, with_subgroup
from solver.facts import Fact
from solver.problem import Gang, Topology

ANY_DOMAIN = Topology("soft", 1)


@dataclass(frozen=True)
class Obstacle:
    """relax: the world without it. fact: what to state, given a world without all other named obstacles."""

    relax: Callable[[World], World]
    fact: Callable[[World], Fact]


def current_obstacles(case: GangDiagnosis) -> list[Obstacle]:
    """Return the possible present obstacles of a gang that the empty cluster holds, placed from scratch or next to its
    running pods; preferred explanations first."""
    *away, running = cluster_obstacles(case)
    found = [*away, *_pod_rules(case), *_topologies(case, case.gang), *_slots(case, case.gang), running]
    if case.gang.running and case.fits(case.empty_world) is not False:
        found.append(Obstacle(partial(_with_gang, running=()), partial(node_facts.own_running_pods, case)))
    return found


def cluster_obstacles(case: GangDiagnosis) -> list[Obstacle]:
    """Return the obstacles outside of the gang: nodes that are away, and last running pods."""
    running = Obstacle(
        lambda w: replace(w, with_running=False), lambda w: node_facts.shortage_anywhere(case, without_topology(w))
    )
    if not case.state.away_nodes:
        return [running]
    away = Obstacle(lambda w: replace(w, returned_nodes=case.state.away_nodes), partial(node_facts.away_nodes, case))
    return [away, running]


def permanent_obstacles(case: GangDiagnosis) -> list[Obstacle]:
    """Return the possible obstacles of a gang even on the empty cluster; the last one is all that it requests."""
    gang = case.empty_world.gang
    roles = range(len(gang.roles))
    found = [*_pod_rules(case), *_topologies(case, gang), *_slots(case, gang)]
    found += [
        Obstacle(partial(_without_requests, (t,)), partial(node_facts.oversized_pod, case, t))
        for t in node_facts.oversized_roles(case, case.empty_world)
    ]
    if case.closed_classes:
        found.append(Obstacle(partial(_with_open_groups, case), partial(node_facts.closed_node_groups, case)))
    found += [Obstacle(partial(_with_all_nodes, case, t), partial(node_facts.ineligible_nodes, case, t)) for t in roles]
    return [*found, Obstacle(partial(_without_requests, roles), partial(node_facts.oversized_gang, case))]


def _pod_rules(case: GangDiagnosis) -> list[Obstacle]:
    """Return the demands of the gang's pods on others, and of others on them."""
    if case.state.after.rule_counts is None or not has_pod_rules(case.gang):
        return []
    return [Obstacle(lambda w: replace(w, with_pod_rules=False), partial(node_facts.pod_rule_conflict, case))]


def _topologies(case: GangDiagnosis, gang: Gang) -> list[Obstacle]:
    """Return the hard topology of the whole gang, and that of each kind of subgroup."""
    found, tree = [], case.state.tree
    if gang.topology is not None and tree.confines(gang.topology):
        fact = partial(node_facts.domain_shortage, case, gang.topology.tier)
        found.append(Obstacle(partial(_with_gang, topology=ANY_DOMAIN), fact))
    for i, part in enumerate(gang.subgroups):
        if tree.confines(part.topology):
            found.append(
                Obstacle(partial(_without_subgroup_topology, i), partial(node_facts.subgroup_shortage, case, i))
            )
    return found


def _slots(case: GangDiagnosis, gang: Gang) -> list[Obstacle]:
    """Return the device slots of the nodes, for each role that requests some."""
    return [
        Obstacle(partial(_without_slot_requests, t), partial(node_facts.slot_shortage, case, t))
        for t, role in enumerate(gang.roles)
        if role.slot_requests
    ]


# ---- relaxed worlds


def _with_gang(w: World, **changes: object) -> World:
    return replace(w, gang=replace(w.gang, **changes))  # type: ignore[arg-type]


def _without_subgroup_topology(i: int, w: World) -> World:
    """Subgroups of kind i are still whole, but anywhere."""
    return replace(w, gang=with_subgroup(w.gang, i, topology=ANY_DOMAIN))


def without_topology(w: World) -> World:
    for i in range(len(w.gang.subgroups)):
        w = _without_subgroup_topology(i, w)
    return _with_gang(w, topology=ANY_DOMAIN)


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
