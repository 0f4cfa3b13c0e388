"""Two revisions of a repository compared: what a change of its files does to jobs, queues, the scheduler and findings.

The second revision is planned with what the first one started already running (`carry_over`), so that only what the
change itself does differs, and not a placement that could have been either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from compiler.cluster_state.state import ClusterState
from compiler.comparison.carry_over import state_after
from compiler.comparison.cluster import cluster_changes
from compiler.comparison.edits import Edit, edited_jobs
from compiler.comparison.scheduler import behaviour_changes
from compiler.diagnostics import Diagnostic
from compiler.explain.provenance import Source, source_at
from compiler.outcome import JobDecision, Outcome, PodsByNode
from compiler.reading.one_document import GENERATED_NAME
from compiler.specs import JobKey, Specs
from compiler.views.data import queue_entries

JobEffect = Literal["never", "evicted", "waits", "removed", "moves", "shrinks", "grows", "starts", "edited", "reason"]
"""Worst first. moves: it runs, elsewhere. edited: it has its nodes, or waits, as before, with another specification.
reason: it waits as before, for another reason."""
JOB_EFFECTS: tuple[JobEffect, ...] = get_args(JobEffect)
DECLARED_AMOUNTS = ("guarantee", "deserved", "capability")
LIMIT = "capability"
HELD = "held"
"""Of a queue: what its jobs hold once the plan is in force."""

Compile = Callable[[ClusterState | None], Outcome]
"""Compiles one revision against a state."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """What becomes of one job. why: in a sentence. queue: in the newer revision that has the job. is_new: the job is
    not in the base. is_edited: its specification differs, so that it runs anew. sources: where the cause stands in the
    new revision, if that is a field of it."""

    effect: JobEffect
    name: str
    job_kind: str
    queue: str
    why: str
    before: PodsByNode
    after: PodsByNode
    is_new: bool = False
    is_edited: bool = False
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueChange:
    """before, after: one of `DECLARED_AMOUNTS` or `HELD` -> resource -> amount; None where the queue does not exist."""

    name: str
    before: Mapping[str, Mapping[str, Any]] | None
    after: Mapping[str, Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of one cluster. jobs: worst first, then by name. scheduler, resources: sentences; resources: on nodes, network
    domains, priorities and the Cluster's own fields. unplanned: why there is no plan to compare
    with, empty where there is."""

    cluster: str
    jobs: tuple[JobChange, ...]
    queues: tuple[QueueChange, ...]
    scheduler: tuple[str, ...]
    new_findings: tuple[Diagnostic, ...]
    mended_findings: tuple[Diagnostic, ...]
    unplanned: str = ""
    resources: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        changes = (self.jobs, self.queues, self.scheduler, self.resources, self.new_findings, self.mended_findings)
        return not any(changes) and not self.unplanned

    @property
    def breaks(self) -> bool:
        """Whether the change brings an error or leaves the cluster without a plan."""
        return bool(self.unplanned) or any(finding.severity == "error" for finding in self.new_findings)


def compare(compile_base: Compile, compile_head: Compile, head: Specs, state: ClusterState | None) -> Comparison:
    """Compare two revisions of one cluster, both against `state` (nothing runs, without one). head: what the second one
    says."""
    base, settled = _at_rest(compile_base, state)
    edited, removed = edited_jobs(base.specs, head), _removed_jobs(base.specs, head)
    after = compile_head(state_after(base, settled, edited.keys() | removed) if base.ok else state)
    base_findings, head_findings = _findings(base), _findings(after)
    jobs = sorted(_job_changes(base, after, edited, removed), key=lambda job: (JOB_EFFECTS.index(job.effect), job.name))
    return Comparison(
        after.specs.cluster.name or base.specs.cluster.name,
        tuple(jobs) if after.ok else (),
        tuple(_queue_changes(base, after)) if after.ok else (),
        tuple(behaviour_changes(base.specs.scheduler, after.specs.scheduler)),
        tuple(finding for key, finding in head_findings.items() if key not in base_findings),
        tuple(finding for key, finding in base_findings.items() if key not in head_findings),
        "" if after.ok or not base.ok else "no plan can be made of the new revision: see its errors",
        tuple(cluster_changes(base.specs, after.specs)) if base.ok and after.ok else (),
    )


def _at_rest(compile_base: Compile, state: ClusterState | None) -> tuple[Outcome, ClusterState | None]:
    """The base planned once more when what it starts runs and who it evicts is gone, and the state of then: a revision
    that changes nothing comes to the same."""
    outcome = compile_base(state)
    if not outcome.ok or not outcome.change_count:
        return outcome, state
    settled = state_after(outcome, state)
    return compile_base(settled), settled


def _removed_jobs(base: Specs, head: Specs) -> frozenset[JobKey]:
    """Jobs that the new revision does not hold, be it with an error: the reconciler takes their pods away."""
    there = {(document.namespace or "default", document.name, document.kind) for document in head.documents}
    return frozenset(gang.key for gang in base.gangs) - there


def _findings(outcome: Outcome) -> dict[tuple[str, ...], Diagnostic]:
    """By what they are about: a finding that only moved to another line is the same. The name of a job that has
    generateName is none: the jobs tell it."""
    names = (GENERATED_NAME.code, "info")
    found = (each for each in outcome.diagnostics if (each.code, each.severity) != names)
    return {(each.code, each.object, each.position.file, each.message): each for each in found}


def _job_changes(
    base: Outcome, head: Outcome, edited: Mapping[JobKey, Edit], removed: frozenset[JobKey]
) -> Iterator[JobChange]:
    before = {decision.key: decision for decision in base.decisions}
    after = {decision.key: decision for decision in head.decisions}
    by_name = {decision.name: decision for decision in head.decisions}
    for key, decision in after.items():
        former, edit = before.get(key), edited.get(key)
        found = _change_of(former, decision, "" if edit is None else edit.text)
        if found is not None:
            effect, why = found
            preemptors = [by_name[name] for name in decision.evicted_for if name in by_name]
            sources = _sources(effect, why, decision, edit, preemptors)
            yield replace(_job_change(effect, why, former, decision), is_edited=edit is not None, sources=sources)
    for key, former in before.items():
        if key not in after:
            why = "it is not in the new revision" if key in removed else "it has an error in the new revision"
            yield _job_change("removed", why, former, None)


def _sources(
    effect: JobEffect, why: str, decision: JobDecision, edit: Edit | None, preemptors: Sequence[JobDecision]
) -> tuple[Source, ...]:
    """Where the cause stands: that of the reason, the jobs for which it makes room, or the edited field."""
    if effect in ("never", "waits", "reason"):
        return next((reason.sources for reason in decision.reasons if why.startswith(reason.message)), ())
    if effect in ("evicted", "shrinks"):
        return tuple(source_at(each.gang.document, "", "metadata", "name") for each in preemptors)
    if effect in ("edited", "moves") and edit is not None:
        return (source_at(decision.gang.document, "", *edit.path),)
    return ()


def _job_change(effect: JobEffect, why: str, former: JobDecision | None, decision: JobDecision | None) -> JobChange:
    shown = decision or former
    assert shown is not None  # noqa: S101  - a job is in one of the two
    return JobChange(
        effect,
        shown.name,
        shown.gang.document.kind,
        shown.gang.queue,
        why,
        former.pods if former else {},
        decision.pods if decision else {},
        is_new=former is None,
    )


def _change_of(former: JobDecision | None, decision: JobDecision, edit: str) -> tuple[JobEffect, str] | None:
    """What becomes of the job, and why; None where all is as before. edit: what differs in its specification."""
    had, has = former is not None and bool(former.pods), bool(decision.pods)
    if decision.action in ("done", "evict"):
        lost = decision.action == "evict"
        return ("evicted", f"it makes room for {', '.join(decision.evicted_for)}") if lost else None
    if decision.action == "wait":
        found = _change_of_waiting(former, decision, had)
        return found or (("edited", f"{edit}; it waits as before") if edit else None)
    if not had:
        return ("starts", f"before, {_first_reason(former)}" if former else "it is new") if has else None
    assert former is not None  # noqa: S101  - it had pods
    if former.pods == decision.pods:
        return ("edited", edit) if edit else None
    if decision.evicted_pods:
        return "shrinks", f"it gives pods to {', '.join(decision.evicted_for)}"
    if _places(former.pods) <= _places(decision.pods):
        return "grows", "there is room for more of its pods"
    return "moves", f"it runs anew: {edit or 'its nodes changed'}"


def _change_of_waiting(former: JobDecision | None, decision: JobDecision, had: bool) -> tuple[JobEffect, str] | None:
    why = _first_reason(decision)
    if decision.never and (former is None or not former.never):
        return "never", why
    if former is None or had:
        return "waits", why
    codes, former_codes = ({reason.code for reason in each.reasons} for each in (decision, former))
    if new := [reason.message for reason in decision.reasons if reason.code not in former_codes]:
        return "reason", new[0]
    gone = [reason.message for reason in former.reasons if reason.code not in codes]
    return ("reason", f"{why}; no longer: {gone[0]}") if gone else None


def _places(pods: PodsByNode) -> set[tuple[str, str, int]]:
    """One element for each pod at its role and node."""
    numbers = ((role, node, number) for role, nodes in pods.items() for node, number in nodes.items())
    return {(role, node, at) for role, node, number in numbers for at in range(number)}


def _first_reason(decision: JobDecision) -> str:
    """The first reason why a job waits."""
    return decision.reasons[0].message if decision.reasons else "no reason was found in time"


def _queue_changes(base: Outcome, head: Outcome) -> Iterator[QueueChange]:
    before, after = _queue_amounts(base), _queue_amounts(head)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name) and (_is_in_use(before.get(name)) or _is_in_use(after.get(name))):
            yield QueueChange(name, before.get(name), after.get(name))


def _queue_amounts(outcome: Outcome) -> dict[str, dict[str, dict[str, int | float]]]:
    """A capability of 0 is said (nothing may be held of that); any other 0 says no more than silence."""
    found = {}
    for entry in queue_entries(outcome):
        held = {name: amount + entry["admitted"][name] for name, amount in entry["allocated"].items()}
        amounts = {**{name: entry[name] for name in DECLARED_AMOUNTS}, HELD: held}
        said = {what: {n: a for n, a in of.items() if a} for what, of in amounts.items()}
        found[entry["name"]] = {**said, LIMIT: dict(amounts[LIMIT])}
    return found


def _is_in_use(entry: Mapping[str, Mapping[str, Any]] | None) -> bool:
    """Whether the queue says or holds anything: one that Volcano makes by itself may do neither."""
    return entry is not None and any(entry.values())
