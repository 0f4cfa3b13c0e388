"""Lowering: what the documents say, and what the cluster holds, as one `solver.Problem`, with the way back to each
document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import sub

from compiler.cluster_state.observed import ObservedState, observe_state
from compiler.cluster_state.state import ClusterState
from compiler.lower.budgets import disruption_budgets
from compiler.lower.dedicated_domains import with_dedicated_domains
from compiler.lower.device_slots import SlotGroups, SlotHolder, make_slot_groups, slot_holds
from compiler.lower.eligibility import NodeClasses, classify_nodes, excluding_numa_policies, returned_node
from compiler.lower.gangs import GangLowering, age_ranks, class_priorities, submission_times
from compiler.lower.moments import planning_time, timed_events, upcoming_events
from compiler.lower.origins import Origins
from compiler.lower.pod_rules import LoweredRules, lower_pod_rules
from compiler.lower.policy import lower_policy
from compiler.lower.queues import lower_queues
from compiler.lower.resources import device_resources, resource_names, vector, vector_sum
from compiler.lower.subgroups import subgroup_demand, with_subgroup_rules
from compiler.lower.time import gang_times, maintenance_in, maintenance_windows
from compiler.lower.topology import leaf_by_node, lower_hypernodes
from compiler.lower.victims import eviction_losses, non_preempting_classes
from compiler.specs import GangSpec, HyperNodeSpec, QueueSpec, Specs
from compiler.volcano.eviction_votes import eviction_votes
from solver.problem import EvictionVotes, Node, Problem, ReturningNode, Vector

DEFAULT_PODS_PER_NODE = 110
"""How many pods a node takes that does not say: the kubelet's default."""

__all__ = ["Origins", "lower"]


def lower(
    specs: Specs, state: ClusterState | None = None, dates: Mapping[str, int] | None = None
) -> tuple[Problem, Origins]:
    """Make the problem.

    dates: file -> seconds since the epoch at which the repository got it. A gang that finished, that its owner
    suspended, or that has no pods is in no problem but in the origins' `done`, `set_aside` and `empty`. Deterministic;
    nodes times gangs is never walked pod by pod.
    """
    live, clock = observe_state(specs, state or ClusterState()), state.clock if state else None
    chosen = [
        j
        for j, gang in enumerate(specs.gangs)
        if j not in live.finished_gangs and gang.schedulable and _pod_total(gang)
    ]
    gangs = tuple(specs.gangs[j] for j in chosen)
    submission = submission_times(specs.gangs, live, dates or {})
    every = timed_events(specs, live, chosen, submission)
    live.now = planning_time(live, every, submission, clock)

    parted = make_slot_groups(live, (role.pod for gang in gangs for role in gang.roles), specs.scheduler)
    names = resource_names(gangs, specs.queues, parted.slot_resources)
    made_queues, queue_origins = lower_queues(
        specs.queues, specs.cluster.default_queue, live.queue_used, names, live.closed_queues
    )
    away = {node.name: returned_node(node) for node in live.nodes if node.unschedulable}
    open_to = classify_nodes(
        (*live.nodes, *away.values()),
        (parted.node_requirement(role.pod) for gang in gangs for role in gang.roles),
        parted.numa_aware,
    )
    nodes, holders = _nodes(live, gangs, chosen, live.hypernodes, open_to, parted, names)
    holds = slot_holds(holders, live, specs.gangs, parted, names)

    values, otherwise = class_priorities(specs.priority_classes)
    rank = age_ranks(specs.gangs, submission)
    queue_of, node_of = (
        {queue.name: q for q, queue in enumerate(made_queues)},
        {node.name: n for n, node in enumerate(nodes)},
    )
    lowering = GangLowering(names, queue_of, node_of, live.hypernodes, open_to, parted, specs.scheduler)
    parts = [subgroup_demand(gang, live.running_pods.get(j, {})) for j, gang in zip(chosen, gangs, strict=True)]
    bonds = lower_pod_rules(gangs, live.nodes, live.foreign_pods, specs.scheduler)
    bonds, wholes = with_subgroup_rules(bonds, gangs, parts, live.hypernodes, live.nodes)
    preempting, reclaiming = eviction_votes(specs.scheduler)
    evicts = preempting is not None or reclaiming is not None
    mild = non_preempting_classes(specs.priority_classes)
    lost = eviction_losses(chosen, specs, live, eviction_enabled=evicts, reclaim_enabled=reclaiming is not None)

    problem = Problem(
        resources=names,
        nodes=nodes,
        hypernodes=lower_hypernodes(live.hypernodes),
        queues=made_queues,
        gangs=bonds.gangs_with_rules(
            lowering.lower_gang(
                specs.gangs[j],
                priority=values.get(specs.gangs[j].priority_class or "", otherwise),
                age=rank[j],
                running=live.running_pods.get(j, {}),
                loss=lost[j],
                may_evict=specs.gangs[j].priority_class not in mild,
                slot_holds=holds.get(j, ()),
                times=gang_times(j, specs.gangs[j], live, submission.get(j), specs.cluster.patience),
                demand=parts[g],
            )
            for g, j in enumerate(chosen)
        ),
        policy=lower_policy(specs.scheduler),
        preempt_enabled=preempting is not None,
        reclaim_enabled=reclaiming is not None,
        preempt_votes=preempting or EvictionVotes(),
        reclaim_votes=reclaiming or EvictionVotes(),
        disruption_budgets=disruption_budgets(live.budget_selections, {j: g for g, j in enumerate(chosen)})
        if evicts
        else (),
        slot_groups=parted.names,
        pod_rules=bonds.pod_rules,
        device_resources=device_resources(names),
    )
    origins = replace(
        _origins(specs, live, gangs, queue_origins, submission, bonds, parted),
        upcoming_events=upcoming_events(every, live.now, clock),
        subgroup_of_rule=wholes,
    )
    return with_dedicated_domains(problem, {spec.name: spec for spec in specs.queues}, live.hypernodes), origins


def _origins(
    specs: Specs,
    live: ObservedState,
    gangs: tuple[GangSpec, ...],
    queue_origins: tuple[QueueSpec | None, ...],
    submission: Mapping[int, int],
    pod_rules: LoweredRules,
    slot_groups: SlotGroups,
) -> Origins:
    """gangs: those in the problem. Of the others it says what became of them."""
    others = [gang for j, gang in enumerate(specs.gangs) if j not in live.finished_gangs]
    return Origins(
        gangs=gangs,
        queues=queue_origins,
        nodes=live.nodes,
        hypernodes=live.hypernodes,
        finished_gangs=tuple(gang for j, gang in enumerate(specs.gangs) if j in live.finished_gangs),
        inactive_gangs=tuple(gang for gang in others if not gang.schedulable),
        empty_gangs=tuple(gang for gang in others if gang.schedulable and not _pod_total(gang)),
        submission_times={specs.gangs[j].key: time for j, time in submission.items()},
        now=live.now,
        reserved_starts={specs.gangs[j].key: time for j, time in live.reserved_starts.items()},
        rule_texts=pod_rules.texts,
        rule_owner_pods=pod_rules.owner_pods,
        outdated_nodes=tuple(
            node.name
            for node in live.nodes
            if slot_groups.names and slot_groups.is_outdated(node, live.pods_by_node.get(node.name, ()))
        ),
        unplanned_numa=slot_groups.unplanned_numa(gangs),
        excluding_numa_policies=excluding_numa_policies(live.nodes, gangs) if slot_groups.numa_aware else {},
    )


def _pod_total(gang: GangSpec) -> int:
    return sum(role.replicas for role in gang.roles)


def _nodes(
    live: ObservedState,
    gangs: Sequence[GangSpec],
    gang_indices: Sequence[int],
    hypernode_specs: Sequence[HyperNodeSpec],
    node_classes: NodeClasses,
    slot_groups: SlotGroups,
    names: Sequence[str],
) -> tuple[tuple[Node, ...], dict[int, tuple[SlotHolder, ...]]]:
    """Capacity less what others hold. A node that is over-committed, or lost, has exactly the room that our running
    pods fill. And, by node, which pods surely hold which of its cells."""
    leaf = leaf_by_node(hypernode_specs)
    away = dict(
        zip(
            (spec.name for spec in live.nodes if spec.unschedulable),
            node_classes.class_by_node[len(live.nodes) :],
            strict=True,
        )
    )
    ours = _gang_amounts_by_node(gangs, gang_indices, live, names)
    nothing = vector({}, names)
    offers: dict[tuple[tuple[str, int], ...], Vector] = {}
    made: list[Node] = []
    holders: dict[int, tuple[SlotHolder, ...]] = {}
    for spec, kind in zip(live.nodes, node_classes.class_by_node, strict=False):
        said = tuple(spec.allocatable.items())
        if said not in offers:  # a pool's nodes say the same, thousands of times
            offers[said] = tuple(
                max(0, amount) for amount in vector({"pods": DEFAULT_PODS_PER_NODE, **spec.allocatable}, names)
            )
        free = capacity = offers[said]
        running = ours.get(spec.name, nothing)
        if spec.name in live.foreign_amounts or running is not nothing:
            others = vector(live.foreign_amounts.get(spec.name, {}), names)
            free = tuple(map(max, map(sub, free, others), running))
            capacity = tuple(map(max, capacity, free))
        cells, holding = (
            slot_groups.device_slots(spec, live.pods_by_node.get(spec.name, ()), names)
            if slot_groups.names
            else ((), ())
        )
        back = ReturningNode(away[spec.name], capacity, free, cells) if spec.name in away else None
        if spec.name in live.unready_nodes:
            free = capacity = running
            cells = tuple(replace(cell, free=(0,) * len(names)) for cell in cells)
        elif holding:
            holders[len(made)] = holding
        shut = maintenance_windows(spec, live.now) if spec.maintenance_windows else ()
        made.append(Node(spec.name, kind, leaf.get(spec.name), capacity, free, cells, maintenance_in(shut), back, shut))
    return tuple(made), holders


def _gang_amounts_by_node(
    gangs: Sequence[GangSpec], gang_indices: Sequence[int], live: ObservedState, names: Sequence[str]
) -> dict[str, Vector]:
    """Node name -> what the running pods of the gangs hold there."""
    held: dict[str, Vector] = {}
    nothing = vector({}, names)
    for gang, j in zip(gangs, gang_indices, strict=True):
        if j in live.running_pods:
            requests = [vector(role.pod.requests, names) for role in gang.roles]
            for (t, name), pods in live.running_pods[j].items():
                held[name] = vector_sum(held.get(name, nothing), requests[t], pods)
    return held
