"""docs/reasons.md, made from the catalogue."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from compiler.explain.entries import Entry
from compiler.explain.reason_entries import REASONS
from compiler.explain.repair_entries import REPAIRS

REASONS_INTRODUCTION = """\
A job gets the smallest set of reasons that suffices: with all of them out of the way it would start, with one of them
left it would not. First those that waiting does not help (`never`, always proved), then what is in its way beside the
jobs that run, in its queues and on the nodes. What the plan gives to others is blamed only where nothing else is: a
job that cannot start anyway is not kept out by those who got the room.

Each reason says where it comes from: `gangplan plan` names the first lines of the repository, `gangplan explain` all
of them, and `from` in the JSON holds them one by one. What only the cluster knows (nodes, running pods) is said by
its name.
"""

REPAIRS_INTRODUCTION = """\
Each repair was tried: with it the job starts beside the rest of the plan, and it is the least of its kind: of a weight
and of what a queue deserves the least with which the job does not borrow, so that it starts before jobs that do. At
most a few are said, in this order: what the job's owner can change without giving up pods; waiting; fewer pods; a
higher priority (with which the job is decided first, so that others may wait instead, or running ones of its queue are
evicted); the queues; the nodes. Where fewer than two single changes are known, two together are tried as well, and for
a job that waiting alone never helps also smaller pods, or other nodes, with the end of jobs or with fewer pods; `also`
in the JSON holds what must come with a change. How many are tried is limited by count, never by the clock. Where other
waiting jobs would use a change of a queue, more nodes or the end of others as well, and come first or may, they are
named (`gangs`, the first 20). More nodes are not said where other waiting jobs might start on them instead.

Where it is known when jobs end, those are named after whose end the job starts soonest, and `seconds` and `at` say
when that is. A job for which there is room (GW106 of whole domains, GW114, GW115, GW116) is told what would give it
its turn; a time in a message is expected, no promise. `gangplan explain` and `from` in the JSON say where each change
is made, or where it would be written.
"""


def reasons_page() -> str:
    """docs/reasons.md."""
    rows = [
        "# Why a job waits: the codes\n",
        "Made from the entries of `compiler/explain/`; a test keeps it current. A code never changes its meaning.",
        "`gangplan plan -o json` gives the same codes with their numbers: cpu in cores, memory in bytes, everything "
        "else as a count.\n",
        REASONS_INTRODUCTION,
    ]
    for code, entry in _first_by_code(REASONS).items():
        rows.append(f"## {code}: {entry.title}\n")
        rows.append(f"> {_markdown_text(entry.texts[0])}\n")
        rows += [f"Or, where that is why:\n\n> {_markdown_text(text)}\n" for text in entry.special_texts]
        if entry.never_texts:
            rows.append(f"Or, when waiting cannot help:\n\n> {_markdown_text(entry.never_texts[0])}\n")
        rows.append(f"{entry.remedy}\n")
    rows += ["# What would help\n", REPAIRS_INTRODUCTION]
    for code, entry in _first_by_code(REPAIRS).items():
        rows.append(f"* **{code}** {entry.title}: {_markdown_text(_job_text(entry.texts))}")
    return "\n".join(rows) + "\n"


def remedy(code: str) -> str:
    """What helps in general against the reason with this code."""
    return _first_by_code(REASONS)[code].remedy


def code_text(code: str) -> str | None:
    """What `gangplan explain` says of the code of a reason or a repair; None for no such code."""
    if entry := _first_by_code(REASONS).get(code):
        texts = (entry.texts[0], *entry.special_texts, *entry.never_texts[:1])
        return "\n".join((f"{code} {entry.title} (why a job waits)", *map(_plain_text, texts), entry.remedy)) + "\n"
    if entry := _first_by_code(REPAIRS).get(code):
        return f"{code} {entry.title} (what would help)\n{_plain_text(_job_text(entry.texts))}\n"
    return None


def _first_by_code(table: Mapping[type[Any], Entry[Any]]) -> dict[str, Entry[Any]]:
    entries: dict[str, Entry[Any]] = {}
    for kind, entry in table.items():
        entries.setdefault(kind.code, entry)
    return entries


def _job_text(texts: Sequence[str]) -> str:
    """The sentence about the whole job, where there is another one about its groups."""
    return next((text for text in texts if "{subgroup}" not in text), texts[-1])


def _markdown_text(text: str) -> str:
    return _text_with_names(text, "*{}*")


def _plain_text(text: str) -> str:
    return f"  {_text_with_names(text, '<{}>')}"


def _text_with_names(text: str, form: str) -> str:
    """The text with the name of each value in its place, written as `form` says."""
    parts = string.Formatter().parse(text)
    return "".join(f"{part}{form.format(name.replace('_', ' ')) if name else ''}" for part, name, _, _ in parts)
