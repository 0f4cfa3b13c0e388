"""Binding by gates: the pods are held back until the reconciler gives each its node, a whole gang at a time.

A Volcano Job's template can never be changed, so every job carries the gate whatever its decision; the plan itself
stands in an annotation.
"""

from __future__ import annotations

import json
from typing import Any

from compiler.emit.templates import annotate, templates
from compiler.lower.live import STARTS_AT
from compiler.outcome import Decided

GATE = "gangplan.dev/placement"
PLACEMENT = "gangplan.dev/placement"
WAITING = "gangplan.dev/waiting"


def bind(data: dict[str, Any], decided: Decided) -> None:
    for _, template in templates(data, decided.gang):
        hold(template["spec"])
    if decided.action in ("start", "keep"):
        annotate(data, PLACEMENT, compact(decided.pods))
    elif decided.action == "wait":
        annotate(data, WAITING, "; ".join(f"{reason.code}: {reason.message}" for reason in decided.reasons))
        if decided.promised is not None:
            annotate(data, STARTS_AT, decided.promised)
    elif decided.action == "evict":
        annotate(data, WAITING, f"evicted for {', '.join(decided.evicted_for)}")


def hold(pod: dict[str, Any]) -> None:
    """Put our gate on a pod spec, beside any others."""
    gates = pod.setdefault("schedulingGates", [])
    if not any(gate.get("name") == GATE for gate in gates):
        gates.append({"name": GATE})


def compact(pods: Any) -> str:
    """The same text for the same placement, whatever order it came in."""
    return json.dumps(pods, sort_keys=True, separators=(",", ":"), default=dict)
