"""Two revisions of a repository compared: effects of a change of its files on jobs, queues, the scheduler and findings.

The second revision is planned with the first one's starts already running (`carry_over`), so that only effects of the
change differ, and not a placement that could have been either way. A live job that cannot take over a change stays as
it is: the rules are the reconciler's (`edits`). Both are planned for the empty cluster too: jobs that run and would not
start again are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from compiler.cluster_state.cluster_state import ClusterState
from compiler.comparison.carry_over import in_queues, state_after
from compiler.comparison.cluster import behaviour_changes, cluster_changes
from compiler.comparison.edits import Treatment, bound_treatments, edited_jobs, refusals, treatments
from compiler.comparison.jobs import JOB_EFFECTS, JobChange, job_changes, lost_restarts, removed_jobs
from compiler.diagnostics.diagnostic import Diagnostic, sorted_diagnostics
from compiler.emit.live_changes import FieldDifference, written_differences
from compiler.emit.waves import KINDS_OF_OTHER_WAVES, manifests
from compiler.explain.caveats import LIVE_REQUESTS
from compiler.fields.quantity import json_amount
from compiler.fields.texts import compact_names
from compiler.kubernetes import API_GROUP, PRUNE_ANNOTATION, ROOT_QUEUE, is_never_pruned
from compiler.outcome import FailLevel, JobDecision, Outcome
from compiler.reading.clusters import NO_CLUSTER_CODES
from compiler.reading.one_document import GENERATED_NAME
from compiler.run_kinds import runs_once
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import JobKey
from compiler.syntax.documents import Document
from compiler.views.data import queue_entries
from compiler.volcano.releases import release_changes

DECLARED_AMOUNTS = ("guarantee", "deserved", "capability")
LIMIT = "capability"
HELD = "held"
"""Usage of a queue's jobs once the plan is in force."""

QueueAmounts = Mapping[str, Mapping[str, Any]]
"""One of `DECLARED_AMOUNTS` or `HELD` -> resource -> amount."""
Compile = Callable[[ClusterState | None], Outcome]
"""Compiles one revision against a state."""


MOST_PLANS = 6
"""Most plans of one comparison: three of each side, as it is found, at rest or with bound pods, and from empty."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The specs of one revision, and the function that compiles it."""

    specs: Specs
    compile: Compile


@dataclass(frozen=True, slots=True)
class QueueChange:
    """before, after: None where the queue does not exist. above: resources of which it holds more than its new
    capability. stay: jobs that run in a queue that is deleted."""

    name: str
    before: QueueAmounts | None
    after: QueueAmounts | None
    above: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """changed: the same finding with another number, before and after."""

    new: tuple[Diagnostic, ...] = ()
    changed: tuple[tuple[Diagnostic, Diagnostic], ...] = ()
    mended: tuple[Diagnostic, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.mended)


NO_CHANGES = FindingChanges()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one cluster. errors: of the new revision: with one of them the reconciler rejects the commit,
    so that nothing else is reported. base_errors: number of errors in the old one, which never took effect. jobs: worst
    first, then by name. lost_restarts: jobs that run on and could not start again. scheduler, resources, objects:
    sentences; resources: on nodes, network domains, priorities and the Cluster's own fields. before, after: the
    compared outcomes; None where the commit is rejected."""

    cluster: str
    jobs: tuple[JobChange, ...] = ()
    lost_restarts: tuple[JobChange, ...] = ()
    queues: tuple[QueueChange, ...] = ()
    scheduler: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    findings: FindingChanges = NO_CHANGES
    errors: tuple[Diagnostic, ...] = ()
    base_errors: int = 0
    before: Outcome | None = None
    after: Outcome | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changes."""
        parts = (self.jobs, self.lost_restarts, self.queues, self.scheduler, self.resources, self.objects)
        return not any(parts) and not self.findings and not self.errors

    def fails(self, level: FailLevel) -> bool:
        """Return whether the change brings what the level names, or worse. Without a plan there is an error."""
        found = bool(self.errors)
        if level in ("never-starts", "longer-waits"):
            found |= any(job.never for job in (*self.jobs, *self.lost_restarts))
        if level == "longer-waits":
            found |= bool(self.lost_restarts) or any(job.waits_longer for job in self.jobs)
        return found


def compare(base: Revision, head: Revision, state: ClusterState | None) -> Comparison:
    """Compare two revisions of one cluster, both against `state` (nothing runs, without one)."""
    if any(each.severity == "error" for each in head.specs.diagnostics):
        return _rejected(base.specs, head.specs, head.specs.diagnostics)
    first, before, settled = _at_rest(base.compile, state)
    edits, removed = edited_jobs(before.specs, head.specs), removed_jobs(before.specs, head.specs)
    treated = treatments(before, head.specs, edits)
    compiled = head.compile(_state_for(before, head.specs, treated, removed, settled))
    if (bound := bound_treatments(before, compiled, edits, treated)) != treated:
        treated = bound
        compiled = head.compile(_state_for(before, head.specs, treated, removed, settled))
    after = _checked(before, _without_live_requests(compiled, edits))
    if after.error_count or not after.ok:
        return _rejected(before.specs, after.specs, after.diagnostics)
    if _has_same_contents(before.specs, after.specs):
        empty = first, first
    else:
        empty = first if state is None else base.compile(None), head.compile(None)
    jobs = tuple(job_changes(before, after, empty, edits, treated, removed))
    now = after.origins.now if after.origins else None
    return Comparison(
        after.specs.cluster.name or before.specs.cluster.name,
        tuple(sorted(jobs, key=lambda job: (JOB_EFFECTS.index(job.effect), job.name))),
        tuple(lost_restarts(after, empty, jobs)),
        queues=tuple(_queue_changes(before, after, jobs)),
        scheduler=(
            *release_changes(before.specs.cluster.volcano, after.specs.cluster.volcano, after.specs),
            *behaviour_changes(before.specs.scheduler, after.specs.scheduler),
        ),
        resources=tuple(cluster_changes(before.specs, after.specs, now)) if before.ok else (),
        objects=tuple(object_changes(before.specs, after.specs)) if before.ok else (),
        findings=finding_changes(_known(before.diagnostics), after.diagnostics),
        base_errors=_error_count(before.specs),
        before=before,
        after=after,
    )


def _rejected(base: Specs, head: Specs, diagnostics: tuple[Diagnostic, ...]) -> Comparison:
    """Return the comparison with a revision that has errors: only its findings. Behind a new error other findings are
    not fixed but unseen."""
    errors = tuple(each for each in diagnostics if each.severity == "error")
    changes = finding_changes(_known(base.diagnostics), diagnostics)
    became = (after for before, after in changes.changed if before.severity != "error")
    is_worse = any(each.severity == "error" for each in (*changes.new, *became))
    return Comparison(
        head.cluster.name or base.cluster.name,
        findings=FindingChanges(
            tuple(each for each in changes.new if each.severity != "error"),
            tuple(pair for pair in changes.changed if pair[1].severity != "error"),
            () if is_worse else changes.mended,
        ),
        errors=errors,
        base_errors=_error_count(base),
    )


def _known(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Without those of a cluster that is not there yet."""
    return tuple(each for each in diagnostics if each.code not in NO_CLUSTER_CODES)


def _error_count(specs: Specs) -> int:
    return sum(each.severity == "error" for each in _known(specs.diagnostics))


def _at_rest(compile_base: Compile, state: ClusterState | None) -> tuple[Outcome, Outcome, ClusterState | None]:
    """Plan the base once, and again with its starts running and its victims deleted; return both and that state. A
    revision that changes nothing then gets an equal plan."""
    outcome = compile_base(state)
    if not outcome.ok or not outcome.change_count:
        return outcome, outcome, state
    settled = state_after(outcome, state)
    return outcome, compile_base(settled), settled


def _checked(base: Outcome, head: Outcome) -> Outcome:
    """Return the head with the errors that occur when its objects are made and written."""
    errors = list[Diagnostic]()
    manifests(head, errors.append)
    found = head.with_diagnostics((*errors, *refusals(base.specs, head.specs)))
    return replace(found, diagnostics=sorted_diagnostics(found.diagnostics))


def _state_for(
    base: Outcome,
    head: Specs,
    treated: Mapping[JobKey, Treatment],
    removed: frozenset[JobKey],
    settled: ClusterState | None,
) -> ClusterState | None:
    """Return the cluster that the head finds: jobs that are removed or start again have no pods left, and one that
    shrinks in place has as many as it is to have."""
    if not base.ok:
        return settled
    gone = {key for key, treatment in treated.items() if treatment in ("restart", "at once")}
    wanted = {gang.key: {role.name: role.replicas for role in gang.roles} for gang in head.gangs}
    limits = {key: wanted[key] for key, treatment in treated.items() if treatment == "in place"}
    left = state_after(base, settled, gone | removed, limits, frozenset(treated))
    return in_queues(left, base, {gang.key: gang.queue for gang in head.gangs if gang.key in limits})


def _without_live_requests(outcome: Outcome, edits: Collection[JobKey]) -> Outcome:
    """Without the findings that pods of an edited job ask for other than its new text: that is the edit."""
    edited = {gang.document.display_name for gang in outcome.specs.gangs if gang.key in edits}
    told = {each for each in outcome.diagnostics if each.code == LIVE_REQUESTS.code}
    left_out = {each for each in told if each.object in edited}
    return replace(outcome, diagnostics=tuple(each for each in outcome.diagnostics if each not in left_out))


def _has_same_contents(base: Specs, head: Specs) -> bool:
    """Return whether all documents of the revisions are equal, wherever they are written."""
    one, other = ([(each.namespace, each.name, each.data) for each in _documents(specs)] for specs in (base, head))
    return one == other


def _documents(specs: Specs) -> list[Any]:
    found = {each.identity: each for each in (*specs.documents, specs.cluster.document)}
    return sorted(found.values(), key=lambda each: (each.kind, each.group, each.namespace, each.name))


def _queue_changes(base: Outcome, head: Outcome, jobs: tuple[JobChange, ...]) -> Iterator[QueueChange]:
    before, after = _queue_amounts(base), _queue_amounts(head, _live_runs(base, head, jobs))
    stay = _jobs_that_stay(base, jobs)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        is_sum = name == ROOT_QUEUE and _declared(old) == _declared(new)
        if old != new and not is_sum and (_is_in_use(old) or _is_in_use(new)):
            yield QueueChange(name, old, new, _above(old, new), () if new is not None else tuple(stay.get(name, ())))


def _jobs_that_stay(base: Outcome, jobs: tuple[JobChange, ...]) -> dict[str, list[str]]:
    """Return queue of the base -> its jobs that run on, whatever queue the head names for them."""
    over = {job.key for job in jobs if job.ends}
    found: dict[str, list[str]] = {}
    for decision in base.decisions:
        if decision.pods and decision.key not in over:
            found.setdefault(decision.gang.queue, []).append(decision.name)
    return found


def _above(before: QueueAmounts | None, after: QueueAmounts | None) -> tuple[str, ...]:
    """Resources of which the queue holds more than its capability, where it did not before or that was another."""
    if after is None:
        return ()
    limits, held = after[LIMIT], after[HELD]
    was, had = ({}, {}) if before is None else (before[LIMIT], before[HELD])
    over = {resource for resource, limit in limits.items() if held.get(resource, 0) > limit}
    was_over = {resource for resource, limit in was.items() if had.get(resource, 0) > limit == limits.get(resource)}
    return tuple(resource for resource in limits if resource in over - was_over)


def _live_runs(base: Outcome, head: Outcome, jobs: tuple[JobChange, ...]) -> Mapping[str, Counter[str]]:
    """Return queue -> resource -> its jobs' usage beyond the head's plan: a live run that continues does not grow, and
    stays in the queue of the base."""
    stay = [job.key for job in jobs if job.effect == "new run"]
    parents = {entry["name"]: entry["parent"] for entry in queue_entries(head)}
    found: dict[str, Counter[str]] = {name: Counter() for name in parents}

    def add(queue: str | None, amounts: Mapping[str, int], sign: int) -> None:
        while queue is not None and queue in found:
            found[queue].update({name: sign * amount for name, amount in amounts.items()})
            queue = parents[queue]

    for key in stay:
        decision, live = head.by_key[key], base.by_key[key]
        is_known = live.gang.queue in found
        queue = live.gang.queue if is_known else decision.gang.queue
        add(queue, _amounts_of(decision, live), -1)
        if not is_known:
            add(queue, _amounts_of(live), -1)
    return found


def _amounts_of(decision: JobDecision, beyond: JobDecision | None = None) -> Counter[str]:
    """Resource -> what the job's planned pods ask for, or those of them that are more than another decision's."""
    total: Counter[str] = Counter()
    for role in decision.gang.roles:
        pods = sum(decision.pods.get(role.name, {}).values())
        pods -= 0 if beyond is None else sum(beyond.pods.get(role.name, {}).values())
        total.update({name: max(0, pods) * amount for name, amount in role.pod.requests.items()})
    return total


def _queue_amounts(
    outcome: Outcome, beyond: Mapping[str, Counter[str]] | None = None
) -> dict[str, dict[str, dict[str, int | float]]]:
    """Return the amounts of each queue. A capability of 0 is kept (a limit); any other 0 means the same as absence.
    beyond: usage beyond the plan."""
    found = {}
    entries: list[Any] = [*queue_entries(outcome)]
    for entry in entries:
        more = {} if beyond is None else beyond[entry["name"]]
        held = {
            name: amount + entry["admitted"][name] + json_amount(name, more.get(name, 0))
            for name, amount in entry["allocated"].items()
        }
        amounts = {**{name: entry[name] for name in DECLARED_AMOUNTS}, HELD: held}
        named = {what: {n: a for n, a in of.items() if a} for what, of in amounts.items()}
        found[entry["name"]] = {**named, LIMIT: dict(amounts[LIMIT])}
    return found


def _declared(entry: QueueAmounts | None) -> QueueAmounts:
    return {} if entry is None else {name: entry[name] for name in DECLARED_AMOUNTS}


def _is_in_use(entry: QueueAmounts | None) -> bool:
    """Return whether the queue declares or holds anything: one that Volcano creates by itself may do neither."""
    return entry is not None and any(entry.values())


_MAX_FIELDS, _MAX_TEXT = 3, 24
_Name = tuple[str, str, str, str]


def object_changes(before: Specs, after: Specs) -> Iterator[str]:
    """One sentence for each object that is new, deleted or changed. One that a plan of the other revision has, as a job
    whose error is fixed, is among the jobs."""
    old, new = _passed_through(before), _passed_through(after)
    declared = {_name(each) for each in before.documents} & {_name(each) for each in after.documents}
    for name in sorted(((old.keys() ^ new.keys()) - declared) | (old.keys() & new.keys())):
        if name not in old:
            yield f"{new[name].display_name} is new"
        elif name not in new:
            stays = is_never_pruned(old[name].data)
            yield f"{old[name].display_name} is " + (
                f"no longer kept, and stays in the cluster ({PRUNE_ANNOTATION}: disabled)" if stays else "deleted"
            )
        elif fields := [_text(name[0], field) for field in written_differences(new[name].data, old[name].data)]:
            run = ": a new run, once the live one is over" if runs_once(new[name].data) else ""
            yield f"{new[name].display_name}: {compact_names(fields, _MAX_FIELDS)} changed{run}"


def _text(kind: str, field: FieldDifference) -> str:
    """Return the path, with the values where they are short, and none that a Secret or a ConfigMap keeps."""
    values = [str(value) for value in (field.live, field.desired) if isinstance(value, int | str)]
    is_short = len(values) == 2 and all(len(value) <= _MAX_TEXT and "\n" not in value for value in values)
    is_shown = is_short and kind not in ("ConfigMap", "Secret")
    return f"{field.path_text} ({' -> '.join(values)})" if is_shown else field.path_text


def _passed_through(specs: Specs) -> dict[_Name, Document]:
    planned = {document.identity for gang in specs.gangs for document in (gang.document, *gang.pod_documents)}
    planned |= set() if specs.scheduler is None else {specs.scheduler.document.identity}
    others = (document for document in specs.documents if document.identity not in planned)
    return {_name(each): each for each in filter(_is_passed_through, others)}


def _name(document: Document) -> _Name:
    return document.kind, document.group, document.namespace, document.name


def _is_passed_through(document: Document) -> bool:
    is_of_other_wave = (document.kind, document.group) in KINDS_OF_OTHER_WAVES and document.kind != "Namespace"
    return document.group != API_GROUP and not is_of_other_wave


_NUMBER = re.compile(r"\d[\d.,]*")
_LEFT_OUT = (GENERATED_NAME.code, LIVE_REQUESTS.code)
"""Infos that a change of the repository cannot cause, or that the jobs show."""
_OF_REPOSITORY = "GP357"
"""One finding a repository, shown at the first object that it is about."""
_Key = tuple[str, ...]


def finding_changes(base: Iterable[Diagnostic], head: Iterable[Diagnostic]) -> FindingChanges:
    """Return the differences between the findings. One that only moved to another line or file is the same. Where
    numbers or words differ, at the same field of an object, it is changed."""
    before, after = _by_subject(base), _by_subject(head)
    new = [finding for key, finding in after.items() if key not in before]
    mended = [finding for key, finding in before.items() if key not in after]
    for finding in [each for each in new if not each.object]:
        moved = next((each for each in mended if _in_any_folder(each) == _in_any_folder(finding)), None)
        if moved is not None:
            new.remove(finding)
            mended.remove(moved)
    changed = []
    for same in (_masked_subject, _field_of):
        for finding in tuple(new):
            former = next((each for each in mended if same(each) == same(finding)), None)
            if former is not None:
                changed.append((former, finding))
                new.remove(finding)
                mended.remove(former)
    return FindingChanges(tuple(new), tuple(changed), tuple(mended))


def _in_any_folder(finding: Diagnostic) -> _Key:
    """Return the finding on a file, whatever folder holds it."""
    return finding.code, finding.severity, finding.object, finding.message, PurePosixPath(finding.position.file).name


def _masked_subject(finding: Diagnostic) -> _Key:
    return _subject(finding, masked=True)


def _field_of(finding: Diagnostic) -> tuple[object, ...]:
    return finding.code, *_place(finding), *finding.path


def _by_subject(findings: Iterable[Diagnostic]) -> dict[_Key, Diagnostic]:
    """Return the findings by their subjects."""
    return {_subject(each): each for each in findings if not _is_left_out(each)}


def _is_left_out(finding: Diagnostic) -> bool:
    return finding.severity == "info" and finding.code in _LEFT_OUT


def _subject(finding: Diagnostic, *, masked: bool = False) -> _Key:
    message = _NUMBER.sub("#", finding.message) if masked else finding.message
    if finding.code == _OF_REPOSITORY:
        return finding.code, "" if masked else message
    return finding.code, finding.severity, *_place(finding), message


def _place(finding: Diagnostic) -> _Key:
    """Return the object, wherever it is written; without one the file."""
    return (finding.object, "") if finding.object else ("", finding.position.file)
