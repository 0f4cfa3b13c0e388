"""Jobs in short: waiting ones by reason, and jobs that errors keep out of the plan."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from compiler.diagnostics.render.words import printable
from compiler.explain.names import count_text
from compiler.outcome import JobDecision, Outcome
from compiler.views.selection import MAX_DETAILED, LeftOut, Selection, left_out, named_jobs, waits_by_reason
from compiler.views.style import Style, hanging_text, wrap_text


def grouped_waits(style: Style, waiting: Sequence[JobDecision]) -> Iterator[str]:
    """Yield a line or two for each reason and queue, in place of several for each job; of many of them the table."""
    groups = list(waits_by_reason(waiting))
    if len(groups) > MAX_DETAILED:
        yield from waits_table(style, waiting)
        yield from wrap_text(_HINT, "  ", style.width)
        return
    yield f"{style.paint('Waits', 'head')}: {count_text(len(waiting), 'job')}, by their first reason"
    for code, meaning, jobs in groups:
        role = "never" if jobs[0].never else "wait"
        mark = style.paint("!" if jobs[0].never else "-", role)
        where = f"queue {jobs[0].gang.queue}" if jobs[0].gang.queue else "no queue"
        text = f"{count_text(len(jobs), 'job')}: {meaning} ({where}): {named_jobs(jobs)}"
        yield from hanging_text(f"  {mark} {style.code(code, role)}  ", text, style.width - 11, " " * 11)
    yield from wrap_text(_HINT, "  ", style.width)


_HINT = "one by one: gangplan plan --decision wait; all of one: gangplan explain JOB"


def waits_table(style: Style, waiting: Sequence[JobDecision]) -> Iterator[str]:
    """Yield waiting jobs by their first reason and queue: reasons down, those that can never start last; queues across,
    the rest of them in one column beyond the width."""
    counts, queues = dict[str, Counter[str]](), Counter[str]()
    for code, meaning, jobs in waits_by_reason(waiting):
        row, queue = f"{'!' if jobs[0].never else '-'} {code}  {meaning}", jobs[0].gang.queue or "(none)"
        counts.setdefault(row, Counter())[queue] += len(jobs)
        queues[queue] += len(jobs)
    yield f"{style.paint('Waits', 'head')}: {count_text(len(waiting), 'job')}, by their first reason and queue"
    first = min(max(map(len, counts)), max(24, style.width - 48))
    names, room = list[str](), style.width - first - 2 - 8 - 8
    for name, _ in queues.most_common():
        if (room := room - max(len(_short(name)) + 2, 8)) < 0:
            break
        names.append(name)
    others = [name for name in queues if name not in names]
    heads = [*map(_short, names), *([f"{len(others)} more"] if others and names else []), "all"]
    widths = [max(len(head) + 2, 8) for head in heads]
    yield f"  {'':<{first}}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    for row, found in counts.items():
        numbers = [
            *(found[name] for name in names),
            *([sum(found[name] for name in others)] if others and names else []),
        ]
        cells = [str(number or "") for number in (*numbers, found.total())]
        *above, last = textwrap.wrap(row, first, subsequent_indent=" " * 9, break_on_hyphens=False)
        yield from (f"  {line}" for line in above)
        yield f"  {last:<{first}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _short(name: str) -> str:
    """Return a long name without its beginning."""
    return name if len(name) <= _MAX_HEAD else f"..{name[2 - _MAX_HEAD :]}"


_MAX_HEAD = 14


def left_out_rows(style: Style, outcome: Outcome, selection: Selection) -> Iterator[str]:
    """Yield the jobs that errors keep out of the plan; nothing if there are none."""
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
