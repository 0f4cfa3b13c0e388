"""The plan as plain data, in the shape that DESIGN section 7 fixes: the one source of every view.

Amounts are numbers: cpu in cores, memory in bytes, everything else as a count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from compiler.explain.provenance import Source
from compiler.explain.reasons import Reason
from compiler.fields.amounts import number, rfc3339
from compiler.lower.origins import namespace_of
from compiler.outcome import Decided, Outcome
from solver.plan import Batch
from solver.problem import Problem
from solver.semantics.queue_limits import water_filling

API_VERSION = "gangplan.dev/v1alpha1"


def plan(outcome: Outcome, *, timings: bool = False) -> dict[str, Any]:
    """The Plan document. Without a verified plan its lists are empty."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "cluster": outcome.specs.cluster.name,
        "digest": outcome.digest,
        **({} if outcome.origins is None or outcome.origins.now is None else {"now": rfc3339(outcome.origins.now)}),
        "gangs": [gang(decided) for decided in outcome.decisions],
        "batches": batches(outcome, timings=timings),
        "queues": queues(outcome),
        "totals": totals(outcome),
        **({"clockStruck": True} if outcome.plan is not None and outcome.plan.clock_struck else {}),
    }


def gang(decided: Decided) -> dict[str, Any]:
    document = decided.gang.document
    return {
        "apiVersion": document.api_version,
        "kind": document.kind,
        "namespace": namespace_of(decided.gang),
        "name": document.name,
        "queue": decided.gang.queue,
        "priority": decided.priority,
        "decision": decided.action,
        "pods": {role: dict(nodes) for role, nodes in decided.pods.items()},
        "domains": list(decided.domains),
        "reasons": [_reason(reason) for reason in decided.reasons],
        "repairs": [_reason(repair) for repair in decided.repairs],
        "evictedFor": list(decided.evicted_for),
        "startsAt": None if decided.starts_at is None else rfc3339(decided.starts_at),
        **({"startsAfter": list(decided.awaits)} if decided.awaits else {}),
        **({"cells": [asdict(part) for part in decided.cells]} if decided.cells else {}),
    }


def _reason(reason: Reason) -> dict[str, Any]:
    facts = {name: list(value) if isinstance(value, tuple) else value for name, value in reason.facts.items()}
    also = {"also": [_reason(other) for other in reason.also]} if reason.also else {}
    comes = {"from": [_source(source) for source in reason.sources]} if reason.sources else {}
    return {"code": reason.code, "message": reason.message, **facts, **also, **comes}


def _source(source: Source) -> dict[str, Any]:
    place = {} if source.position is None else asdict(source.position)
    return {"object": source.object, **({"field": source.field} if source.field else {}), **place}


def batches(outcome: Outcome, *, timings: bool = False) -> list[dict[str, Any]]:
    if outcome.plan is None or outcome.problem is None:
        return []
    return [_batch(batch, outcome.problem, timings) for batch in outcome.plan.batches]


def _batch(batch: Batch, problem: Problem, timings: bool) -> dict[str, Any]:
    return {
        "gangs": [problem.gangs[j].name for j in batch.gangs],
        "verdict": batch.verdict,
        "objectives": [
            {
                "name": o.name,
                "value": _exact(o.value),
                "bound": _exact(o.bound),
                "gap": _exact(o.gap),
                "verdict": o.verdict,
            }
            for o in batch.objectives
        ],
        "seconds": round(batch.seconds, 3) if timings else None,
    }


def _exact(value: float) -> int | float:
    """Whole numbers without a point, others to nine digits, so that the last bit of a division is no difference."""
    rounded = round(float(value), 9)
    return int(rounded) if rounded.is_integer() else rounded


def queues(outcome: Outcome) -> list[dict[str, Any]]:
    """In the problem's order; only what was declared stands in guarantee, deserved and capability."""
    if outcome.plan is None or outcome.problem is None:
        return []
    problem = outcome.problem
    return [
        {
            "name": queue.name,
            "parent": None if queue.parent is None else problem.queues[queue.parent].name,
            "allocated": amounts(problem.resources, use.allocated),
            "admitted": amounts(problem.resources, use.admitted),
            "guarantee": amounts(problem.resources, queue.guarantee),
            "deserved": amounts(problem.resources, queue.deserved),
            "capability": amounts(problem.resources, queue.capability),
            "share": _exact(use.share),
        }
        for use, queue in zip(outcome.plan.queues, problem.queues, strict=True)
    ]


def as_shared(outcome: Outcome) -> list[dict[str, Any]]:
    """`queues`, where deserved is what counts: with the plugin proportion the share by weight that it works out for
    each queue with jobs."""
    found, problem = queues(outcome), outcome.problem
    if problem is None or not problem.policy.proportion:
        return found
    shares = [
        tuple(amount or None for amount in share or (None,) * len(problem.resources))
        for share in water_filling(problem)
    ]
    return [
        {**queue, "deserved": amounts(problem.resources, share)} for queue, share in zip(found, shares, strict=True)
    ]


def amounts(resources: Sequence[str], vector: Sequence[int | None]) -> dict[str, int | float]:
    return {name: number(name, amount) for name, amount in zip(resources, vector, strict=True) if amount is not None}


def totals(outcome: Outcome) -> dict[str, dict[str, int | float]]:
    """capacity: of all nodes. used: by pods that run now, anybody's. planned: by the plan's jobs, their running pods
    included."""
    if outcome.plan is None or outcome.problem is None:
        return {}
    problem, width = outcome.problem, range(len(outcome.problem.resources))
    capacity = [sum(node.capacity[r] for node in problem.nodes) for r in width]
    foreign = [sum(node.capacity[r] - node.free[r] for node in problem.nodes) for r in width]
    running, planned = [0] * len(width), [0] * len(width)
    for decision in outcome.plan.decisions:
        gang = problem.gangs[decision.gang]
        for places, total in ((gang.running, running), (decision.placements, planned)):
            for place in places:
                for r, amount in enumerate(gang.roles[place.role].request):
                    total[r] += amount * place.pods
    return {
        name: {
            "capacity": number(name, capacity[r]),
            "used": number(name, foreign[r] + running[r]),
            "planned": number(name, planned[r]),
        }
        for r, name in enumerate(problem.resources)
    }


def named(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Queues (or any list of things with a name) by name."""
    return {item["name"]: item for item in data["queues"]}
