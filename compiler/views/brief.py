"""Jobs in short: those that wait by reason, and those that errors keep out of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.diagnostics.render.words import printable
from compiler.explain.names import count_text
from compiler.outcome import JobDecision, Outcome
from compiler.views.selection import MAX_DETAILED, LeftOut, Selection, left_out, named_jobs, waits_by_reason
from compiler.views.style import Style, hanging_text


def grouped_waits(style: Style, waiting: Sequence[JobDecision]) -> Iterator[str]:
    """A line or two for each reason, in place of several for each job."""
    yield f"{style.paint('Waits', 'head')}: {count_text(len(waiting), 'job')}, by their first reason"
    for code, meaning, jobs in waits_by_reason(waiting):
        role = "never" if jobs[0].never else "wait"
        mark = style.paint("!" if jobs[0].never else "-", role)
        said = f"{count_text(len(jobs), 'job')}: {meaning}: {named_jobs(jobs)}"
        yield from hanging_text(f"  {mark} {style.code(code, role)}  ", said, style.width - 11, " " * 11)
    yield "  gangplan plan --decision wait tells them one by one, gangplan explain JOB all of one"


def left_out_rows(style: Style, outcome: Outcome, selection: Selection) -> Iterator[str]:
    """The jobs that errors keep out of the plan; nothing where there are none."""
    jobs = left_out(outcome)
    if not jobs:
        return
    yield f"{style.paint('Left out', 'head')}: {count_text(len(jobs), 'job')} with errors"
    if selection.is_summary:
        return
    for job in jobs[:MAX_DETAILED]:
        yield f"  {style.paint('!', 'never')} {_left_out_text(job)}"
    if len(jobs) > MAX_DETAILED:
        yield f"    and {len(jobs) - MAX_DETAILED} more"


def _left_out_text(job: LeftOut) -> str:
    first = job.errors[0]
    name = "" if job.document is None else f"{job.document.namespace or 'default'}/{job.document.name}  "
    more = f" and {len(job.errors) - 1} more" if len(job.errors) > 1 else ""
    return f"{printable(name)}{printable(first.position.file)}:{first.position.line} {first.code}{more}"
