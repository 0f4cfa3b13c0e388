"""One object to apply, as plain data: from the emitters, across a process boundary, to the reconciler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.diagnostics.diagnostic import declare_rule

REFUSED_BY_SERVER = declare_rule("GP505", "error")
JOBS_WAVE = 5
"""The wave of jobs, with the PodGroups and pods that are one."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Waves are applied in order: 0 namespaces and priority classes, 1 queues (parents first), 2 hypernodes, 3 the
    scheduler's ConfigMap, 4 kinds that pass through, 5 jobs.

    object: ready for server-side apply. position: "file:line" of its document. run_digest: of a job that runs once and
    finishes, else empty. pods: all replicas of a job, else 0.
    """

    wave: int
    object: dict[str, Any]
    position: str
    run_digest: str = ""
    pods: int = 0
