"""A `Plan` of a baseline's placements, so that the verifier can check it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bench.baselines.site import Placements
from solver.facts import Undecided
from solver.plan import Batch, Decision, Plan, QueueUse
from solver.problem import Placement, Problem
from solver.semantics.device_slots import SlotUses, slot_uses_of
from solver.semantics.entitlements import deserved_amounts
from solver.semantics.gang_classes import meets_minima
from solver.semantics.placements import add_vectors, merge_placements, new_placements, placed_demand
from solver.state.free_nodes import FreeNodes, free_and_overcommitted
from solver.state.queue_books import QueueBooks

EvictedPods = Mapping[int, tuple[Placement, ...]]


def plan_of_placements(
    problem: Problem, placements: Placements, evicted_pods: EvictedPods | None = None, preemptor: int | None = None
) -> Plan:
    """placements: gang -> all its pods after the plan; a gang without any waits. evicted: gang -> the running pods that
    go for `winner`."""
    gone = evicted_pods or {}
    decisions = tuple(_decision(problem, j, placements, gone, preemptor) for j in range(len(problem.gangs)))
    uses_of = _slot_uses(problem, placements)
    decisions = tuple(replace(d, slot_uses=uses_of.get(d.gang, ())) for d in decisions)
    before, after, width = QueueBooks(problem), QueueBooks(problem), len(problem.resources)
    for d in decisions:
        gang = problem.gangs[d.gang]
        after.charge_queue(gang.queue, placed_demand(gang, new_placements(gang, d.placements or gang.running), width))
        if d.action == "evict":
            after.charge_queue(gang.queue, tuple(-x for x in placed_demand(gang, d.evicted_pods, width)))
    whole = problem.totals
    uses = (
        QueueUse(
            q,
            before.held[q],
            add_vectors(after.held[q], before.held[q], -1),
            after.weighted_dominant_share(q, whole),
            deserved,
        )
        for q, deserved in enumerate(deserved_amounts(problem))
    )
    decided = tuple(d.gang for d in decisions if d.action in ("start", "wait"))
    return Plan(decisions, (Batch(decided, "proven", (), 0.0),) if decided else (), tuple(uses))


def _slot_uses(problem: Problem, placements: Placements) -> SlotUses:
    """Return the cells of the new pods' portions: any assignment in which those of each node fit. Raises ValueError if
    there is none."""
    new = {j: new_placements(problem.gangs[j], pods) for j, pods in placements.items()}
    room = FreeNodes(free_and_overcommitted(problem)[0])
    for j, pods in sorted(new.items()):
        for p in pods:
            role = problem.gangs[j].roles[p.role]
            if role.slot_requests:
                room.take_pods(p.node, role.pod_request, p.pods)
    return slot_uses_of(problem, room.slot_layout, new)


def _decision(
    problem: Problem, j: int, placements: Placements, evicted_pods: EvictedPods, preemptor: int | None
) -> Decision:
    gang, pods, lost = (
        problem.gangs[j],
        merge_placements(placements.get(j, ())),
        merge_placements(evicted_pods.get(j, ())),
    )
    leaves = tuple(sorted({leaf for p in pods if (leaf := problem.nodes[p.node].leaf) is not None}))
    for_whom = (preemptor,) if lost and preemptor is not None else ()
    if lost and not pods:
        return Decision(j, "evict", (), (), evicted_pods=lost, evicted_for=for_whom)
    if not pods:
        return Decision(j, "wait", (), (), (Undecided(),))
    return Decision(j, "keep" if meets_minima(gang) else "start", pods, leaves, evicted_pods=lost, evicted_for=for_whom)
