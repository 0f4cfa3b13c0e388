"""Why each job waited, over time. The status itself keeps it, so it survives a restart and a change of the leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.changes.planned import PlannedGang

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
