"""The compile worker is told of the cluster once that is quiet, and now and then while it is not."""

from __future__ import annotations

from math import inf

from reconciler.planning.compile.process import WorkerState
from reconciler.timings import TIMINGS

QUIET, LONGEST = TIMINGS.compile.quiet, TIMINGS.compile.longest_untold


def test_it_is_told_once_nothing_changes_and_not_again() -> None:
    nodes, pods, state = [{"kind": "Node"}], list[object](), WorkerState()
    assert state.tell_at() == inf, "nothing was seen"
    state.note_seen((nodes, pods), 1.0)
    state.note_told(1.0)
    assert state.tell_at() == inf
    state.note_seen((nodes, [{"kind": "Pod"}]), 2.0)
    state.note_seen((nodes, [{"kind": "Pod"}]), 4.0)
    assert state.tell_at() == 2.0 + QUIET
    state.note_seen((nodes, pods), 6.0)
    assert state.tell_at() == 6.0 + QUIET
    state.note_told(11.0)
    assert state.tell_at() == inf


def test_a_cluster_that_never_rests_is_told_of_now_and_then() -> None:
    state = WorkerState()
    state.note_seen(([0],), 0.0)
    state.note_told(0.0)
    for now in range(1, 200):
        state.note_seen(([now],), float(now))
    assert state.tell_at() == LONGEST
