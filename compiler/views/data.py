"""The plan as plain data (`compiler.outputs`), from which every view is made.

Amounts are numbers: cpu in cores, memory in bytes, everything else as a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from compiler.emit.lock import batch_entries, json_number
from compiler.explain.provenance import Source
from compiler.explain.statements import CodedMessage
from compiler.fields.quantity import json_amount
from compiler.fields.times import rfc3339
from compiler.kubernetes import API_VERSION
from compiler.outcome import JobDecision, Outcome
from compiler.views.selection import left_out_entries
from compiler.views.start_windows import window_entry

if TYPE_CHECKING:
    from compiler.outputs import (
        Amounts,
        GangEntry,
        PlanDocument,
        PromiseEntry,
        QueueEntry,
        ReasonEntry,
        SourceEntry,
        TotalEntry,
    )


def plan_document(outcome: Outcome, *, timings: bool = False) -> PlanDocument:
    """Return the Plan document. Without a verified plan its lists are empty."""
    now = None if outcome.origins is None else outcome.origins.now
    document: PlanDocument = {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "cluster": outcome.specs.cluster.name,
        "digest": outcome.digest,
        "now": "" if now is None else rfc3339(now),
        "gangs": [gang_entry(decided) for decided in outcome.decisions],
        "batches": batch_entries(outcome, timings=timings),
        "queues": queue_entries(outcome),
        "totals": resource_totals(outcome),
    }
    if now is None:
        del document["now"]
    if (score := _promise_entry(outcome)) is not None:
        document["promisedStarts"] = score
    if broken := left_out_entries(outcome):
        document["leftOut"] = broken
    if outcome.plan is not None and outcome.plan.hit_time_limit:
        document["clockStruck"] = True
    return document


def _promise_entry(outcome: Outcome) -> PromiseEntry | None:
    past = None if outcome.origins is None else outcome.origins.starts.past_runs
    if past is None or past.score is None:
        return None
    score = past.score
    return {
        "made": score.made,
        "estimates": score.estimates,
        "inside": round(score.inside, 6),
        "width": round(score.width, 6),
        "error": score.error,
        "errorByLimits": score.limits_error,
    }


def gang_entry(decision: JobDecision) -> GangEntry:
    gang, document = decision.gang, decision.gang.document
    entry: GangEntry = {
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
        "startsAt": None if decision.start.starts_at is None else rfc3339(decision.start.starts_at),
    }
    if (window := window_entry(decision.start)) is not None:
        entry["startWindow"] = window
    if not gang.scheduling.is_bound:
        entry["bound"] = False
    if gang.controller.written_pods:
        entry["written"] = dict(gang.controller.written_pods)
    if gang.succeeded_pods:
        entry["succeeded"] = dict(gang.succeeded_pods)
    if decision.held:
        entry["held"] = True
    if gang.controller.dependent_roles:
        entry["dependentRoles"] = list(gang.controller.dependent_roles)
    if decision.start.awaited_jobs:
        entry["startsAfter"] = list(decision.start.awaited_jobs)
    if decision.slot_assignments:
        entry["cells"] = list(decision.slot_assignments)
    return entry


def _message_entry(message: CodedMessage) -> ReasonEntry:
    facts = {name: list(value) if isinstance(value, tuple) else value for name, value in message.facts.items()}
    also = {"also": [_message_entry(other) for other in message.also]} if message.also else {}
    comes = {"from": [source_entry(source) for source in message.sources]} if message.sources else {}
    return cast("ReasonEntry", {"code": message.code, "message": message.message, **facts, **also, **comes})


def source_entry(source: Source) -> SourceEntry:
    """Return the object, its field, and the place of that."""
    at = source.position  # in full here: `asdict` copies field by field, a tenth of what the text of a plan costs
    entry: SourceEntry = {"object": source.object}
    if source.field:
        entry["field"] = source.field
    if at is not None:
        entry["file"], entry["line"], entry["column"] = at.file, at.line, at.column
    return entry


def queue_entries(outcome: Outcome) -> list[QueueEntry]:
    """In the problem's order; guarantee and capability as declared, deserved as the plan has it."""
    if outcome.plan is None or outcome.problem is None:
        return []
    problem = outcome.problem

    def amounts(vector: Sequence[int | None]) -> Amounts:
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


def resource_totals(outcome: Outcome) -> dict[str, TotalEntry]:
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
