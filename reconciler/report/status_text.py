"""The status document as tables, as kubectl prints them, its part on one job, and why each job waited, over time.

The status itself keeps that history, so it survives a restart and a change of the leader.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from compiler.fields.texts import short_list
from compiler.fields.times import rounded_duration_text
from compiler.views.start_windows import window_sentence
from reconciler.changes.planned import PlannedGang
from reconciler.runs.run_record import record_line

if TYPE_CHECKING:
    from compiler.outputs import HistoryEntry

MAX_CHANGES = 5
"""Changes of one job that are kept, the last ones: 2,000 waiting jobs with as many stay below 100 KiB compressed."""


def reason_history(
    gangs: Iterable[PlannedGang], previous: Mapping[str, list[HistoryEntry]], now: str
) -> dict[str, list[HistoryEntry]]:
    """Return each job that waits or has waited -> since when, with which codes. A new message with the same code is not
    a change."""
    found: dict[str, list[HistoryEntry]] = {}
    for gang in gangs:
        codes = sorted({reason.partition(":")[0] for reason in gang.reasons})
        if not (rows := previous.get(str(gang.job), [])) and not codes:
            continue
        if not rows or (rows[-1]["decision"], rows[-1]["codes"]) != (gang.decision, codes):
            rows = [*rows, {"since": now, "decision": gang.decision, "codes": codes}]
        found[str(gang.job)] = rows[-MAX_CHANGES:]
    return found


def history_lines(rows: Iterable[Mapping[str, Any]], titles: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a job's history. titles: code -> its meaning."""
    for row in rows:
        why = ", ".join(" ".join(filter(None, (code, titles.get(code)))) for code in row["codes"])
        yield f"{row['since']}   {row['decision']}" + (f": {why}" if why else "")


_MAX_DOMAINS, _MAX_NODES = 4, 40
_DECISIONS = ("start", "keep", "wait", "evict")
Rows = Sequence[Sequence[str]]


def status_text(document: Mapping[str, Any]) -> str:
    """Return the commit, and a table each of conditions, jobs, queues, domains, and objects not applied."""
    commit, head, gangs = document.get("commit"), document.get("head"), document.get("gangs") or ()
    held = [(row["object"], row["reason"]) for row in document.get("held") or ()]
    more = document.get("heldTotal", len(held)) - len(held)
    unlisted = document.get("gangsTotal", len(gangs)) - len(gangs)
    tables = (
        ("CONDITION STATUS REASON MESSAGE", [_condition_row(row) for row in document.get("conditions") or ()]),
        ("DECISION JOB KIND QUEUE WHERE-OR-WHY", [*map(_job_row, gangs), *_unlisted_rows(unlisted)]),
        ("QUEUE JOBS START KEEP WAIT EVICT", list(_queue_rows(gangs))),
        ("DOMAIN JOBS QUEUES", list(_domain_rows(gangs))),
        ("NODE PODS JOBS", list(_node_rows(gangs))),
        ("LOSES-PODS QUEUE FOR", [_eviction_row(gang) for gang in gangs if gang.get("evictedFor")]),
        ("NOT-APPLIED WHY", [*held, *([(f"and {more} more", "")] if more > 0 else [])]),
    )
    lists = {
        "LAST FINISHED": [record_line(row) for row in document.get("records") or ()],
        "PROMISED STARTS": [*map(_score_text, filter(None, [document.get("promisedStarts")]))],
        "SUSPENDED": document.get("suspended") or (),
        "PROBLEMS": document.get("diagnostics") or (),
    }
    sections = [[f"commit {commit or 'none'}" + (f" (head {head})" if head != commit else "")]]
    sections += [list(table_lines(heads.split(), rows)) for heads, rows in tables if rows]
    sections += [[title, *(f"  {row}" for row in rows)] for title, rows in lists.items() if rows]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _unlisted_rows(count: int) -> Rows:
    """Return a row on the jobs that a ConfigMap could not hold."""
    why = "the ConfigMap holds no more; waiting jobs are listed first, and no table counts the others"
    return [("", f"and {count} more", "", "", why)] if count > 0 else []


def job_document(document: Mapping[str, Any], namespace: str, name: str) -> dict[str, Any]:
    """Return the rows of the status on a job; empty for one that the plan in force does not have."""
    gangs = [gang for gang in document.get("gangs") or () if (gang["namespace"], gang["name"]) == (namespace, name)]
    objects = dict.fromkeys(f"{gang['kind']} {namespace}/{name}" for gang in gangs)
    found = {
        "gangs": gangs,
        "history": [row for key in objects for row in (document.get("history") or {}).get(key, ())],
        "held": [row for row in document.get("held") or () if row["object"] in objects],
    }
    return {field: rows for field, rows in found.items() if rows}


def job_text(job: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return the decision of the plan in force on a job, its history, and its objects not applied. job: of
    `job_document`. titles: code of a reason -> its meaning."""
    gangs = job.get("gangs", ())
    rows = [_job_row(gang)[:4] for gang in gangs]
    lines = list(table_lines(["DECISION", "JOB", "KIND", "QUEUE"], rows)) if rows else []
    for gang in gangs:
        lines += [f"  domains: {', '.join(gang['domains'])}"] if gang["domains"] else []
        lines += [f"  nodes: {', '.join(gang['nodes'])}"] if gang.get("nodes") else []
        lines += [f"  loses pods for {', '.join(gang['evictedFor'])}"] if gang.get("evictedFor") else []
        lines += [f"  {reason}" for reason in gang["reasons"]]
        lines += [f"  {text}" for text in _start_texts(gang)]
    lines += [f"  not applied: {row['reason']}" for row in job.get("held", ())]
    lines += [f"  since {line}" for line in history_lines(job.get("history", ()), titles)]
    return "".join(f"{line}\n" for line in lines)


def table_lines(heads: Sequence[str], rows: Rows) -> Iterator[str]:
    """Columns as wide as they need, three blanks apart; the last one as long as it is."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        yield "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _score_text(score: Mapping[str, Any]) -> str:
    """Return how windows of start times held."""
    by_limits = score["errorByLimits"]
    than = "" if by_limits is None else f"; by declared durations {rounded_duration_text(by_limits)}"
    inside = f"{score['inside']:.0%} of {score['made']} jobs started in their window"
    if score["estimates"]:
        inside += f" (without {score['estimates']} first estimates)"
    return f"{inside}, {score['width']:.0%} of the wait wide; error {rounded_duration_text(score['error'])}{than}"


def _condition_row(condition: Mapping[str, str]) -> tuple[str, str, str, str]:
    sentence = condition_sentence(condition["type"], condition["status"] == "True")
    message = ". ".join(filter(None, (condition["message"].rstrip("."), sentence)))
    return condition["type"], condition["status"], condition["reason"], message


def _job_row(gang: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    domains = ", ".join(gang["domains"][:_MAX_DOMAINS]) + (" ..." if len(gang["domains"]) > _MAX_DOMAINS else "")
    unbound = "" if gang.get("bound", True) else " (not bound)"
    where = domains or "; ".join((*gang["reasons"], *_start_texts(gang)))
    return gang["decision"], f"{gang['namespace']}/{gang['name']}", gang["kind"] + unbound, gang["queue"] or "-", where


def _start_texts(gang: Mapping[str, Any]) -> Iterator[str]:
    """Yield when a waiting job starts, as far as it is known."""
    if gang.get("startsAt"):
        yield f"expected to start about {gang['startsAt']}"
    if gang.get("startWindow"):
        yield window_sentence(gang["startWindow"])


def _queue_rows(gangs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    counts: dict[str, Counter[str]] = {}
    for gang in gangs:
        counts.setdefault(gang["queue"] or "-", Counter())[gang["decision"]] += 1
    for queue, found in sorted(counts.items()):
        yield queue, str(found.total()), *(str(found[decision]) for decision in _DECISIONS)


def _domain_rows(gangs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield the domains that jobs hold or are to get, with these jobs' queues."""
    queues: dict[str, Counter[str]] = {}
    for gang in gangs:
        for domain in gang["domains"]:
            queues.setdefault(domain, Counter())[gang["queue"] or "-"] += 1
    for domain, found in sorted(queues.items()):
        yield domain, str(found.total()), ", ".join(sorted(found))


def _node_rows(gangs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield the nodes on which jobs have pods or are to get them, with these jobs."""
    jobs: dict[str, Counter[str]] = {}
    for gang in gangs:
        for node, pods in (gang.get("nodes") or {}).items():
            jobs.setdefault(node, Counter())[f"{gang['namespace']}/{gang['name']}"] += pods
    for node, found in sorted(jobs.items())[:_MAX_NODES]:
        yield node, str(found.total()), short_list(sorted(found), most=_MAX_DOMAINS)
    if len(jobs) > _MAX_NODES:
        yield f"and {len(jobs) - _MAX_NODES} more", "", "see status -o json"


def _eviction_row(gang: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        f"{gang['namespace']}/{gang['name']}",
        gang["queue"] or "-",
        short_list(gang["evictedFor"], most=_MAX_DOMAINS),
    )


SENTENCES = tomllib.loads((files("reconciler.report") / "conditions.toml").read_text("utf-8"))
"""Condition type -> what it means, true and false; in the order of the status."""
CONDITION_TYPES = tuple(SENTENCES)


def condition_sentence(condition_type: str, holds: bool) -> str:
    """Return the sentence for a condition; empty for one that a newer reconciler has written."""
    sentences: Mapping[str, str] = SENTENCES.get(condition_type, {})
    return sentences.get(str(holds).lower(), "")
