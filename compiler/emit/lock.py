"""The lock: the plan as a file, with the digests of its inputs and its proof; the same bytes for the same inputs."""

from __future__ import annotations

from typing import Any

from compiler.emit.batches import batch_entries
from compiler.emit.block import to_yaml
from compiler.kubernetes import API_VERSION
from compiler.outcome import JobDecision, Outcome
from compiler.version import VERSION

LOCK_FILE = "gangplan.lock"


def lock_text(outcome: Outcome) -> str:
    """YAML. Measured times are left out, since they differ from run to run; `clockStruck` tells that the time limit
    decided something."""
    return to_yaml(
        {
            "apiVersion": API_VERSION,
            "kind": "Lock",
            "gangplan": VERSION,
            "cluster": outcome.specs.cluster.name,
            "binding": outcome.specs.cluster.binding,
            "digest": outcome.digest,
            "inputs": dict(sorted(outcome.input_digests.items())),
            "jobs": [_job_entry(decided) for decided in outcome.decisions],
            **({"clockStruck": True} if outcome.plan is not None and outcome.plan.hit_time_limit else {}),
            "batches": [
                {key: value for key, value in batch.items() if key != "seconds"} for batch in batch_entries(outcome)
            ],
        }
    )


def _job_entry(decision: JobDecision) -> dict[str, Any]:
    said: dict[str, Any] = {"job": decision.name, "kind": decision.gang.document.kind, "decision": decision.action}
    if decision.pods:
        said["pods"] = {role: dict(nodes) for role, nodes in decision.pods.items()}
    if decision.reasons:
        said["reasons"] = [reason.code for reason in decision.reasons]
    if decision.evicted_pods:
        said["evicted"] = {role: dict(nodes) for role, nodes in decision.evicted_pods.items()}
        said["evictedFor"] = list(decision.evicted_for)
    return said
