"""Records of runs (`reconciler.runs.run_record`), for people and for the status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.inventory.store import FinishedRun

_SHOWN_NODES = 4


def record_row(run: FinishedRun) -> dict[str, Any]:
    """The run as the status has it."""
    return {"job": str(run.ref), "phase": run.phase, "digest": run.digest, **run.details}


def record_line(row: Mapping[str, Any]) -> str:
    """The run in a line."""
    parts = [f"{row.get('started', 'unknown')} to {row.get('ended', 'unknown')}"]
    parts += [f"{name} {row[name]}" for name in ("retries", "evictions") if row.get(name)]
    for role, codes in row.get("exitCodes", {}).items():
        counts = ", ".join(f"{code} ({count})" for code, count in codes.items())
        parts.append(f"{' '.join(filter(None, ('exit codes', role)))}: {counts}")
    if nodes := row.get("nodes"):
        more = f" and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
        parts.append(f"nodes {', '.join(nodes[:_SHOWN_NODES])}{more}")
    return f"{row['phase']:<10} {row['job']}: {'; '.join(parts)}"


def record_text(run: FinishedRun) -> str:
    """All that is known of the run and of those before it."""
    row = record_row(run)
    lines = [record_line(row), f"  {run.digest}", *_event_lines(row), *_failure_lines(row)]
    lines += [f"  before: {record_line({'job': former['digest'], **former})}" for former in row.get("former", ())]
    return "\n".join(lines) + "\n"


def _event_lines(row: Mapping[str, Any]) -> Iterator[str]:
    for role, events in row.get("events", {}).items():
        for event, (count, first, last) in events.items():
            times = f", {first}" if first == last else f", {first} to {last}"
            yield f"  {' '.join(filter(None, (role, event)))}: {count}{times if last else ''}"


def _failure_lines(row: Mapping[str, Any]) -> Iterator[str]:
    for failure in row.get("failures", ()):
        said = (("at", "{}"), ("role", "{}"), ("node", "on {}"), ("exitCode", "exit code {}"), ("reason", "{}"))
        words = (text.format(failure[name]) for name, text in said if name in failure)
        yield f"  failed: {', '.join(words)}"
