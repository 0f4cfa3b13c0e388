"""The report on the newest commit: whether it was fetched, has a plan and was accepted, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.changes.diff import Change
from reconciler.changes.results import Condition, ObjectEvent
from reconciler.cluster.objects import Object
from reconciler.git.mirror import BranchHead
from reconciler.planning.branch import Target
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Rejection:
    """A commit without a plan to apply. rejected_at, retry_at: on the clock; from the latter it may be tried again
    although nothing changed. rests_on: its inputs in the cluster, and the moment that had passed. attempts: how often
    in a row. refusals: the objects that the API server refuses; then there was a plan. breakdown: how the compile broke
    down; then nothing is known against the commit."""

    snapshot: Snapshot
    rejected_at: float
    retry_at: float
    rests_on: tuple[Fingerprint | None, int | None]
    attempts: int = 0
    refusals: tuple[Change, ...] = ()
    breakdown: str = ""

    @property
    def first_error(self) -> Mapping[str, Any] | None:
        return next((each for each in self.snapshot.diagnostics if each["severity"] == "error"), None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """rejections: of the head and the target, by commit. unanswered: why the head is not in force yet, where the API
    server does not answer for long."""

    head: BranchHead
    target: Target
    rejections: Mapping[str, Rejection]
    unanswered: str

    @property
    def rejection(self) -> Rejection | None:
        """Return the rejection of the head."""
        return self.rejections.get(self.head.commit)

    @property
    def refusals(self) -> tuple[Change, ...]:
        """Return the objects of the head that the API server does not take."""
        return self.rejection.refusals if self.rejection else ()

    @property
    def refusal_message(self) -> str:
        """Return why the head is held as a whole; empty where the API server does not refuse it."""
        return self._message(self.rejection) if self.rejection and self.rejection.refusals else ""

    @property
    def diagnostics(self) -> tuple[Mapping[str, Any], ...]:
        """Return the diagnostics of the head, or of the plan in force."""
        if self.rejection is not None and not self.rejection.breakdown:
            return self.rejection.snapshot.diagnostics
        return self.target.snapshot.diagnostics if self.target.snapshot else ()

    def conditions(self) -> Iterator[Condition]:
        problem, refused, rewritten = self.head.problem, self.refusal_message, self.target.rewrite_message
        yield Condition("Fetched", not problem, "GitFailed" if problem else "Fetched", problem)
        yield self._compiled(None if refused else self.rejection)
        reason = "CommitRefused" if refused else "Unanswered" if self.unanswered else "Accepted"
        yield Condition("Accepted", reason == "Accepted", reason, refused or self.unanswered)
        yield Condition("HistoryRewritten", bool(rewritten), "Held" if rewritten else "Descends", rewritten)
        rejections = sorted(self.rejections.items())
        broken = [_breakdown_message(commit, found) for commit, found in rejections if found.breakdown]
        yield Condition("CompilerFailed", bool(broken), "BrokeDown" if broken else "None", "; ".join(broken))

    def events(self, status: Object) -> Iterator[ObjectEvent]:
        """On the object of the status."""
        if self.unanswered:
            yield ObjectEvent(status, "CommitUnanswered", self.unanswered, True)
        if self.rejection is not None:
            yield ObjectEvent(status, self._reason(self.rejection), self._message(self.rejection), True)

    def _compiled(self, rejection: Rejection | None) -> Condition:
        in_force = self.target.snapshot
        if rejection is None:
            return Condition("Compiled", in_force is not None, "Compiled" if in_force else "NoPlan")
        reason, message = self._reason(rejection), self._message(rejection)
        if reason == "CommitRejected":
            message = (
                f"commit {self.head.commit} does not compile; {in_force.commit if in_force else 'nothing'} is in force"
            )
        return Condition("Compiled", False, reason, message)

    def _reason(self, rejection: Rejection) -> str:
        """A commit that is in force has a plan, only no newer one for the cluster as it is now."""
        if rejection.refusals:
            return "CommitRefused"
        if rejection.breakdown:
            return "CompileFailed"
        in_force = self.target.snapshot.commit if self.target.snapshot else None
        return "PlanRefused" if in_force == rejection.snapshot.commit else "CommitRejected"

    def _message(self, rejection: Rejection) -> str:
        commit, reason, detail = self.head.commit, self._reason(rejection), "no plan"
        if reason == "CompileFailed":
            return _breakdown_message(commit, rejection)
        if error := rejection.first_error:
            position = f"{error['file']}:{error['line']}:" if error["file"] else ""
            detail = " ".join(filter(None, (position, error["code"], error["message"])))
        if reason == "PlanRefused":
            stays = "so the last plan stays in force and nothing else is changed"
            return f"no new plan for commit {commit}, {stays}: {detail}"
        if rejection.refusals:
            return f"commit {commit} is held back, {len(rejection.refusals)} of its objects are refused: {detail}"
        return f"commit {commit} does not compile and changes nothing: {detail}"


def _breakdown_message(commit: str, rejection: Rejection) -> str:
    times = f" {rejection.attempts} times in a row" if rejection.attempts > 1 else ""
    return (
        f"the compile of commit {commit} broke down{times}, which says nothing about the commit; it is tried again, "
        f"and what is in force stays: {rejection.breakdown}"
    )
