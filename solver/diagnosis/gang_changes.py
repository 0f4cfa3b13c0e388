"""Repairs by the gang's owner: each kind of change as steps, the smallest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import isqrt, lcm

import numpy as np

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.gangs import with_role, with_subgroup
from solver.diagnosis.world import NodeKind, Step, StepSequence, World
from solver.problem import Gang, Topology, Vector
from solver.repairs import (
    FewerPods,
    HigherTier,
    MoreNodeClasses,
    Restart,
    SmallerPods,
    SmallerSubgroups,
    SoftSeparation,
    SoftTopology,
)
from solver.semantics.gang_sizes import required_pods
from solver.semantics.topology import ROOT


def steps_with_all_pods(case: GangDiagnosis, t: World) -> list[Sequence[Step]]:
    """All kinds of change that keep the gang's pods, each as steps."""
    gang = t.gang
    restart: list[Step] = [_restart] if gang.running else []
    kinds: list[Sequence[Step]] = [restart, _tier_steps(case, None, gang), _separation_steps(case, gang)]
    kinds += [_tier_steps(case, i, gang) for i in range(len(gang.subgroups))]
    for i, part in enumerate(gang.subgroups):
        if part.topology.is_hard:
            kinds.append(_subgroup_size_steps(i, gang))
    return [steps for steps in kinds if steps]


def _restart(t: World) -> World:
    return t.with_change(Restart(), gang=replace(t.gang, running=()))


def _tier_steps(case: GangDiagnosis, i: int | None, gang: Gang) -> list[Step]:
    """A higher tier of the gang or of its subgroups i, where the owner can choose it; beyond the highest a soft
    topology. Of a gang that owns separations, tiers up to the lowest of theirs."""
    topology, tree = gang.topology if i is None else gang.subgroups[i].topology, case.state.tree
    if topology is None or not tree.confines(topology):
        return []
    steps: list[Step] = []
    if i is None or gang.subgroups[i].tier_is_editable:
        highest = min(_separation_tiers(case, gang) if i is None else (), default=tree.highest_tier)
        higher = (tier for tier in tree.tiers if topology.tier < tier <= highest)
        steps += [partial(_set_topology, i, Topology("hard", tier), HigherTier(tier, i)) for tier in higher]
    if i is None and gang.topology_without_rules is not None:
        return steps
    return [*steps, partial(_set_topology, i, Topology("soft", topology.tier), SoftTopology(i))]


def _separations(case: GangDiagnosis, gang: Gang) -> set[int]:
    rules, owned = case.state.problem.pod_rules, (role.owned_rules for role in gang.roles)
    return {rho for rho in set[int]().union(*owned) if rules[rho].rule_kind == "separation"}


def _separation_tiers(case: GangDiagnosis, gang: Gang) -> list[int]:
    rules = case.state.problem.pod_rules
    return [tier for rho in sorted(_separations(case, gang)) if (tier := rules[rho].tier) is not None]


def _separation_steps(case: GangDiagnosis, gang: Gang) -> list[Step]:
    """The separations that it owns as wishes, with the topology that it then has."""
    return [partial(_soften_separations, _separations(case, gang))] if gang.topology_without_rules else []


def _soften_separations(rules: set[int], t: World) -> World:
    gang = t.gang
    roles = (replace(r, owned_rules=tuple(rho for rho in r.owned_rules if rho not in rules)) for r in gang.roles)
    softer = replace(gang, roles=tuple(roles), topology=gang.topology_without_rules, topology_without_rules=None)
    return t.with_change(SoftSeparation(), gang=softer)


def _set_topology(i: int | None, topology: Topology, repair: HigherTier | SoftTopology, t: World) -> World:
    gang = t.gang
    changed = replace(gang, topology=topology) if i is None else with_subgroup(gang, i, topology=topology)
    return t.with_change(repair, gang=changed)


def _subgroup_size_steps(i: int, gang: Gang) -> list[Step]:
    """Subgroups i in halves, quarters ...: each size divides the one before it, so that subgroups stay whole."""
    found: list[Step] = []
    smaller = gang.subgroups[i].size
    while smaller > 1:
        smaller //= next((f for f in range(2, isqrt(smaller) + 1) if smaller % f == 0), smaller)
        found.append(partial(_set_subgroup_size, i, smaller))
    return found


def _set_subgroup_size(i: int, size: int, t: World) -> World:
    gang, was = t.gang, t.gang.subgroups[i]
    smaller = with_subgroup(gang, i, size=size, minimum=was.minimum * (was.size // size))
    return t.with_change(SmallerSubgroups(i, size, was.size), gang=smaller)


def fewer_pods_steps(t: World) -> list[Sequence[Step]]:
    """Fewer pods of one role, or of all; the change that keeps most of them first."""
    return [*(_replica_steps(role, t) for role in range(len(t.gang.roles))), _gang_minimum_steps(t)]


def _replica_steps(role: int, t: World) -> Sequence[Step]:
    """Fewer pods of a role by whole subgroups, of an elastic role a smaller minimum; not where other roles share the
    subgroup."""
    gang = t.gang
    parts = [part for part in gang.subgroups if role in part.roles]
    if gang.running or any(len(part.roles) > 1 for part in parts):
        return []
    need, unit = required_pods(gang, (0,) * len(gang.roles))[0][role], lcm(*(part.size for part in parts))
    return StepSequence(range((need - 1) // unit * unit, 0, -unit), partial(partial, _set_replicas, role))


def _set_replicas(role: int, pods: int, t: World) -> World:
    gang, was = t.gang, t.gang.roles[role]
    rigid = was.minimum >= was.replicas
    now = was.replicas if rigid else required_pods(gang, (0,) * len(gang.roles))[0][role]
    smaller = with_role(gang, role, minimum=min(was.minimum, pods), replicas=pods if rigid else was.replicas)
    for i, part in enumerate(gang.subgroups):
        if role in part.roles:
            smaller = with_subgroup(smaller, i, minimum=min(part.minimum, pods // part.size))
    minimum = max(sum(r.minimum for r in smaller.roles), gang.minimum - (now - pods))
    return t.with_change(FewerPods(role, pods, now), gang=replace(smaller, minimum=minimum))


def _gang_minimum_steps(t: World) -> Sequence[Step]:
    """A smaller minimum of a gang that leaves open which roles meet it."""
    gang = t.gang
    if gang.running:
        return []
    need, least = required_pods(gang, (0,) * len(gang.roles))
    sizes = range(min(least, gang.minimum) - 1, max(sum(need), 1) - 1, -1)
    return StepSequence(sizes, partial(partial, _set_gang_minimum))


def _set_gang_minimum(pods: int, t: World) -> World:
    gang = t.gang
    return t.with_change(FewerPods(None, pods, gang.minimum), gang=replace(gang, minimum=pods))


def node_class_steps(case: GangDiagnosis, role: int, t: World) -> Iterator[list[Step]]:
    """One more kind of nodes for the role, a list for each since none includes another; first those that it
    perhaps means. None where classes also stand for exclusions, which the owner cannot change, nor nodes that its queue
    may not use."""
    state, here = case.state, t.gang.roles[role].node_classes
    closed = state.problem.queues[case.gang.queue].closed_node_groups
    first: dict[NodeKind, int] = {}
    for n, node in enumerate(state.problem.nodes) if not state.exclusions_in_classes else ():
        if node.node_class not in here and node.node_group not in closed:
            first.setdefault((node.node_class, node.kind), n)
    near = [kind for kind in t.gang.roles[role].near_kinds if kind in first]
    nearest_first = [(kind, first[kind]) for kind in dict.fromkeys((*near, *first))]
    for kind, n in nearest_first[: state.options.budget.added_node_classes]:
        yield [partial(_add_node_kind, role, kind, state.split_class, n)]


def _add_node_kind(role: int, kind: NodeKind, split_class: int, node: int, t: World) -> World:
    """The nodes of the kind stay open to the roles that may use their class."""
    gang, kinds = t.gang, tuple(dict.fromkeys((*t.split_kinds, kind)))
    for r, spec in enumerate(gang.roles):
        if r == role or kind[0] in spec.node_classes:
            gang = with_role(gang, r, node_classes=spec.node_classes | {split_class + kinds.index(kind)})
    return t.with_change(MoreNodeClasses(role, node), gang=gang, split_kinds=kinds)


def with_open_roles(case: GangDiagnosis, t: World) -> World:
    """The trial with other nodes for each role that the empty cluster does not hold: of the kind that holds most of the
    missing pods; unchanged for a role of which none holds any."""
    for role in range(len(t.gang.roles)):
        if not (short := _missing_pods(case, t, role)):
            continue
        trials = [steps[0](t) for steps in node_class_steps(case, role, t)]
        left = [_missing_pods(case, trial, role) for trial in trials]
        if left and min(left) < short:
            t = trials[left.index(min(left))]
    return t


def _missing_pods(case: GangDiagnosis, t: World, role: int) -> int:
    """How many of the pods that the role needs the empty cluster does not hold, by counting."""
    empty = case.question(replace(t, with_running=False, with_started=False))
    return max(0, empty.gang_class.needed_pods(role) - empty.fit_counts()[role][ROOT])


def request_steps(case: GangDiagnosis, role: int, t: World) -> list[Step]:
    """Pods that ask for no more than the largest eligible node, or its largest device slot, has when empty.

    Not where two resources are too much, where there is nothing of one, or where the share of a slot is not what the
    pod asks for by that name.
    """
    state, spec = case.state, t.gang.roles[role]
    largest = state.capacity.at_nodes(np.isin(state.tree.node_class_of, sorted(spec.node_classes)))
    sizes = largest.amounts.max(axis=0, initial=0).tolist()
    for request in spec.slot_requests:
        slots = largest.slots[:, request.slot_group].max(axis=(0, 1), initial=0).tolist()
        for r, (share, asked) in enumerate(zip(request.share, spec.request, strict=True)):
            sizes[r] = min(sizes[r], slots[r]) if share == asked else sizes[r]
    over = [r for r, amount in enumerate(spec.request) if amount > sizes[r]]
    if len(over) != 1 or not sizes[over[0]]:
        return []
    return [partial(_set_request, role, over[0], sizes[over[0]])]


def with_fitting_requests(case: GangDiagnosis, t: World) -> World | None:
    """The trial with needed pods that each fit an empty node open to them, the one that takes the least part from them;
    None where a role has none that would do, or asks for device slots."""
    empty = case.question(replace(t, with_running=False, with_started=False))
    for role, spec in enumerate(t.gang.roles):
        of_classes = np.isin(empty.state.tree.node_class_of, sorted(spec.node_classes))
        asked = np.array(spec.request)
        most = np.minimum(np.unique(empty.state.free.amounts[of_classes], axis=0), asked)
        if not (empty.gang_class.needed_pods(role) and asked.any()) or (most == asked).all(axis=1).any():
            continue
        left = (most[:, asked > 0] / asked[asked > 0]).min(axis=1, initial=1.0)
        if spec.slot_requests or not left.any():
            return None
        for r, amount in enumerate(most[left.argmax()].tolist()):
            t = _set_request(role, r, amount, t) if amount < spec.request[r] else t
    return t


def _set_request(role: int, r: int, amount: int, t: World) -> World:
    was = t.gang.roles[role]

    def smaller(vector: Vector) -> Vector:
        if vector[r] != was.request[r]:
            return vector
        return tuple(amount if k == r else a for k, a in enumerate(vector))

    slots = tuple(replace(p, share=smaller(p.share)) for p in was.slot_requests)
    gang = with_role(t.gang, role, request=smaller(was.request), slot_requests=slots)
    return t.with_change(SmallerPods(role, r, amount, was.request[r]), gang=gang)
