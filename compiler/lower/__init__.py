"""Lowering: what the documents say, and what the cluster holds, as one `solver.Problem`, with the way back to each
document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import sub

from compiler.cluster_state.state import State
from compiler.lower.budgets import budgets
from compiler.lower.dedicated_domains import keep
from compiler.lower.device_slots import Divisions, Holder, divisions, held_by
from compiler.lower.eligibility import Eligibility, barring, eligibility, returned
from compiler.lower.gangs import GangLowering, ages, priorities, submitted
from compiler.lower.live import Live, observe
from compiler.lower.moments import ahead, counted_from, moments
from compiler.lower.origins import Origins, job_key
from compiler.lower.pod_rules import Relations, relations
from compiler.lower.policy import policy
from compiler.lower.queues import queues
from compiler.lower.resources import devices, plus, resources, vector
from compiler.lower.subgroups import kept_whole, settled
from compiler.lower.time import closes_in, times, windows
from compiler.lower.topology import hypernodes, leaves
from compiler.lower.victims import losses, never
from compiler.specs import GangSpec, HyperNodeSpec, QueueSpec, Specs
from compiler.volcano.eviction_votes import votes
from solver.problem import Back, Node, Problem, Vector, Votes

PODS_PER_NODE = 110
"""How many pods a node takes that does not say: the kubelet's default."""

__all__ = ["Origins", "lower"]


def lower(specs: Specs, state: State | None = None, dates: Mapping[str, int] | None = None) -> tuple[Problem, Origins]:
    """Make the problem.

    dates: file -> seconds since the epoch at which the repository got it. A gang that finished, that its owner
    suspended, or that has no pods is in no problem but in the origins' `done`, `set_aside` and `empty`. Deterministic;
    nodes times gangs is never walked pod by pod.
    """
    live, clock = observe(specs, state or State()), state.clock if state else None
    chosen = [j for j, gang in enumerate(specs.gangs) if j not in live.finished and gang.schedulable and _pods(gang)]
    gangs = tuple(specs.gangs[j] for j in chosen)
    submission = submitted(specs.gangs, live, dates or {})
    every = moments(specs, live, chosen, submission)
    live.latest = counted_from(live, every, submission, clock)

    parted = divisions(live, (role.pod for gang in gangs for role in gang.roles), specs.scheduler)
    names = resources(gangs, specs.queues, parted.resources)
    made_queues, queue_origins = queues(
        specs.queues, specs.cluster.default_queue, live.queue_used, names, live.closed_queues
    )
    away = {node.name: returned(node) for node in live.nodes if node.unschedulable}
    open_to = eligibility(
        (*live.nodes, *away.values()),
        (parted.requirement(role.pod) for gang in gangs for role in gang.roles),
        parted.aware,
    )
    nodes, holders = _nodes(live, gangs, chosen, live.hypernodes, open_to, parted, names)
    holds = held_by(holders, live, specs.gangs, parted, names)

    values, otherwise = priorities(specs.priority_classes)
    rank = ages(specs.gangs, submission)
    queue_of, node_of = (
        {queue.name: q for q, queue in enumerate(made_queues)},
        {node.name: n for n, node in enumerate(nodes)},
    )
    lowering = GangLowering(names, queue_of, node_of, live.hypernodes, open_to, parted, specs.scheduler)
    parts = [settled(gang, live.running.get(j, {})) for j, gang in zip(chosen, gangs, strict=True)]
    bonds = relations(gangs, live.nodes, live.bystanders, specs.scheduler)
    bonds, wholes = kept_whole(bonds, gangs, parts, live.hypernodes, live.nodes)
    preempting, reclaiming = votes(specs.scheduler)
    evicts = preempting is not None or reclaiming is not None
    mild = never(specs.priority_classes)
    lost = losses(chosen, specs, live, evicts=evicts, reclaims=reclaiming is not None)

    problem = Problem(
        resources=names,
        nodes=nodes,
        hypernodes=hypernodes(live.hypernodes),
        queues=made_queues,
        gangs=bonds.tied(
            lowering.gang(
                specs.gangs[j],
                priority=values.get(specs.gangs[j].priority_class or "", otherwise),
                age=rank[j],
                running=live.running.get(j, {}),
                loss=lost[j],
                preempts=specs.gangs[j].priority_class not in mild,
                holds=holds.get(j, ()),
                known=times(j, specs.gangs[j], live, submission.get(j), specs.cluster.patience),
                parts=parts[g],
            )
            for g, j in enumerate(chosen)
        ),
        policy=policy(specs.scheduler),
        preempt=preempting is not None,
        reclaim=reclaiming is not None,
        preempting=preempting or Votes(),
        reclaiming=reclaiming or Votes(),
        budgets=budgets(live.budgets, {j: g for g, j in enumerate(chosen)}) if evicts else (),
        divisions=parted.names,
        relations=bonds.relations,
        devices=devices(names),
    )
    origins = replace(
        _origins(specs, live, gangs, queue_origins, submission, bonds, parted),
        moments=ahead(every, live.latest, clock),
        wholes=wholes,
    )
    return keep(problem, {spec.name: spec for spec in specs.queues}, live.hypernodes), origins


def _origins(
    specs: Specs,
    live: Live,
    gangs: tuple[GangSpec, ...],
    queue_origins: tuple[QueueSpec | None, ...],
    submission: Mapping[int, int],
    bonds: Relations,
    parted: Divisions,
) -> Origins:
    """gangs: those in the problem. Of the others it says what became of them."""
    others = [gang for j, gang in enumerate(specs.gangs) if j not in live.finished]
    return Origins(
        gangs=gangs,
        queues=queue_origins,
        nodes=live.nodes,
        hypernodes=live.hypernodes,
        done=tuple(gang for j, gang in enumerate(specs.gangs) if j in live.finished),
        set_aside=tuple(gang for gang in others if not gang.schedulable),
        empty=tuple(gang for gang in others if gang.schedulable and not _pods(gang)),
        submitted={job_key(specs.gangs[j]): time for j, time in submission.items()},
        now=live.latest,
        promised={job_key(specs.gangs[j]): time for j, time in live.promised.items()},
        relations=bonds.words,
        guards=bonds.guards,
        behind=tuple(
            node.name for node in live.nodes if parted.names and parted.behind(node, live.tenants.get(node.name, ()))
        ),
        unplanned=parted.unplanned(gangs),
        barring=barring(live.nodes, gangs) if parted.aware else {},
    )


def _pods(gang: GangSpec) -> int:
    return sum(role.replicas for role in gang.roles)


def _nodes(
    live: Live,
    gangs: Sequence[GangSpec],
    chosen: Sequence[int],
    tree: Sequence[HyperNodeSpec],
    open_to: Eligibility,
    parted: Divisions,
    names: Sequence[str],
) -> tuple[tuple[Node, ...], dict[int, tuple[Holder, ...]]]:
    """Capacity less what others hold. A node that is over-committed, or lost, has exactly the room that our running
    pods fill. And, by node, which pods surely hold which of its cells."""
    leaf = leaves(tree)
    away = dict(
        zip((spec.name for spec in live.nodes if spec.unschedulable), open_to.of_node[len(live.nodes) :], strict=True)
    )
    ours = _held_by(gangs, chosen, live, names)
    nothing = vector({}, names)
    offers: dict[tuple[tuple[str, int], ...], Vector] = {}
    made: list[Node] = []
    holders: dict[int, tuple[Holder, ...]] = {}
    for spec, kind in zip(live.nodes, open_to.of_node, strict=False):
        said = tuple(spec.allocatable.items())
        if said not in offers:  # a pool's nodes say the same, thousands of times
            offers[said] = tuple(
                max(0, amount) for amount in vector({"pods": PODS_PER_NODE, **spec.allocatable}, names)
            )
        free = capacity = offers[said]
        running = ours.get(spec.name, nothing)
        if spec.name in live.held or running is not nothing:
            others = vector(live.held.get(spec.name, {}), names)
            free = tuple(map(max, map(sub, free, others), running))
            capacity = tuple(map(max, capacity, free))
        cells, holding = parted.cells(spec, live.tenants.get(spec.name, ()), names) if parted.names else ((), ())
        back = Back(away[spec.name], capacity, free, cells) if spec.name in away else None
        if spec.name in live.frozen:
            free = capacity = running
            cells = tuple(replace(cell, free=(0,) * len(names)) for cell in cells)
        elif holding:
            holders[len(made)] = holding
        shut = windows(spec, live.latest) if spec.maintenance else ()
        made.append(Node(spec.name, kind, leaf.get(spec.name), capacity, free, cells, closes_in(shut), back, shut))
    return tuple(made), holders


def _held_by(gangs: Sequence[GangSpec], chosen: Sequence[int], live: Live, names: Sequence[str]) -> dict[str, Vector]:
    """Node name -> what the running pods of the gangs hold there."""
    held: dict[str, Vector] = {}
    nothing = vector({}, names)
    for gang, j in zip(gangs, chosen, strict=True):
        if j in live.running:
            requests = [vector(role.pod.requests, names) for role in gang.roles]
            for (t, name), pods in live.running[j].items():
                held[name] = plus(held.get(name, nothing), requests[t], pods)
    return held
