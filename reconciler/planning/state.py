"""The plan in force, and what is known about others: a candidate, a compile that runs, commits that were rejected."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.emit.manifest import Manifest
from compiler.repository import Repository
from compiler.run_kinds import RUN_KINDS
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change
from reconciler.observation.observe import Observation
from reconciler.planning.compile.worker_state import WorkerState
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot
from reconciler.threads.memo import Memo, drop_other_keys


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
    """A good plan of a commit that is not in force yet, what it rests on, and the commit's files. is_asked: whether the
    API server is asked about its objects."""

    snapshot: Snapshot
    fingerprint: Fingerprint
    tree: Repository
    is_asked: bool = False


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


@dataclass(slots=True)
class PlanningState:
    """The plan in force and what is known about others.

    snapshot: the last good one. tree: the files of its commit, where they are known. candidate: a newer plan that the
    API server is asked about. base_fingerprint: what its plan rests on. fingerprint: what it rests on now.
    worker_state: what the compile worker knows of the cluster. rejections: by commit. desired: what the manifests of
    `desired_snapshot`, and of a candidate, are to be in the cluster. unchanged: object -> the manifest and the live
    version for which there was nothing to do.
    """

    snapshot: Snapshot | None = None
    tree: Repository | None = None
    candidate: Candidate | None = None
    base_fingerprint: Fingerprint | None = None
    fingerprint: Memo[Fingerprint] = field(default_factory=Memo)
    running_compile: RunningCompile | None = None
    worker_state: WorkerState = field(default_factory=WorkerState)
    rejections: dict[str, Rejection] = field(default_factory=dict)
    desired_snapshot: Snapshot | None = None
    desired: DesiredManifests = field(default_factory=DesiredManifests)
    unchanged: dict[str, tuple[Manifest, tuple[object, ...]]] = field(default_factory=dict)

    def is_job(self, key: str) -> bool:
        """Whether the object of this Ref.key runs once: by its kind, or as the plan in force has it."""
        return key.partition("/")[0] in RUN_KINDS or (self.snapshot is not None and key in self.snapshot.jobs)

    def restore(self, snapshot: Snapshot, tree: Repository | None = None) -> None:
        """Put the plan of another process in force. What it rests on is not known."""
        self.snapshot, self.tree = snapshot, self.tree if tree is None else tree

    def put_in_force(self, candidate: Candidate) -> None:
        """Replace the plan in force; nothing is held against its commit any more. A candidate of another commit goes on
        waiting."""
        self.snapshot, self.tree = candidate.snapshot, candidate.tree
        self.base_fingerprint = candidate.fingerprint
        self.rejections.pop(candidate.snapshot.commit, None)
        if self.candidate is not None and self.candidate.snapshot.commit == candidate.snapshot.commit:
            self.candidate = None

    def note_fresh(self, fingerprint: Fingerprint) -> None:
        """Keep this one, which is equal to what the plan rests on: the very same is compared at once."""
        self.base_fingerprint = fingerprint

    def give_up_plan(self) -> None:
        """Have no plan in force."""
        self.snapshot = self.base_fingerprint = self.tree = None

    def offer(self, candidate: Candidate) -> None:
        """Let this plan wait for the API server's answer, in the place of another one."""
        self.candidate = candidate

    def drop_candidate(self) -> None:
        self.candidate = None

    def reject(self, commit: str, rejection: Rejection) -> None:
        """Hold this against the commit, in the place of what was held before."""
        self.rejections[commit] = rejection

    def forget_breakdown(self, commit: str) -> None:
        """Forget that the compile of the commit broke down; what is known against the commit itself stays."""
        if (former := self.rejections.get(commit)) is not None and former.breakdown:
            del self.rejections[commit]

    def begin_compile(self, running: RunningCompile) -> None:
        self.running_compile = running

    def end_compile(self) -> None:
        self.running_compile = None

    def go_by_manifests(self, snapshot: Snapshot) -> None:
        """Forget what the manifests of other snapshots are to be."""
        if self.desired_snapshot is not snapshot:
            self.desired_snapshot = snapshot
            self.desired.keep_only(snapshot.manifests)

    def trim(self, keys: Collection[str], commits: Collection[str]) -> None:
        """Forget other objects than these, and what is held against other commits."""
        drop_other_keys(self.unchanged, keys)
        drop_other_keys(self.rejections, commits)

    def note_unchanged(self, key: str, desired: Manifest, versions: tuple[object, ...]) -> None:
        """Remember for which live versions there is nothing to do."""
        self.unchanged[key] = desired, versions

    def is_unchanged(self, key: str, desired: Manifest, version: tuple[str, str], finished: str | None) -> bool:
        """Whether there was nothing to do about this very manifest and this live version, of which no update was
        refused; then its pods do not matter."""
        known, versions = self.unchanged.get(key, (None, ()))
        return known is desired and versions[:2] == (version, finished) and not versions[3]
