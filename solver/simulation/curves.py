"""A replay over time: means over equal parts of it, for curves of several replays side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from solver.semantics.device_slots import IntArray
from solver.simulation.replay import Replay
from solver.simulation.shares import Floats, ShareCurves

Edges = IntArray
"""Moments between which means are taken, microseconds, ascending."""


@dataclass(frozen=True, slots=True)
class Curves:
    """By part of the time. used, stranded, lacking (what queues hold less than they deserve, together): parts of all
    devices. waiting: devices that waiting jobs ask for, also as a part. held, deserved: by queue, the same."""

    used: Floats
    stranded: Floats
    waiting: Floats
    lacking: Floats
    held: Floats
    deserved: Floats


def edges_of(replays: Iterable[Replay], parts: int) -> Edges:
    """The ends of so many equal parts of the time from the first arrival to the last event of all, microseconds."""
    spans = [span for replay in replays for span in replay.spans]
    first, last = min((span.start for span in spans), default=0), max((span.end for span in spans), default=0)
    return np.linspace(first, max(last, first + parts), parts + 1).round().astype(np.int64)


def curves(replay: Replay, shares: ShareCurves, edges: Edges) -> Curves:
    """Return the curves between these moments; nothing is held and nobody waits before and after the replay. shares:
    its `share_curves`."""
    total = max(1, replay.workload.cluster.totals[replay.workload.device])
    spans = replay.spans
    stranded = np.array([span.stranded for span in spans], dtype=np.double) / total
    waiting = np.array([sum(span.waiting) for span in spans], dtype=np.double) / total
    sums = [shares.held.sum(axis=1), stranded, waiting, shares.lacking.sum(axis=1)]
    of_all = np.column_stack([*sums, shares.held, shares.deserved])
    found, queues = _means(replay, of_all, edges), shares.held.shape[1]
    used, stranded, waiting, lacking = found[:, :4].T
    return Curves(used, stranded, waiting, lacking, found[:, 4 : 4 + queues], found[:, 4 + queues :])


def _means(replay: Replay, values: Floats, edges: Edges) -> Floats:
    """Part by column: the mean of the values, which the spans of the replay have."""
    times = np.array([span.start for span in replay.spans] + [replay.spans[-1].end if replay.spans else 0])
    lengths = np.diff(times).astype(np.double)[:, np.newaxis]
    sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values * lengths, axis=0)])
    at_edges = np.column_stack([np.interp(edges, times, column) for column in sums.T])
    means: Floats = np.diff(at_edges, axis=0) / np.diff(edges)[:, np.newaxis]
    return means
