"""Comparisons as text, as Markdown for a comment on a pull request, as SARIF, as plain data, and as the page of the
report: the new plan, and next to it the cluster before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from compiler.comparison.compare import HELD, LIMIT, Comparison, QueueChange
from compiler.comparison.jobs import JOB_EFFECTS, JobChange
from compiler.decided import JobEffect
from compiler.diagnostics.diagnostic import Diagnostic, fold_diagnostics
from compiler.diagnostics.render import sarif
from compiler.diagnostics.render.words import sentence, severity_counts
from compiler.explain.provenance import MAX_SOURCES
from compiler.fields.quantity import rounded_amount, unit_heading
from compiler.fields.texts import compact_names, count_text
from compiler.kubernetes import API_VERSION
from compiler.outcome import PodsByNode
from compiler.views.data import source_entry
from compiler.views.heat_map import changed_heat_map
from compiler.views.report.page import Base, report_page

if TYPE_CHECKING:
    from compiler.outputs import ClusterDiffEntry, DiffDocument, FindingEntry, JobChangeEntry, QueueChangeEntry

MARKDOWN_LIMIT = 60_000
"""Characters of a comment; GitHub takes 65,536."""
COMMENT_MARK = "<!-- gangplan diff -->"
"""By which a comment is found again, to be updated in place."""
DIFF_RULE = "diff"
"""The rule of a job whose reason has no code."""
MAX_NODES = 4
MAX_JOBS = 3
REJECTED = "the reconciler rejects this commit, nothing of it takes effect"

VERBS: Mapping[JobEffect, tuple[str, str]] = {
    "never": ("can never start", "can never start"),
    "evicted": ("is evicted", "are evicted"),
    "waits": ("waits", "wait"),
    "later": ("is expected to start later", "are expected to start later"),
    "removed": ("is removed", "are removed"),
    "restarts": ("restarts", "restart"),
    "moves": ("moves", "move"),
    "shrinks": ("shrinks", "shrink"),
    "grows": ("grows", "grow"),
    "starts": ("starts", "start"),
    "added": ("is new, without pods now", "are new, without pods now"),
    "new run": ("keeps running, with a new run after that", "keep running, with a new run after that"),
    "edited": ("is edited", "are edited"),
    "reason": ("waits for another reason", "wait for another reason"),
}


def comparison_document(comparisons: Sequence[Comparison], base: str, head: str) -> DiffDocument:
    """Return all as plain data."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PlanDiff",
        "base": base,
        "head": head,
        "clusters": [_cluster_entry(comparison) for comparison in comparisons],
    }


def _cluster_entry(comparison: Comparison) -> ClusterDiffEntry:
    findings = comparison.findings
    return {
        "cluster": comparison.cluster,
        "rejected": bool(comparison.errors),
        "errors": [_finding(each) for each in comparison.errors],
        "baseErrors": comparison.base_errors,
        "jobs": [_job_entry(job) for job in comparison.jobs],
        "cannotStartAgain": [_job_entry(job) for job in comparison.lost_restarts],
        "queues": [cast("QueueChangeEntry", asdict(queue)) for queue in comparison.queues],
        "scheduler": list(comparison.scheduler),
        "resources": list(comparison.resources),
        "objects": list(comparison.objects),
        "findings": {
            "new": [_finding(each) for each in findings.new],
            "changed": [{"before": _finding(old), "after": _finding(new)} for old, new in findings.changed],
            "mended": [_finding(each) for each in findings.mended],
        },
    }


def _finding(diagnostic: Diagnostic) -> FindingEntry:
    return cast("FindingEntry", diagnostic.as_data())


def _job_entry(job: JobChange) -> JobChangeEntry:
    entry = {"change": job.effect, "kind": job.job_kind, "name": job.name, "queue": job.queue, "why": job.why}
    flags = {"new": job.is_new, "edited": job.treatment is not None, "never": job.never}
    known = {"takesEffect": job.treatment, "code": job.code}
    comes = {"from": [source_entry(source) for source in job.sources]} if job.sources else {}
    stated = {name: value for name, value in known.items() if value}
    pods = {"before": _plain(job.before), "after": _plain(job.after)}
    return cast("JobChangeEntry", {**entry, **flags, **stated, **comes, **pods})


def _plain(pods: PodsByNode) -> dict[str, dict[str, int]]:
    return {role: dict(nodes) for role, nodes in pods.items()}


def comparison_sarif(comparisons: Sequence[Comparison], base: str, head: str, folder: str = "") -> str:
    """Return the findings for a reviewer: errors, findings, and jobs that stop, wait or could not start again. folder:
    what names of files begin with, from the top of the git repository."""
    found: list[tuple[Diagnostic, str]] = []
    for comparison in comparisons:
        findings = comparison.findings
        found += [(each, "new") for each in comparison.errors]
        halted = (job for job in comparison.jobs if job.is_halted)
        found += [(_job_diagnostic(job), "new") for job in (*halted, *comparison.lost_restarts)]
        found += [(each, "new") for each in findings.new]
        found += [(each, "updated") for _, each in findings.changed]
        found += [(each, "absent") for each in findings.mended]
    return sarif.render([each.below(folder) for each, _ in found], [state for _, state in found])


def _job_diagnostic(job: JobChange) -> Diagnostic:
    runs_on = job.effect == "waits" and bool(job.after)
    again = f"keeps running, but could {'never' if job.never else 'not'} start again"
    text = f"{job.name} {again if runs_on else VERBS[job.effect][0]}: {job.why}"
    position = job.decision.gang.document.position("metadata", "name")
    return Diagnostic(job.code or DIFF_RULE, "warning", position, text, "", f"{job.job_kind} {job.name}")


def comparison_text(comparisons: Sequence[Comparison], base: str, head: str) -> str:
    """For a terminal; ends in a newline."""
    lines = [f"{base} -> {head}"]
    for comparison in comparisons:
        lines += ["", f"Cluster {comparison.cluster}: {summary(comparison)}"]
        for section in _sections(comparison):
            lines += ["", f"  {section.title}", *(f"    {row}" for row in section.rows)]
    return "\n".join(lines) + "\n"


def comparison_markdown(comparisons: Sequence[Comparison], base: str, head: str) -> str:
    """For a comment: the summary first, what must not be missed open, other details folded, and short enough to be
    taken."""
    begin = [COMMENT_MARK, "### gangplan: what this change does", "", f"`{base}` → `{head}`", ""]
    begin += [f"* **{_escape(found.cluster)}**: {_escape(summary(found))}" for found in comparisons]
    pieces = ["\n".join(begin) + "\n"]
    left = MARKDOWN_LIMIT - len(pieces[0])
    for found in comparisons:
        piece = _picture(found, found.cluster if len(comparisons) > 1 else "")
        if piece and len(piece) <= left // 4:  # words are more useful where there is little room
            pieces.append(piece)
            left -= len(piece)
    sections = [(comparison, section) for comparison in comparisons for section in _sections(comparison)]
    for comparison, section in sorted(sections, key=lambda pair: (not pair[1].is_open, not pair[0].errors)):
        heading = f"{section.title} in {comparison.cluster}" if len(comparisons) > 1 else section.title
        piece = _details_text(heading, section.rows, left, is_open=section.is_open)
        pieces.append(piece)
        left -= len(piece)
    return "\n".join(pieces)


def _picture(comparison: Comparison, cluster: str) -> str:
    """Free devices by supernode before and after, as far as they change."""
    if comparison.before is None or comparison.after is None:
        return ""
    rows = [_escape(row) + "\n" for row in changed_heat_map(comparison.before, comparison.after)]
    heading = f"{_escape(cluster)}:\n\n" if cluster else ""
    return f"{heading}<pre>\n{''.join(rows)}</pre>\n" if rows else ""


def _details_text(title: str, rows: Sequence[str], limit: int, *, is_open: bool) -> str:
    """Return a list, folded or open, of as many rows as fit; the others are counted."""
    end = "\n\n</details>\n"
    text = f"<details{' open' if is_open else ''}><summary>{_escape(title)} ({len(rows)})</summary>\n"
    for at, row in enumerate(rows):
        line = f"\n* {_escape(row)}"
        if len(text) + len(line) + len(end) + 80 > limit:
            return f"{text}\n* and {len(rows) - at} more: `gangplan diff` shows them all{end}"
        text += line
    return text + end


_MARKUP = str.maketrans({character: f"&#{ord(character)};" for character in "\\`*_{}[]<>|#@"} | {"\n": " "})


def _escape(text: str) -> str:
    """Text that Markdown and HTML show as it is; a name with @ notifies no one."""
    return text.translate(_MARKUP)


def summary(comparison: Comparison) -> str:
    """One line: how many jobs start, wait and so on, and how many findings are new."""
    if comparison.errors:
        also = f" ({count_text(comparison.base_errors, 'error')} in the base)" if comparison.base_errors else ""
        return f"{count_text(len(fold_diagnostics(comparison.errors)), 'error')}: {REJECTED}{also}"
    if comparison.is_empty:
        return "no changes"
    counts = Counter(job.effect for job in comparison.jobs)
    pieces = [
        f"{count_text(counts[kind], 'job')} {VERBS[kind][counts[kind] > 1]}" for kind in JOB_EFFECTS if counts[kind]
    ]
    if lost := comparison.lost_restarts:
        never = sum(job.never for job in lost)
        number = f" ({never} of them never)" if 0 < never < len(lost) else ""
        word = "never" if never == len(lost) else "not"
        text = f"{count_text(len(lost), 'running job')} could {word} start again{number}"
        pieces.insert(bool(counts["never"]), text)
    parts: dict[str, Sequence[object]] = {
        "nodes or policy": comparison.resources,
        count_text(len(comparison.queues), "queue"): comparison.queues,
        "scheduler configuration": comparison.scheduler,
        count_text(len(comparison.objects), "other object"): comparison.objects,
    }
    pieces += [f"{what} changed" for what, changes in parts.items() if changes]
    findings = comparison.findings
    for word, found in (
        ("new", findings.new),
        ("changed", [after for _, after in findings.changed]),
        ("fixed", findings.mended),
    ):
        if found:
            shown = fold_diagnostics(found)
            errors = severity_counts(each for each in shown if each.severity == "error")
            count = count_text(len(shown), f"{word} finding")
            pieces.append(f"{count} ({errors})" if errors else count)
    return ", ".join(pieces)


@dataclass(frozen=True, slots=True)
class _Section:
    """is_open: what a reviewer must not miss."""

    title: str
    rows: Sequence[str]
    is_open: bool = False


def _sections(comparison: Comparison) -> list[_Section]:
    """Return the parts that have any rows."""
    return [section for section in _all_sections(comparison) if section.rows]


def _all_sections(comparison: Comparison) -> Iterator[_Section]:
    findings = comparison.findings
    yield _Section("Errors", _finding_rows(comparison.errors), is_open=True)
    if comparison.base_errors and not comparison.errors:
        errors = count_text(comparison.base_errors, "error")
        note = f"{errors}: the base was rejected, so an earlier commit runs; what has errors counts as absent"
        yield _Section("Errors in the base", [note], is_open=True)
    yield from _job_sections(comparison.jobs, ("never",))
    lost = [f"{_named(job)}: {'never: ' * job.never}{_why(job)}" for job in comparison.lost_restarts]
    yield _Section("Keeps running, but could not start again (planned for the empty cluster)", lost, is_open=True)
    yield from _job_sections(comparison.jobs, JOB_EFFECTS[1:])
    yield _Section("Nodes and policy", comparison.resources)
    resources = {name for queue in comparison.queues for name in _resources(queue)}
    yield _Section("Queues", [_queue_row(queue, resources) for queue in comparison.queues])
    yield _Section("Scheduler", comparison.scheduler)
    yield _Section("Other objects", comparison.objects)
    yield _Section("New findings", _finding_rows(findings.new))
    yield _Section("Changed findings", [_changed_row(*pair) for pair in _folded_pairs(findings.changed)])
    yield _Section("Fixed findings", _finding_rows(findings.mended))


def _job_sections(jobs: Sequence[JobChange], effects: Sequence[JobEffect]) -> Iterator[_Section]:
    for effect in effects:
        found = [job for job in jobs if job.effect == effect]
        title = f"{'Jobs that' if len(found) > 1 else 'Job that'} {VERBS[effect][len(found) > 1]}"
        yield _Section(title, [_job_row(job) for job in found], is_open=any(job.never for job in found))


def _job_row(job: JobChange) -> str:
    is_edited = job.treatment is not None and job.effect not in ("edited", "new run")  # its title shows it
    words = [word for word, holds in (("new", job.is_new), ("edited", is_edited)) if holds]
    marked = f" ({', '.join(words)})" if words else ""
    return f"{_named(job, marked)}: {_why(job)}"


def _named(job: JobChange, marked: str = "") -> str:
    return f"{job.name}{marked}{f' in queue {job.queue}' if job.queue else ''}"


def _why(job: JobChange) -> str:
    see = ", ".join(source.short_text for source in job.sources[:MAX_SOURCES])
    return f"{job.why}{_places(job)}{f'; see {see}' if see else ''}"


def _places(job: JobChange) -> str:
    before, after = _place_text(job.before), _place_text(job.after)
    if before and after and before != after:
        return f" ({before} -> {after})"
    if after:
        return f" ({after})"
    return f" (it had {before})" if before else ""


def _place_text(pods: PodsByNode) -> str:
    nodes = dict.fromkeys(node for role in pods.values() for node in role)
    count = sum(sum(role.values()) for role in pods.values())
    if not count:
        return ""
    return f"{count_text(count, 'pod')} on {compact_names(list(nodes), MAX_NODES)}"


def _resources(queue: QueueChange) -> set[str]:
    amounts = [*(queue.before or {}).values(), *(queue.after or {}).values()]
    return {name for of in amounts for name in of}


def _queue_row(queue: QueueChange, resources: Collection[str]) -> str:
    """resources: those of all queues, of which two may be GPUs."""
    if queue.before is None or queue.after is None:
        held = queue.after or queue.before or {}
        words = []
        for name, amounts in held.items():
            named = sorted(amounts.keys() - {"pods"})
            texts = (f"{_amount(each, amounts[each])} {unit_heading(each, resources)}" for each in named)
            words += [f"{name} {' and '.join(texts)}"] if amounts else []
        text = f"{queue.name} is {'new' if queue.before is None else 'gone'}: {', '.join(words) or 'it says nothing'}"
        if queue.stay:
            names = ", ".join(queue.stay[:MAX_JOBS]) + (", ..." if len(queue.stay) > MAX_JOBS else "")
            text += f"; it is deleted once {count_text(len(queue.stay), 'job')} in it ended: {names}"
        return text
    changes = []
    for name, old in queue.before.items():
        new = queue.after[name]
        for resource in sorted((old.keys() | new.keys()) - {"pods"}):
            if old.get(resource) != new.get(resource):
                unset = "0" if name == HELD else "unset"
                values = [_amount(resource, of[resource]) if resource in of else unset for of in (old, new)]
                if values[0] != values[1]:
                    changes.append(f"{name} {values[0]} -> {values[1]} {unit_heading(resource, resources)}")
    for resource in queue.above:
        now, limit = (_amount(resource, queue.after[what][resource]) for what in (HELD, LIMIT))
        new = "new " * (queue.before[LIMIT].get(resource) != queue.after[LIMIT][resource])
        changes.append(f"holds {now} {unit_heading(resource, resources)}, above its {new}capability {limit}")
    return f"{queue.name}: {', '.join(changes) or 'differs by less than is shown'}"


def _amount(resource: str, value: float) -> str:
    """Return an amount of the plan's data (`json_amount`) as short text."""
    return f"{value:g}" if resource == "cpu" else rounded_amount(resource, int(value))


def _finding_rows(findings: Sequence[Diagnostic]) -> list[str]:
    return [_finding_row(finding) for finding in fold_diagnostics(findings)]


def _finding_row(finding: Diagnostic) -> str:
    at = finding.position
    is_named = finding.message.startswith(finding.object)
    subject = "" if is_named else f" {finding.object}:"
    see = f"; see {finding.see.file}:{finding.see.line}" if finding.see else ""
    return f"{at.file}:{at.line}:{at.column} {finding.severity} {finding.code}{subject} {sentence(finding)}{see}"


def _folded_pairs(pairs: Sequence[tuple[Diagnostic, Diagnostic]]) -> Iterator[tuple[Diagnostic, Diagnostic]]:
    """Yield the pairs, of those with equal words the first, with the number of the others."""
    former = {(after.code, after.object, after.position): before for before, after in pairs}
    for folded in fold_diagnostics(after for _, after in pairs):
        yield former[folded.code, folded.object, folded.position], folded


def _changed_row(before: Diagnostic, after: Diagnostic) -> str:
    return f"{_finding_row(after)} (before: {before.message})"


def comparison_page(comparison: Comparison, base: str) -> str | None:
    """Return the HTML; None where a commit is rejected and has no plan. base: what the old revision is called."""
    found, after = comparison_base(comparison, base), comparison.after
    return None if found is None or after is None else report_page(after, found)


def comparison_base(comparison: Comparison, base: str) -> Base | None:
    """Return the base for the page; None where a commit is rejected and has no plan."""
    before, after = comparison.before, comparison.after
    if before is None or after is None or not before.ok or not after.ok:
        return None
    (entry,) = comparison_document([comparison], base, "")["clusters"]
    changes = [{**job, **dict(zip(("verb", "verbs"), VERBS[job["change"]], strict=True))} for job in entry["jobs"]]
    return Base(base, before, changes)
