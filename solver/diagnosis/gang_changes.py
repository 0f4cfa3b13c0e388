"""Repairs of the gang by its owner, and more nodes: families of changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isqrt, lcm
from operator import le
from typing import Any

import numpy as np

from solver import repairs
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.world import Family, NodeKind, World, topology_of, with_role, with_subgroup, with_topology
from solver.problem import Gang, Topology, Vector
from solver.semantics.gang_sizes import required_pods


def families_with_all_pods(case: GangDiagnosis, w: World) -> list[Family[Any]]:
    """Return all kinds of change that keep the gang's pods."""
    gang = w.gang
    softened = [_separations(case, gang)] if gang.topology_without_rules else []
    found: list[Family[Any]] = [Family(repairs.Restart, [()] if gang.running else [], _restart)]
    found += [_tiers(case, None, gang), Family(repairs.SoftSeparation, softened, _soften_separations)]
    found += [_tiers(case, i, gang) for i in range(len(gang.subgroups))]
    for i, part in enumerate(gang.subgroups):
        sizes = _smaller_sizes(part.size) if part.topology.is_hard else []
        found.append(Family(repairs.SmallerSubgroups, sizes, partial(_set_subgroup_size, i), kind=("size", i)))
    return found


def _restart(w: World, _: object) -> World:
    return w.with_change(repairs.Restart(), gang=replace(w.gang, running=()))


def _tiers(case: GangDiagnosis, i: int | None, gang: Gang) -> Family[repairs.HigherTier | repairs.SoftTopology]:
    """Return a higher tier of the gang or of its subgroups i, where the owner can choose it; beyond the highest a soft
    topology. For a gang that owns separations, tiers up to the lowest of theirs."""
    topology, tree = topology_of(gang, i), case.state.tree
    steps: list[repairs.HigherTier | repairs.SoftTopology] = []
    if topology is not None and tree.confines(topology):
        if i is None or gang.subgroups[i].tier_is_editable:
            rules = case.state.problem.pod_rules
            owned = (rules[rho].tier for rho in _separations(case, gang)) if i is None else ()
            highest = min((tier for tier in owned if tier is not None), default=tree.highest_tier)
            steps += [repairs.HigherTier(tier, i) for tier in tree.tiers if topology.tier < tier <= highest]
        if i is not None or gang.topology_without_rules is None:
            steps.append(repairs.SoftTopology(i))
    return Family(repairs.HigherTier, steps, _set_topology, kind=("tier", i))


def _set_topology(w: World, repair: repairs.HigherTier | repairs.SoftTopology) -> World:
    was = topology_of(w.gang, repair.subgroup)
    soft = Topology("soft", was.tier if was is not None else 1)
    topology = Topology("hard", repair.tier) if isinstance(repair, repairs.HigherTier) else soft
    return w.with_change(repair, gang=with_topology(w.gang, repair.subgroup, topology))


def _separations(case: GangDiagnosis, gang: Gang) -> frozenset[int]:
    rules, owned = case.state.problem.pod_rules, (role.owned_rules for role in gang.roles)
    return frozenset(rho for rho in set[int]().union(*owned) if rules[rho].rule_kind == "separation")


def _soften_separations(w: World, rules: frozenset[int]) -> World:
    """Return the separations that it owns as wishes, with the topology that it then has."""
    gang = w.gang
    roles = (replace(r, owned_rules=tuple(rho for rho in r.owned_rules if rho not in rules)) for r in gang.roles)
    softer = replace(gang, roles=tuple(roles), topology=gang.topology_without_rules, topology_without_rules=None)
    return w.with_change(repairs.SoftSeparation(), gang=softer)


def _smaller_sizes(size: int) -> list[int]:
    """Halves, quarters ...: each size divides the one before it, so that subgroups stay whole."""
    found: list[int] = []
    while size > 1:
        size //= next((f for f in range(2, isqrt(size) + 1) if size % f == 0), size)
        found.append(size)
    return found


def _set_subgroup_size(i: int, w: World, size: int) -> World:
    was = w.gang.subgroups[i]
    smaller = with_subgroup(w.gang, i, size=size, minimum=was.minimum * (was.size // size))
    return w.with_change(repairs.SmallerSubgroups(i, size, was.size), gang=smaller)


def fewer_pods(w: World) -> list[Family[int]]:
    """Fewer pods of one role, or a smaller minimum of a gang that leaves open which roles meet it."""
    gang = w.gang
    if gang.running:
        return []
    needs, least = required_pods(gang, (0,) * len(gang.roles))
    minima = range(min(least, gang.minimum) - 1, max(sum(needs), 1) - 1, -1)
    roles = [
        Family(repairs.FewerPods, _replica_counts(role, need, gang), partial(_set_replicas, role), kind=("pods", role))
        for role, need in enumerate(needs)
    ]
    return [*roles, Family(repairs.FewerPods, minima, _set_gang_minimum)]


def _replica_counts(role: int, need: int, gang: Gang) -> range:
    """Whole subgroups of a role; none where other roles share the subgroup."""
    parts = [part for part in gang.subgroups if role in part.roles]
    unit = lcm(*(part.size for part in parts))
    return range(0) if any(len(part.roles) > 1 for part in parts) else range((need - 1) // unit * unit, 0, -unit)


def _set_replicas(role: int, w: World, pods: int) -> World:
    """Return the world with fewer pods of a role; for an elastic role a smaller minimum."""
    gang, was = w.gang, w.gang.roles[role]
    rigid = was.minimum >= was.replicas
    now = was.replicas if rigid else required_pods(gang, (0,) * len(gang.roles))[0][role]
    smaller = with_role(gang, role, minimum=min(was.minimum, pods), replicas=pods if rigid else was.replicas)
    for i, part in enumerate(gang.subgroups):
        if role in part.roles:
            smaller = with_subgroup(smaller, i, minimum=min(part.minimum, pods // part.size))
    minimum = max(sum(r.minimum for r in smaller.roles), gang.minimum - (now - pods))
    return w.with_change(repairs.FewerPods(role, pods, now), gang=replace(smaller, minimum=minimum))


def _set_gang_minimum(w: World, pods: int) -> World:
    return w.with_change(repairs.FewerPods(None, pods, w.gang.minimum), gang=replace(w.gang, minimum=pods))


def more_node_kinds(case: GangDiagnosis, role: int, w: World) -> list[Family[int]]:
    """Return one more kind of nodes for the role, a family for each since none includes another; likely intended ones
    first. None where classes represent exclusions too, which the owner cannot change, nor nodes that its queue may not
    use, nor nodes that are away."""
    state, here = case.state, w.gang.roles[role].node_classes
    closed = state.problem.queues[case.gang.queue].closed_node_groups
    first, large = dict[NodeKind, int](), dict[NodeKind, int]()
    for n, node in enumerate(state.problem.nodes) if not state.exclusions_in_classes else ():
        if node.node_class not in here and node.node_group not in closed and node.returning is None:
            kind = node.node_class, node.kind
            first.setdefault(kind, n)
            if kind not in large and all(map(le, w.gang.roles[role].request, node.capacity)):
                large[kind] = n
    first |= large  # a node that holds a pod is the example of its kind
    near = [kind for kind in w.gang.roles[role].near_kinds if kind in first]
    nearest = [first[kind] for kind in dict.fromkeys((*near, *first))][: state.options.budget.added_node_classes]
    make = partial(_add_node_kind, role, state)
    return [Family(repairs.MoreNodeClasses, [n], make, kind=("nodes", role)) for n in nearest]


def _add_node_kind(role: int, state: DiagnosisState, w: World, n: int) -> World:
    """The nodes of the kind of node n stay open to the roles that may use their class."""
    node, gang = state.problem.nodes[n], w.gang
    kind = node.node_class, node.kind
    kinds = tuple(dict.fromkeys((*w.split_kinds, kind)))
    for r, spec in enumerate(gang.roles):
        if r == role or node.node_class in spec.node_classes:
            gang = with_role(gang, r, node_classes=spec.node_classes | {state.split_class + kinds.index(kind)})
    return w.with_change(repairs.MoreNodeClasses(role, n), gang=gang, split_kinds=kinds)


def smaller_request(case: GangDiagnosis, role: int, w: World) -> Family[int]:
    """Return pods that ask for no more than the largest eligible node, or its largest device slot, has when empty.

    Not where two resources are too much, where there is nothing of one, or where the share of a slot is not what the
    pod asks for by that name.
    """
    state, spec = case.state, w.gang.roles[role]
    largest = state.capacity.at_nodes(state.tree.class_mask(spec.node_classes))
    sizes = largest.amounts.max(axis=0, initial=0).tolist()
    for request in spec.slot_requests:
        slots = largest.slots[:, request.slot_group].max(axis=(0, 1), initial=0).tolist()
        for r, (share, asked) in enumerate(zip(request.share, spec.request, strict=True)):
            sizes[r] = min(sizes[r], slots[r]) if share == asked else sizes[r]
    over = [r for r, amount in enumerate(spec.request) if amount > sizes[r]]
    amounts = [sizes[r] for r in over if sizes[r]] if len(over) == 1 else []
    return Family(repairs.SmallerPods, amounts, partial(_set_request, role, sum(over)), kind=("request", role))


def with_fitting_requests(case: GangDiagnosis, w: World) -> World:
    """Return the world with needed pods that each fit an empty node open to them, the one that takes the least part
    from them; unchanged where a role has none that would do, or asks for device slots."""
    start = w
    empty = case.question(replace(w, with_running=False, with_started=False))
    for role, spec in enumerate(w.gang.roles):
        asked, open_to = np.array(spec.request), empty.state.tree.class_mask(spec.node_classes)
        most = np.minimum(np.unique(empty.state.free.amounts[open_to], axis=0), asked)
        if not (empty.gang_class.needed_pods(role) and asked.any()) or (most == asked).all(axis=1).any():
            continue
        left = (most[:, asked > 0] / asked[asked > 0]).min(axis=1, initial=1.0)
        if spec.slot_requests or not left.any():
            return start
        for r, amount in enumerate(most[left.argmax()].tolist()):
            w = _set_request(role, r, w, amount) if amount < spec.request[r] else w
    return w


def _set_request(role: int, r: int, w: World, amount: int) -> World:
    was = w.gang.roles[role]

    def smaller(vector: Vector) -> Vector:
        if vector[r] != was.request[r]:
            return vector
        return tuple(amount if k == r else a for k, a in enumerate(vector))

    slots = tuple(replace(p, share=smaller(p.share)) for p in was.slot_requests)
    gang = with_role(w.gang, role, request=smaller(was.request), slot_requests=slots)
    return w.with_change(repairs.SmallerPods(role, r, amount, was.request[r]), gang=gang)


# ---- more nodes


def more_nodes(case: GangDiagnosis, w: World) -> list[Family[int]]:
    """Return more nodes like an eligible one, under its leaf; for a gang with a hard topology under the leaf where it
    is nearest to fitting. None like an excluded node: more of them might be excluded too. Nor like one that a role
    names."""
    gang, state = w.gang, case.state
    if state.after.rule_counts is not None or state.problem.slot_groups:
        return []
    pods = sum(role.minimum for role in gang.roles) or gang.minimum
    by_name = [role for role in gang.roles if role.names_nodes]
    eligible = {node_class for role in gang.roles for node_class in role.node_classes}
    eligible -= {node_class for role in by_name for node_class in role.node_classes}
    topologies = (gang.topology, *(part.topology for part in gang.subgroups))
    confined = any(topology is not None and topology.is_hard for topology in topologies)
    makes: dict[tuple[int, tuple[int, ...]], int] = {}
    for n in _nearest_nodes(case, w) if confined else range(len(state.problem.nodes)):
        node = state.problem.nodes[n]
        if node.node_class in eligible and n not in case.excluded_nodes:
            makes.setdefault((node.node_class, node.capacity), n)
    # Shares by weight may also become smaller, where with more nodes other gangs count that were too large.
    grows = bool(makes) and (state.problem.policy.proportion or not case.fits_queues(w))
    counts = range(1, min(pods, state.options.budget.added_nodes) + 1)
    like = list(makes.values())[: state.options.budget.added_node_types]
    return [Family(repairs.MoreNodes, counts, partial(_add_nodes, state, n, confined, grows)) for n in like]


def _nearest_nodes(case: GangDiagnosis, w: World) -> list[int]:
    """Nodes, those of the leaf that holds most of the gang's pods first."""
    q = case.question(w)
    reach, roles, nodes = q.fit_counts(), q.gang_class.roles, q.state.problem.nodes

    def pods(leaf: int | None) -> int:
        return -1 if leaf is None else sum(min(r[leaf], role.min_pods) for r, role in zip(reach, roles, strict=True))

    return sorted(range(len(nodes)), key=lambda n: (-pods(nodes[n].leaf), n))


def _add_nodes(state: DiagnosisState, like: int, confined: bool, grows: bool, w: World, count: int) -> World:
    """grows: whether what the queues may hold is worked out again."""
    leaf = state.problem.nodes[like].leaf
    added, repair = (like, leaf, count), repairs.MoreNodes(like, count, leaf if confined else None)
    return w.with_change(repair, added_nodes=added, limits_nodes=added if grows else w.limits_nodes)
