"""A `Plan` that says what a baseline did, so that the verifier can judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bench.baselines.site import Placements
from solver.plan import Batch, Decision, Fact, Plan, QueueUse
from solver.problem import Placement, Problem
from solver.semantics.device_slots import Uses, certificate
from solver.semantics.gang_classes import satisfied
from solver.semantics.placements import fresh, merged
from solver.semantics.queue_limits import totals
from solver.state.room import Ledger, Room, add, demand, free_vectors

Evicted = Mapping[int, tuple[Placement, ...]]


def plan_of(
    problem: Problem, placements: Placements, evicted: Evicted | None = None, winner: int | None = None
) -> Plan:
    """placements: gang -> all its pods after the plan; a gang without any waits. evicted: gang -> the running pods that
    go for `winner`."""
    gone = evicted or {}
    decisions = tuple(_decision(problem, j, placements, gone, winner) for j in range(len(problem.gangs)))
    uses_of = _cells(problem, placements)
    decisions = tuple(replace(d, cells=uses_of.get(d.gang, ())) for d in decisions)
    before, after, width = Ledger(problem), Ledger(problem), len(problem.resources)
    for d in decisions:
        gang = problem.gangs[d.gang]
        after.charge(gang.queue, demand(gang, fresh(gang, d.placements or gang.running), width))
        if d.action == "evict":
            after.charge(gang.queue, tuple(-x for x in demand(gang, d.evicted, width)))
    whole = totals(problem)
    uses = (
        QueueUse(q, before.held[q], add(after.held[q], before.held[q], -1), after.share(q, whole))
        for q in range(len(problem.queues))
    )
    decided = tuple(d.gang for d in decisions if d.action in ("start", "wait"))
    return Plan(decisions, (Batch(decided, "proven", (), 0.0),) if decided else (), tuple(uses))


def _cells(problem: Problem, placements: Placements) -> Uses:
    """From which cells the new pods take their portions: any way in which those of each node fit. Raises ValueError
    where there is none."""
    new = {j: fresh(problem.gangs[j], pods) for j, pods in placements.items()}
    room = Room(free_vectors(problem))
    for j, pods in sorted(new.items()):
        for p in pods:
            role = problem.gangs[j].roles[p.role]
            if role.portions:
                room.take(p.node, role.ask, p.pods)
    return certificate(problem, room.laid, new)


def _decision(problem: Problem, j: int, placements: Placements, gone: Evicted, winner: int | None) -> Decision:
    gang, pods, lost = problem.gangs[j], merged(placements.get(j, ())), merged(gone.get(j, ()))
    leaves = tuple(sorted({leaf for p in pods if (leaf := problem.nodes[p.node].leaf) is not None}))
    for_whom = (winner,) if lost and winner is not None else ()
    if lost and not pods:
        return Decision(j, "evict", (), (), evicted=lost, evicted_for=for_whom)
    if not pods:
        return Decision(j, "wait", (), (), (Fact("GW000"),))
    return Decision(j, "keep" if satisfied(gang) else "start", pods, leaves, evicted=lost, evicted_for=for_whom)
