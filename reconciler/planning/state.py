"""What is known of plans that are not in force: one that was rejected, and a compile that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.repository import Repository
from reconciler.changes.diff import Change
from reconciler.observation.observe import Observation
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Rejection:
    """A commit without a plan to apply. rejected_at, retry_at: on the clock; at the latter it may be tried again
    although nothing changed. rests_on: what it rested on in the cluster, and the moment that had come. attempts: how
    often in a row. refusals: the objects that the API server does not take; then there was a plan. breakdown: how the
    compile broke down; then nothing is known against the commit."""

    snapshot: Snapshot
    rejected_at: float
    retry_at: float
    rests_on: tuple[Fingerprint | None, int | None]
    attempts: int = 0
    refusals: tuple[Change, ...] = ()
    breakdown: str = ""

    @property
    def first_error(self) -> Mapping[str, Any] | None:
        for diagnostic in self.snapshot.diagnostics:
            if diagnostic["severity"] == "error":
                return diagnostic
        return None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A good plan of a commit that is not in force yet, what it rests on, and the commit's files."""

    snapshot: Snapshot
    fingerprint: Fingerprint
    tree: Repository


@dataclass(frozen=True, slots=True)
class RunningCompile:
    """What the compile that runs was begun for, and when (on the clock).

    due_moment: the moment that had come. tree: the commit's files.
    """

    commit: str
    observation: Observation
    finished_jobs: frozenset[str]
    due_moment: int | None
    started_at: float
    tree: Repository
