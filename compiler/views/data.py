"""The plan as plain data (docs/reference/plan-json.md), from which every view is made.

Amounts are numbers: cpu in cores, memory in bytes, everything else as a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from compiler.emit.batches import batch_entries, json_number
from compiler.explain.provenance import Source
from compiler.explain.statements import CodedMessage
from compiler.fields.amounts import json_amount
from compiler.fields.timestamp import rfc3339
from compiler.kubernetes import API_VERSION
from compiler.outcome import JobDecision, Outcome
from compiler.views.selection import left_out_entries


def plan_document(outcome: Outcome, *, timings: bool = False) -> dict[str, Any]:
    """The Plan document. Without a verified plan its lists are empty."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "cluster": outcome.specs.cluster.name,
        "digest": outcome.digest,
        **({} if outcome.origins is None or outcome.origins.now is None else {"now": rfc3339(outcome.origins.now)}),
        "gangs": [gang_entry(decided) for decided in outcome.decisions],
        "batches": batch_entries(outcome, timings=timings),
        "queues": queue_entries(outcome),
        "totals": resource_totals(outcome),
        **({"leftOut": broken} if (broken := left_out_entries(outcome)) else {}),
        **({"clockStruck": True} if outcome.plan is not None and outcome.plan.hit_time_limit else {}),
    }


def gang_entry(decision: JobDecision) -> dict[str, Any]:
    document = decision.gang.document
    return {
        "apiVersion": document.api_version,
        "kind": document.kind,
        "namespace": decision.gang.namespace,
        "name": document.name,
        "queue": decision.gang.queue,
        "priority": decision.priority,
        "decision": decision.action,
        "pods": {role: dict(nodes) for role, nodes in decision.pods.items()},
        "domains": list(decision.domains),
        "reasons": [_message_entry(reason) for reason in decision.reasons],
        "repairs": [_message_entry(repair) for repair in decision.repairs],
        "evictedFor": list(decision.evicted_for),
        "startsAt": None if decision.starts_at is None else rfc3339(decision.starts_at),
        **({} if decision.gang.is_bound else {"bound": False}),
        **({"written": dict(written)} if (written := decision.gang.written_pods) else {}),
        **({"succeeded": dict(done)} if (done := decision.gang.succeeded_pods) else {}),
        **({"held": True} if decision.held else {}),
        **({"dependentRoles": list(late)} if (late := decision.gang.dependent_roles) else {}),
        **({"startsAfter": list(decision.awaited_jobs)} if decision.awaited_jobs else {}),
        **({"cells": [asdict(one) for one in decision.slot_assignments]} if decision.slot_assignments else {}),
    }


def _message_entry(message: CodedMessage) -> dict[str, Any]:
    facts = {name: list(value) if isinstance(value, tuple) else value for name, value in message.facts.items()}
    also = {"also": [_message_entry(other) for other in message.also]} if message.also else {}
    comes = {"from": [source_entry(source) for source in message.sources]} if message.sources else {}
    return {"code": message.code, "message": message.message, **facts, **also, **comes}


def source_entry(source: Source) -> dict[str, Any]:
    """The object, which field of it, and where that stands."""
    at = source.position  # in full here: `asdict` copies field by field, a tenth of what the text of a plan costs
    place = {} if at is None else {"file": at.file, "line": at.line, "column": at.column}
    return {"object": source.object, **({"field": source.field} if source.field else {}), **place}


def queue_entries(outcome: Outcome) -> list[dict[str, Any]]:
    """In the problem's order; guarantee and capability as declared, deserved as the plan has it."""
    if outcome.plan is None or outcome.problem is None:
        return []
    problem = outcome.problem

    def amounts(vector: Sequence[int | None]) -> dict[str, int | float]:
        pairs = zip(problem.resources, vector, strict=True)
        return {name: json_amount(name, amount) for name, amount in pairs if amount is not None}

    return [
        {
            "name": queue.name,
            "parent": None if queue.parent is None else problem.queues[queue.parent].name,
            "allocated": amounts(use.allocated),
            "admitted": amounts(use.admitted),
            "guarantee": amounts(queue.guarantee),
            "deserved": amounts(use.deserved),
            "capability": amounts(queue.capability),
            "share": json_number(use.share),
        }
        for use, queue in zip(outcome.plan.queues, problem.queues, strict=True)
    ]


def resource_totals(outcome: Outcome) -> dict[str, dict[str, int | float]]:
    """capacity: of all nodes. used: by all pods that run now. planned: by the plan's jobs, running pods included."""
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
            "capacity": json_amount(name, capacity[r]),
            "used": json_amount(name, foreign[r] + running[r]),
            "planned": json_amount(name, planned[r]),
        }
        for r, name in enumerate(problem.resources)
    }
