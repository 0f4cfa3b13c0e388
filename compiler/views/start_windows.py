"""Windows of start times as plain data and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compiler.fields.times import rfc3339

if TYPE_CHECKING:
    from compiler.explain.planned_starts import PlannedStart
    from compiler.outputs import StartWindowEntry, WindowEntry


def window_entry(start: PlannedStart) -> StartWindowEntry | None:
    """None for a job without a window."""
    window, promise = start.window, start.promise
    if window is None or promise is None:
        return None
    promised: WindowEntry = {"earliest": rfc3339(promise.low), "latest": rfc3339(promise.high)}
    entry: StartWindowEntry = {"earliest": rfc3339(window.low), "latest": rfc3339(window.high), "promised": promised}
    if window.share is not None:
        entry["share"] = window.share
    if window.moved:
        entry["moved"] = window.moved
    return entry


def window_sentence(entry: Mapping[str, Any]) -> str:
    """Return the sentence on an entry's job."""
    share = f"{entry['share']} %" if "share" in entry else "a first estimate"
    sentence = f"expected to start between {entry['earliest']} and {entry['latest']} ({share})"
    if not entry.get("moved"):
        return sentence
    first = "first promised from {earliest} to {latest}".format_map(entry["promised"])
    return f"{sentence}; {first}: {entry['moved']}"
