"""The lock: which inputs gave which plan, how well it is proved, and where every pod goes; the same bytes for the same
inputs."""

from __future__ import annotations

from typing import Any

from compiler.emit.block import dump
from compiler.outcome import Decided, Outcome
from compiler.version import VERSION
from compiler.views.data import API_VERSION, batches

FILE = "gangplan.lock"


def lock(outcome: Outcome) -> str:
    """YAML. Measured times are left out: they would differ from run to run. clockStruck is said where they nevertheless
    decided something."""
    return dump(
        {
            "apiVersion": API_VERSION,
            "kind": "Lock",
            "gangplan": VERSION,
            "cluster": outcome.specs.cluster.name,
            "binding": outcome.specs.cluster.binding,
            "digest": outcome.digest,
            "inputs": dict(sorted(outcome.inputs.items())),
            "jobs": [_job(decided) for decided in outcome.decisions],
            **({"clockStruck": True} if outcome.plan is not None and outcome.plan.clock_struck else {}),
            "batches": [{key: value for key, value in batch.items() if key != "seconds"} for batch in batches(outcome)],
        }
    )


def _job(decided: Decided) -> dict[str, Any]:
    said: dict[str, Any] = {"job": decided.name, "kind": decided.gang.document.kind, "decision": decided.action}
    if decided.pods:
        said["pods"] = {role: dict(nodes) for role, nodes in decided.pods.items()}
    if decided.reasons:
        said["reasons"] = [reason.code for reason in decided.reasons]
    if decided.evicted:
        said["evicted"] = {role: dict(nodes) for role, nodes in decided.evicted.items()}
        said["evictedFor"] = list(decided.evicted_for)
    return said
