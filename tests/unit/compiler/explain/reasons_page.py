"""docs/reasons.md, made from the catalogue."""

from __future__ import annotations

from compiler.explain.catalogue import REASONS, REPAIRS, entries_by_code, job_text, with_names

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
    for code, entry in entries_by_code(REASONS).items():
        rows.append(f"## {code}: {entry.title}\n")
        rows.append(f"> {_markdown(entry.texts[0])}\n")
        rows += [f"Or, where that is why:\n\n> {_markdown(text)}\n" for text in entry.special_texts]
        if entry.never_texts:
            rows.append(f"Or, when waiting cannot help:\n\n> {_markdown(entry.never_texts[0])}\n")
        rows.append(f"{entry.remedy}\n")
    rows += ["# What would help\n", REPAIRS_INTRODUCTION]
    for code, entry in entries_by_code(REPAIRS).items():
        rows.append(f"* **{code}** {entry.title}: {_markdown(job_text(entry))}")
    return "\n".join(rows) + "\n"


def _markdown(text: str) -> str:
    return with_names(text, "*{}*")
