"""Gated binding: scheduling gates hold pods until the reconciler gives each its node, a whole gang at a time.

A Volcano Job's template is immutable, so every job has the gate, for any decision; the plan is an annotation.
"""

from __future__ import annotations

import json
from typing import Any

from compiler import kubernetes as k8s
from compiler.emit.templates import annotate, pod_templates
from compiler.outcome import JobDecision


def bind(data: dict[str, Any], decision: JobDecision) -> None:
    for _, template in pod_templates(data, decision.gang):
        add_gate(template["spec"])
    if decision.start.promise is not None:
        annotate(data, k8s.PROMISED_START_ANNOTATION, compact_json(decision.start.promise.as_data()))
    if decision.action in ("start", "keep", "empty"):
        annotate(data, k8s.PLACEMENT_ANNOTATION, compact_json(decision.pods))
    elif decision.action == "wait":
        annotate(
            data, k8s.WAITING_ANNOTATION, "; ".join(f"{reason.code}: {reason.message}" for reason in decision.reasons)
        )
        if decision.start.reserved is not None:
            annotate(data, k8s.STARTS_AT_ANNOTATION, decision.start.reserved)
    elif decision.action == "evict":
        annotate(data, k8s.WAITING_ANNOTATION, f"evicted for {', '.join(decision.evicted_for)}")


def add_gate(pod: dict[str, Any]) -> None:
    """Add our gate to a pod spec, in addition to any others."""
    gates = pod.setdefault("schedulingGates", [])
    if not any(gate.get("name") == k8s.SCHEDULING_GATE for gate in gates):
        gates.append({"name": k8s.SCHEDULING_GATE})


def compact_json(value: Any) -> str:
    """Return a placement or another mapping as text, the same for equal ones in any order."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
