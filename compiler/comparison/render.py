"""Comparisons as text, as Markdown for a comment on a pull request, and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from compiler.comparison import HELD, JOB_EFFECTS, Comparison, JobChange, JobEffect, QueueChange
from compiler.diagnostics import Diagnostic
from compiler.explain.names import compact_names
from compiler.explain.provenance import MAX_SOURCES
from compiler.fields.amounts import rounded_amount, unit_heading
from compiler.kubernetes import API_VERSION
from compiler.outcome import PodsByNode
from compiler.views.data import source_entry
from compiler.views.style import count_text

MARKDOWN_LIMIT = 60_000
"""Characters of a comment; GitHub takes 65,536."""
COMMENT_MARK = "<!-- gangplan diff -->"
"""By which a comment is found again, to be updated in place."""
MAX_NODES = 4

VERBS: Mapping[JobEffect, tuple[str, str]] = {
    "never": ("can never start", "can never start"),
    "evicted": ("is evicted", "are evicted"),
    "waits": ("waits", "wait"),
    "removed": ("is removed", "are removed"),
    "moves": ("moves", "move"),
    "shrinks": ("shrinks", "shrink"),
    "grows": ("grows", "grow"),
    "starts": ("starts", "start"),
    "edited": ("is edited", "are edited"),
    "reason": ("waits for another reason", "wait for another reason"),
}


def comparison_document(comparisons: Sequence[Comparison], base: str, head: str) -> dict[str, Any]:
    """All as plain data."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PlanDiff",
        "base": base,
        "head": head,
        "clusters": [_cluster_entry(comparison) for comparison in comparisons],
    }


def _cluster_entry(comparison: Comparison) -> dict[str, Any]:
    return {
        "cluster": comparison.cluster,
        **({"unplanned": comparison.unplanned} if comparison.unplanned else {}),
        "jobs": [_job_entry(job) for job in comparison.jobs],
        "queues": [asdict(queue) for queue in comparison.queues],
        "scheduler": list(comparison.scheduler),
        "resources": list(comparison.resources),
        "findings": {
            "new": [asdict(finding) for finding in comparison.new_findings],
            "mended": [asdict(finding) for finding in comparison.mended_findings],
        },
    }


def _job_entry(job: JobChange) -> dict[str, Any]:
    entry = {"change": job.effect, "kind": job.job_kind, "name": job.name, "queue": job.queue, "why": job.why}
    flags = {"new": job.is_new, "edited": job.is_edited}
    comes = {"from": [source_entry(source) for source in job.sources]} if job.sources else {}
    return {**entry, **flags, **comes, "before": _plain(job.before), "after": _plain(job.after)}


def _plain(pods: PodsByNode) -> dict[str, dict[str, int]]:
    return {role: dict(nodes) for role, nodes in pods.items()}


def comparison_text(comparisons: Sequence[Comparison], base: str, head: str) -> str:
    """For a terminal; ends in a newline."""
    lines = [f"{base} -> {head}"]
    for comparison in comparisons:
        lines += ["", f"Cluster {comparison.cluster}: {summary(comparison)}"]
        for title, rows in _sections(comparison):
            lines += ["", f"  {title}", *(f"    {row}" for row in rows)]
    return "\n".join(lines) + "\n"


def comparison_markdown(comparisons: Sequence[Comparison], base: str, head: str) -> str:
    """For a comment: the summary first, details folded, and short enough to be taken."""
    begin = [COMMENT_MARK, "### gangplan: what this change does", "", f"`{base}` → `{head}`", ""]
    begin += [f"* **{_escape(found.cluster)}**: {_escape(summary(found))}" for found in comparisons]
    pieces = ["\n".join(begin) + "\n"]
    left = MARKDOWN_LIMIT - len(pieces[0])
    for comparison in comparisons:
        for title, rows in _sections(comparison):
            heading = f"{title} in {comparison.cluster}" if len(comparisons) > 1 else title
            piece = _details_text(heading, rows, left)
            pieces.append(piece)
            left -= len(piece)
    return "\n".join(pieces)


def _details_text(title: str, rows: Sequence[str], limit: int) -> str:
    """A folded list of as many rows as fit; the others are counted."""
    end = "\n\n</details>\n"
    text = f"<details><summary>{_escape(title)} ({len(rows)})</summary>\n"
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
    if comparison.is_empty:
        return "no changes"
    pieces = [comparison.unplanned] if comparison.unplanned else []
    counts = Counter(job.effect for job in comparison.jobs)
    pieces += [
        f"{count_text(counts[kind], 'job')} {VERBS[kind][counts[kind] > 1]}" for kind in JOB_EFFECTS if counts[kind]
    ]
    if comparison.resources:
        pieces.append("nodes or policy changed")
    if comparison.queues:
        pieces.append(f"{count_text(len(comparison.queues), 'queue')} changed")
    if comparison.scheduler:
        pieces.append("the scheduler behaves otherwise")
    for word, findings in (("new", comparison.new_findings), ("mended", comparison.mended_findings)):
        if findings:
            errors = sum(finding.severity == "error" for finding in findings)
            count = count_text(len(findings), f"{word} finding")
            pieces.append(f"{count} ({count_text(errors, 'error')})" if errors else count)
    return ", ".join(pieces)


def _sections(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Title and rows of each part that has any."""
    for effect in JOB_EFFECTS:
        if jobs := [job for job in comparison.jobs if job.effect == effect]:
            verb = VERBS[effect][len(jobs) > 1]
            yield f"{'Jobs that' if len(jobs) > 1 else 'Job that'} {verb}", [_job_row(job) for job in jobs]
    if comparison.resources:
        yield "Nodes and policy", list(comparison.resources)
    if comparison.queues:
        yield "Queues", [_queue_row(queue) for queue in comparison.queues]
    if comparison.scheduler:
        yield "Scheduler", list(comparison.scheduler)
    if comparison.new_findings:
        yield "New findings", [_finding_row(finding) for finding in comparison.new_findings]
    if comparison.mended_findings:
        yield "Mended findings", [_finding_row(finding) for finding in comparison.mended_findings]


def _job_row(job: JobChange) -> str:
    is_edited = job.is_edited and job.effect != "edited"  # its title says so
    words = [word for word, holds in (("new", job.is_new), ("edited", is_edited)) if holds]
    marked = f" ({', '.join(words)})" if words else ""
    queue = f" in queue {job.queue}" if job.queue else ""
    see = ", ".join(source.short_text for source in job.sources[:MAX_SOURCES])
    return f"{job.name}{marked}{queue}: {job.why}{_places(job)}{f'; see {see}' if see else ''}"


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


def _queue_row(queue: QueueChange) -> str:
    if queue.before is None or queue.after is None:
        held = queue.after or queue.before or {}
        words = [f"{name} {_amounts_text(held[name])}" for name in held if held[name]]
        return f"{queue.name} is {'new' if queue.before is None else 'gone'}: {', '.join(words) or 'it says nothing'}"
    changes = []
    for name, old in queue.before.items():
        new = queue.after[name]
        for resource in sorted((old.keys() | new.keys()) - {"pods"}):
            if old.get(resource) != new.get(resource):
                unlimited = "0" if name == HELD else "none"
                values = [_amount(resource, of[resource]) if resource in of else unlimited for of in (old, new)]
                changes.append(f"{name} {values[0]} -> {values[1]} {unit_heading(resource)}")
    return f"{queue.name}: {', '.join(changes)}"


def _amounts_text(amounts: Mapping[str, Any]) -> str:
    named = sorted(amounts.keys() - {"pods"})
    return " and ".join(f"{_amount(resource, amounts[resource])} {unit_heading(resource)}" for resource in named)


def _amount(resource: str, value: float) -> str:
    """An amount of the plan's data (`json_amount`) as short text."""
    return f"{value:g}" if resource == "cpu" else rounded_amount(resource, int(value))


def _finding_row(finding: Diagnostic) -> str:
    at = finding.position
    subject = f" {finding.object}:" if finding.object else ""
    return f"{at.file}:{at.line}:{at.column} {finding.severity} {finding.code}{subject} {finding.message}"
