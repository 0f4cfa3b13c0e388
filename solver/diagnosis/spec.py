"""What the gang's owner may change: each kind of change as steps, the smallest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isqrt, lcm

import numpy as np

from solver.diagnosis.trial import Step, StepSequence, Trial, TrialRunner
from solver.problem import Gang, Topology, Vector
from solver.repairs import (
    FewerPods,
    HigherTier,
    MoreNodeClasses,
    Repair,
    Restart,
    SmallerPods,
    SmallerSubgroups,
    SoftTopology,
)
from solver.semantics.gang_sizes import required_pods


def tier_steps(runner: TrialRunner, t: Trial) -> list[Step]:
    """GR102: a higher tier for the whole gang. GR107, beyond the highest: a wish instead of a limit."""
    topology = t.scenario.gang.topology
    tree = runner.case.state.tree
    if topology is None or topology.mode != "hard" or topology.tier > tree.highest_tier:
        return []
    higher = [
        partial(_set_topology, None, Topology("hard", tier), HigherTier(tier=tier))
        for tier in tree.tiers
        if tier > topology.tier
    ]
    return [*higher, partial(_set_topology, None, Topology("soft", topology.tier), SoftTopology())]


def subgroup_tier_steps(runner: TrialRunner, i: int, t: Trial) -> list[Step]:
    """GR102, GR107: the same for its subgroups of kind i; no higher tier where its owner cannot choose one."""
    topology, tiered = t.scenario.gang.subgroups[i].topology, t.scenario.gang.subgroups[i].tier_is_editable
    tree = runner.case.state.tree
    if topology.mode != "hard" or topology.tier > tree.highest_tier:
        return []
    higher = [
        partial(_set_topology, i, Topology("hard", tier), HigherTier(tier=tier, subgroup=i))
        for tier in tree.tiers
        if tier > topology.tier and tiered
    ]
    return [*higher, partial(_set_topology, i, Topology("soft", topology.tier), SoftTopology(subgroup=i))]


def _set_topology(i: int | None, topology: Topology, repair: Repair, t: Trial) -> Trial:
    gang = t.scenario.gang
    if i is None:
        return _with_gang(t, replace(gang, topology=topology), repair)
    parts = tuple(replace(part, topology=topology) if k == i else part for k, part in enumerate(gang.subgroups))
    return _with_gang(t, replace(gang, subgroups=parts), repair)


def subgroup_size_steps(i: int, t: Trial) -> list[Step]:
    """GR106: subgroups of kind i in halves, quarters ...: each size divides the one before it, so that whole parts stay
    whole."""
    found: list[Step] = []
    smaller = t.scenario.gang.subgroups[i].size
    while smaller > 1:
        smaller //= next((f for f in range(2, isqrt(smaller) + 1) if smaller % f == 0), smaller)
        found.append(partial(_set_subgroup_size, i, smaller))
    return found


def _set_subgroup_size(i: int, size: int, t: Trial) -> Trial:
    gang = t.scenario.gang
    was = gang.subgroups[i]
    smaller = replace(was, size=size, minimum=was.minimum * (was.size // size))
    parts = tuple(smaller if k == i else part for k, part in enumerate(gang.subgroups))
    return _with_gang(
        t, replace(gang, subgroups=parts), SmallerSubgroups(subgroup=i, amount=size, current_amount=was.size)
    )


def replica_steps(role: int, t: Trial) -> Sequence[Step]:
    """GR105: fewer pods of a role, whole subgroups; of an elastic role a smaller minimum. Not where other roles share
    the subgroup."""
    gang = t.scenario.gang
    need = required_pods(gang, (0,) * len(gang.roles))[0][role]
    parts = [part for part in gang.subgroups if role in part.roles]
    if gang.running or any(len(part.roles) > 1 for part in parts):
        return []
    unit = lcm(*(part.size for part in parts))
    return StepSequence(range((need - 1) // unit * unit, 0, -unit), partial(partial, _set_replicas, role))


def _set_replicas(role: int, pods: int, t: Trial) -> Trial:
    gang = t.scenario.gang
    was = gang.roles[role]
    rigid = was.minimum >= was.replicas
    now = was.replicas if rigid else required_pods(gang, (0,) * len(gang.roles))[0][role]
    less = replace(was, minimum=min(was.minimum, pods), replicas=pods if rigid else was.replicas)
    roles = tuple(less if k == role else other for k, other in enumerate(gang.roles))
    parts = tuple(replace(p, minimum=min(p.minimum, pods // p.size)) if role in p.roles else p for p in gang.subgroups)
    minimum = max(sum(r.minimum for r in roles), gang.minimum - (now - pods))
    return _with_gang(
        t,
        replace(gang, roles=roles, subgroups=parts, minimum=minimum),
        FewerPods(role=role, amount=pods, current_amount=now),
    )


def gang_minimum_steps(t: Trial) -> Sequence[Step]:
    """GR105 without a role: a smaller minimum of a gang that leaves open which roles meet it."""
    gang = t.scenario.gang
    need, least = required_pods(gang, (0,) * len(gang.roles))
    return (
        []
        if gang.running
        else StepSequence(
            range(min(least, gang.minimum) - 1, max(sum(need), 1) - 1, -1), partial(partial, _set_gang_minimum)
        )
    )


def _set_gang_minimum(pods: int, t: Trial) -> Trial:
    gang = t.scenario.gang
    return _with_gang(t, replace(gang, minimum=pods), FewerPods(None, pods, gang.minimum))


def node_class_steps(runner: TrialRunner, role: int, t: Trial) -> list[list[Step]]:
    """GR112: a role may use one more kind of node as well; one list for each kind, since none includes another. None
    where kinds say more than what its owner can change."""
    if runner.case.state.exclusions_in_classes:
        return []
    here = t.scenario.gang.roles[role].node_classes
    first: dict[int, int] = {}
    for n, node in enumerate(runner.case.state.problem.nodes):
        if node.node_class not in here:
            first.setdefault(node.node_class, n)
    return [
        [partial(_add_node_class, role, kind, n)]
        for kind, n in list(first.items())[: runner.case.state.options.budget.added_node_classes]
    ]


def _add_node_class(role: int, node_class: int, node: int, t: Trial) -> Trial:
    gang = t.scenario.gang
    roles = tuple(
        replace(r, node_classes=r.node_classes | {node_class}) if k == role else r for k, r in enumerate(gang.roles)
    )
    return _with_gang(t, replace(gang, roles=roles), MoreNodeClasses(role=role, node=node))


def request_steps(runner: TrialRunner, role: int, t: Trial) -> list[Step]:
    """GR115: pods of a role that ask for no more of anything than the largest node that is open to it has, or its
    largest cell, nothing running.

    Not where two resources are too much, nor where the share of one cell is not what the pod asks for by that name, or
    the cells have none of it.
    """
    world, spec = runner.case.state, t.scenario.gang.roles[role]
    largest = world.capacity.at_nodes(np.isin(world.tree.node_class_of, sorted(spec.node_classes)))
    sizes = largest.amounts.max(axis=0, initial=0).tolist()
    for portion in spec.slot_requests:
        cells = largest.slots[:, portion.slot_group].max(axis=(0, 1), initial=0).tolist()
        sizes = [
            min(most, cell) if share == asked else most
            for most, cell, share, asked in zip(sizes, cells, portion.share, spec.request, strict=True)
        ]
    over = [r for r, a in enumerate(spec.request) if a > sizes[r]]
    if len(over) != 1 or not len(largest.amounts) or (spec.slot_requests and not sizes[over[0]]):
        return []
    return [partial(_set_request, role, over[0], sizes[over[0]])]


def _set_request(role: int, r: int, amount: int, t: Trial) -> Trial:
    gang = t.scenario.gang
    was = gang.roles[role]
    portions = tuple(
        replace(p, share=_with_amount(p.share, r, amount)) if p.share[r] == was.request[r] else p
        for p in was.slot_requests
    )
    less = replace(was, request=_with_amount(was.request, r, amount), slot_requests=portions)
    roles = tuple(less if k == role else other for k, other in enumerate(gang.roles))
    return _with_gang(
        t,
        replace(gang, roles=roles),
        SmallerPods(role=role, resource=r, amount=amount, current_amount=was.request[r]),
    )


def _with_amount(vector: Vector, r: int, amount: int) -> Vector:
    return tuple(amount if k == r else a for k, a in enumerate(vector))


def restart_steps(t: Trial) -> list[Step]:
    """GR113: its pods that run stop, and it starts as a whole."""
    return [_restart] if t.scenario.gang.running else []


def _restart(t: Trial) -> Trial:
    return _with_gang(t, replace(t.scenario.gang, running=()), Restart())


def _with_gang(t: Trial, gang: Gang, repair: Repair) -> Trial:
    return replace(t, scenario=replace(t.scenario, gang=gang), changes=(*t.changes, repair))


def all_steps(runner: TrialRunner, t: Trial) -> list[Sequence[Step]]:
    """All kinds of change that keep its pods, each as steps."""
    gang = t.scenario.gang
    parts = range(len(gang.subgroups))
    found: list[Sequence[Step]] = [
        restart_steps(t),
        tier_steps(runner, t),
        *(subgroup_tier_steps(runner, i, t) for i in parts),
    ]
    hard = [i for i in parts if gang.subgroups[i].topology.mode == "hard"]
    return [steps for steps in [*found, *(subgroup_size_steps(i, t) for i in hard)] if steps]
