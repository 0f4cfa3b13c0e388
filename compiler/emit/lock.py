"""The lock: the plan as a file, with the digests of its inputs and its proof, which is the gangs that each model
decided and how good its decision is known to be; the same bytes for the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from compiler.emit.block import to_yaml
from compiler.kubernetes import API_VERSION
from compiler.outcome import JobDecision, Outcome, PodsByNode
from compiler.version import VERSION
from solver.plan import Batch
from solver.problem import Problem

if TYPE_CHECKING:
    from compiler.outputs import BatchEntry

LOCK_FILE = "gangplan.lock"


def lock_text(outcome: Outcome, files: Iterable[str] = ()) -> str:
    """Return the lock as YAML. Measured times are left out, since they differ from run to run; `clockStruck` shows that
    the time limit decided something. files: written next to it."""
    return to_yaml(
        {
            "apiVersion": API_VERSION,
            "kind": "Lock",
            "gangplan": VERSION,
            "cluster": outcome.specs.cluster.name,
            "binding": outcome.specs.cluster.binding,
            "digest": outcome.digest,
            "inputs": dict(sorted(outcome.input_digests.items())),
            **({"files": sorted(files)} if files else {}),
            "jobs": [_job_entry(decided) for decided in outcome.decisions],
            **({"clockStruck": True} if outcome.plan is not None and outcome.plan.hit_time_limit else {}),
            "batches": [
                {key: value for key, value in batch.items() if key != "seconds"} for batch in batch_entries(outcome)
            ],
        }
    )


class LockError(ValueError):
    """A file that is not a lock of gangplan's; the message has the cause."""


def read_lock(content: bytes) -> Mapping[str, Any]:
    """Return the lock as data. Raises LockError."""
    import yaml

    try:
        data = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise LockError(f"it is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict) or (data.get("apiVersion"), data.get("kind")) != (API_VERSION, "Lock"):
        raise LockError(f"it is not a {API_VERSION} Lock")
    return data


def listed_files(lock: Mapping[str, Any]) -> list[str] | None:
    """Return the files that the lock lists, named from its folder; None for one that lists none, as older ones do."""
    if not isinstance(names := lock.get("files"), list):
        return None
    return [name for name in map(str, names) if _is_inside(name)]


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


def planned_pods(lock: Mapping[str, Any]) -> dict[tuple[str, str], PodsByNode]:
    """(namespace/name, kind) of a job -> role -> node -> pods that the lock has run. Raises LockError."""
    found: dict[tuple[str, str], PodsByNode] = {}
    for job in lock.get("jobs") or ():
        try:
            roles = job.get("pods", {}).items()
            pods = {str(role): {str(node): int(number) for node, number in at.items()} for role, at in roles}
            found[str(job["job"]), str(job["kind"])] = pods
        except (AttributeError, KeyError, TypeError, ValueError):
            raise LockError("one of its jobs is not as gangplan writes it") from None
    return found


def _job_entry(decision: JobDecision) -> dict[str, Any]:
    entry: dict[str, Any] = {"job": decision.name, "kind": decision.gang.document.kind, "decision": decision.action}
    if decision.pods:
        entry["pods"] = {role: dict(nodes) for role, nodes in decision.pods.items()}
    if decision.reasons:
        entry["reasons"] = [reason.code for reason in decision.reasons]
    if decision.evicted_pods:
        entry["evicted"] = {role: dict(nodes) for role, nodes in decision.evicted_pods.items()}
        entry["evictedFor"] = list(decision.evicted_for)
    return entry


def batch_entries(outcome: Outcome, *, timings: bool = False) -> list[BatchEntry]:
    if outcome.plan is None or outcome.problem is None:
        return []
    return [_batch_entry(batch, outcome.problem, timings) for batch in outcome.plan.batches]


def _batch_entry(batch: Batch, problem: Problem, timings: bool) -> BatchEntry:
    return {
        "gangs": [problem.gangs[j].name for j in batch.gangs],
        "verdict": batch.verdict,
        "objectives": [
            {
                "name": o.name,
                "value": json_number(o.value),
                "bound": json_number(o.bound),
                "gap": json_number(o.gap),
                "verdict": o.verdict,
            }
            for o in batch.objectives
        ],
        "seconds": round(batch.seconds, 3) if timings else None,
    }


def json_number(value: float) -> int | float:
    """Return the number for JSON: whole numbers without a point, others to nine digits, so that the last bit of a
    division makes no difference."""
    rounded = round(float(value), 9)
    return int(rounded) if rounded.is_integer() else rounded
