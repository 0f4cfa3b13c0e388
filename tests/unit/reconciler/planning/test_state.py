"""What is known about plans ends with its objects and commits."""

from __future__ import annotations

from compiler.emit.manifest import Manifest
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.state import PlanningState, Rejection


def test_nothing_that_one_process_remembers_outlives_its_object() -> None:
    """S22: names with a date in them grew without end."""
    state = PlanningState()
    for name in ("kept", *(f"job-{day}" for day in range(1000))):
        state.note_unchanged(name, Manifest(4, {}, ""), ())
        state.reject(name, Rejection(Snapshot(name, False), 0.0, 0.0, (None, None)))
    state.trim({"kept"}, {"kept"})
    assert state.unchanged.keys() == state.rejections.keys() == {"kept"}
