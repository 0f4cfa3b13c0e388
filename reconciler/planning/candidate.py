"""A plan of a new commit before it is in force: the API server is asked first whether it would take the objects that
change. One that it refuses holds the commit back as a whole, and the plan in force stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.emit.manifest import JOBS_WAVE, REFUSED_BY_SERVER, Manifest
from compiler.fields.texts import whole_number
from compiler.kubernetes import name_of, uid_of
from compiler.repository.tree import Repository
from compiler.run_kinds import RUN_KINDS, is_run
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change, classify_change
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Ref, version_of
from reconciler.observation.observe import Observation, Seen
from reconciler.planning.dry_run import DryRun, Question, Refusal
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot

_NEEDED_KINDS = frozenset({"Queue", "NamespaceQueue", "Namespace", "PriorityClass", "ResourceQuota"})
"""Kinds that admission may look up by name when it checks another object; a Queue only for other queues."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A good plan of a commit that is not in force yet, its inputs, and the commit's files."""

    snapshot: Snapshot
    fingerprint: Fingerprint
    tree: Repository


@dataclass(slots=True)
class Candidacy:
    """The plan that waits for the API server's answer, None for none; and the dry run about it, once that is begun."""

    make_dry_run: Callable[[Sequence[Question]], DryRun]
    desired: DesiredManifests
    candidate: Candidate | None = None
    dry_run: DryRun | None = None

    def offer(self, candidate: Candidate) -> None:
        """Let this plan wait, in the place of another one."""
        self.drop()
        self.candidate = candidate

    def drop(self) -> None:
        """Ask no more: the plan is in force, refused or out of date."""
        if self.dry_run is not None:
            self.dry_run.give_up()
        self.candidate = self.dry_run = None

    def ask(self, seen: Seen, in_force: Snapshot | None) -> tuple[Refusal, ...] | None:
        """Return the API server's refusals of the candidate; None while it is being asked, or does not answer."""
        if self.candidate is None:
            return None
        if self.dry_run is None:
            dry_run = self.make_dry_run(tuple(self._questions(seen, self.candidate.snapshot, in_force)))
            dry_run.start()
            self.dry_run = dry_run
        if self.dry_run.is_busy or not are_kinds_seen(self.candidate.snapshot, seen.observation):
            return None
        if (refusals := self.dry_run.result) is None:
            self.dry_run = None  # the lease was lost
        return refusals

    def unanswered_message(self) -> str:
        """Return why the plan of a new commit is not in force yet; empty while the API server has not been silent for
        long."""
        if self.candidate is None or self.dry_run is None or not (delay := self.dry_run.delay()):
            return ""
        return (
            f"commit {self.candidate.snapshot.commit} is not in force yet: the API server was asked whether it takes "
            f"its objects, and does not answer. After {self.dry_run.timings.patience:g} s it takes effect anyway, "
            f"and what has no answer holds up only itself: {delay}"
        )

    def _questions(self, seen: Seen, snapshot: Snapshot, in_force: Snapshot | None) -> Iterator[Question]:
        """Yield one question for each object that the commit creates or changes. Kinds that are not served block only
        themselves. So do objects that the plan in force wants too: their obstacles are not caused by the commit."""
        known = {id(manifest) for manifest in in_force.manifests} if in_force else set[int]()
        changes = list(self._changes(seen, snapshot.with_manifests_of(in_force) if in_force else snapshot))
        objects = [desired.object for _, _, desired in changes]
        needed = frozenset(name_of(item) for item in objects if item["kind"] in _NEEDED_KINDS)
        queues = frozenset(name_of(item) for item in objects if item["kind"] == "Queue")
        for manifest, change, desired in changes:
            if id(manifest) in known:
                continue
            others = queues if desired.object["kind"] == "Queue" else needed
            others = others if desired.run_digest else others - {name_of(desired.object)}
            is_new_run = change.action in ("replace", "held")
            uid = uid_of(change.live) if change.live is not None and not is_new_run else ""
            item = desired.object if is_new_run or change.desired is None else change.desired.object
            may_wait = desired.wave == JOBS_WAVE or bool(desired.run_digest)
            is_job = bool(desired.run_digest) or is_run(item)
            yield Question(item, desired.position, uid, others, is_new_run, may_wait, is_job)

    def _changes(self, seen: Seen, snapshot: Snapshot) -> Iterator[tuple[Manifest, Change, Manifest]]:
        """Yield the manifests that the cluster does not hold, each with its change, and as it is to be in the
        cluster."""
        for manifest in snapshot.manifests:
            try:
                desired, ref = self.desired.get(manifest, manifest.run_digest)
            except ApiError:
                continue
            if (change := self._change_of(seen, desired, ref)) is not None:
                yield manifest, change, desired

    def _change_of(self, seen: Seen, desired: Manifest, ref: Ref) -> Change | None:
        live = seen.observation.objects.get(ref.key)
        run = seen.inventory.runs.get(ref.key)
        finished = run.digest if run else None
        if self.desired.is_unchanged(ref.key, desired, version_of(live), finished):
            return None
        change = classify_change(desired, live, finished_digest=finished, has_started=True, is_update_refused=False)
        if change is None or change.action == "forbidden":
            return None
        is_ending = change.action == "held" and ref.group_kind not in RUN_KINDS and not desired.run_digest
        return None if is_ending else change


def are_kinds_seen(snapshot: Snapshot, observation: Observation) -> bool:
    """Return whether the pass has looked at all kinds of the plan, or knows why it cannot: so they are written in
    order."""
    return snapshot.group_kinds <= observation.readable_kinds | observation.obstacles.keys()


def refusal_diagnostic(refusal: Refusal) -> dict[str, Any]:
    """Return the refusal as an error of the file that has the object."""
    file, _, line = refusal.question.position.rpartition(":")
    return {
        "code": REFUSED_BY_SERVER.code,
        "severity": REFUSED_BY_SERVER.severity,
        "file": file,
        "line": whole_number(line) or 0,
        "column": 1,
        "message": f"the API server refuses {refusal.question.ref}: {refusal.message}",
        "help": "correct the object, or what refuses it; the commit is tried again from time to time",
        "object": str(refusal.question.ref),
    }


def refused_change(refusal: Refusal, observation: Observation) -> Change:
    """Return the object with the reason for which it is held."""
    ref = refusal.question.ref
    manifest = Manifest(0, refusal.question.item, refusal.question.position)
    reason = f"the API server refuses it, so its commit is held back: {refusal.message}"
    return Change("held", ref, manifest, observation.objects.get(ref.key), reason=reason)
