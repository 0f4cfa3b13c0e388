"""Each queue's usage of the devices over time, against its deserved amount while it requested any.

A queue's demand is its usage and waiting requests, within its capability. Of that it deserves, with d its `deserved`
where queues are measured by it (Volcano's capacity), else by its weight, so that weights share all that is asked for:

    deserved_q  =  min( asked_q, max( t * d_q, guarantee_q ) )
    t           :  the most for which  sum_q min( asked_q, t * d_q ) <= total,  at most 1 (with weights: total)

The tree of queues is not looked at.

Curves of several replays side by side are means over equal parts of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.problem import Problem
from solver.semantics.device_slots import IntArray
from solver.simulation.replay import Replay

Floats = npt.NDArray[np.double]


@dataclass(frozen=True, slots=True)
class ShareCurves:
    """lengths: of the replay's spans, microseconds. Span by queue, as parts of all devices: its usage, its demand (held
    and waiting, within the capability) and the deserved part of that. waits: whether a job of it waited."""

    lengths: Floats
    held: Floats
    asked: Floats
    deserved: Floats
    waits: npt.NDArray[np.bool_]

    @property
    def lacking(self) -> Floats:
        """Return span by queue: the usage missing to the deserved amount."""
        return np.maximum(self.deserved - self.held, 0.0)

    @property
    def starves(self) -> npt.NDArray[np.bool_]:
        """Return span by queue: whether a job of it waited while it held nothing of its deserved amount."""
        found: npt.NDArray[np.bool_] = self.waits & (self.deserved > 0) & (self.held == 0)
        return found


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Means over the time in which the queue requested devices, as parts of all: deserved, held, and missing amounts.
    starved: the longest time in which it held nothing of its deserved amount while a job of it waited, microseconds.
    asking: microseconds."""

    deserved: float
    held: float
    error: float
    starved: int
    asking: int


def share_curves(replay: Replay) -> ShareCurves:
    """Return the shares of all queues over the spans of a replay."""
    cluster, device, spans = replay.workload.cluster, replay.workload.device, replay.spans
    total, shape = max(1, cluster.totals[device]), (len(spans), len(cluster.queues))
    held = np.array([span.held for span in spans], dtype=np.double).reshape(shape) / total
    waiting = np.array([span.waiting for span in spans], dtype=np.double).reshape(shape) / total
    most = _amounts([queue.capability[device] for queue in cluster.queues], total, np.inf)
    asked = np.minimum(held + waiting, most)
    lengths = np.array([span.end - span.start for span in spans], dtype=np.double)
    return ShareCurves(lengths, held, asked, _deserved(cluster, device, asked), waiting > 0)


def queue_share(curves: ShareCurves, q: int) -> QueueShare:
    """Return one queue's shares in short."""
    asking = np.where(curves.asked[:, q] > 0, curves.lengths, 0.0)
    deserved, held, error = (
        float((part[:, q] * asking).sum() / max(1.0, asking.sum()))
        for part in (curves.deserved, curves.held, curves.lacking)
    )
    return QueueShare(deserved, held, error, _longest(curves.lengths, curves.starves[:, q]), int(asking.sum()))


def share_error(curves: ShareCurves) -> float:
    """Mean over all time of what queues held less than they deserved, together, as a part of all devices."""
    return float((curves.lacking.sum(axis=1) * curves.lengths).sum() / max(1.0, curves.lengths.sum()))


def _longest(lengths: Floats, chosen: npt.NDArray[np.bool_]) -> int:
    """Return the longest sum of lengths of chosen spans that follow each other."""
    after = np.cumsum(np.where(chosen, lengths, 0.0))
    breaks = np.maximum.accumulate(np.where(chosen, 0.0, after))
    return int((after - breaks).max(initial=0.0))


def _amounts(amounts: Sequence[int | None], total: int, unset: float) -> Floats:
    return np.array([unset if amount is None else amount / total for amount in amounts], dtype=np.double)


def _deserved(cluster: Problem, device: int, asked: Floats) -> Floats:
    """Span by queue, as in the module's formula: queues that ask for least of their d are met first."""
    total = max(1, cluster.totals[device])
    guarantee = _amounts([queue.guarantee[device] for queue in cluster.queues], total, 0.0)
    if cluster.policy.capacity:
        due = np.maximum(_amounts([queue.deserved[device] for queue in cluster.queues], total, 0.0), guarantee)
    else:
        due = np.array([queue.weight for queue in cluster.queues], dtype=np.double)
    ratio = np.divide(asked, due, out=np.full_like(asked, np.inf), where=due > 0)
    order = np.argsort(ratio, axis=1, kind="stable")
    asked_in_order, due_in_order = np.take_along_axis(asked, order, axis=1), due[order]
    met = np.cumsum(asked_in_order, axis=1) - asked_in_order
    open_due = np.cumsum(due_in_order[:, ::-1], axis=1)[:, ::-1]
    levels = np.divide(1.0 - met, open_due, out=np.full_like(asked, np.inf), where=open_due > 0)
    is_reached = levels < np.take_along_axis(ratio, order, axis=1)
    first = np.take_along_axis(levels, is_reached.argmax(axis=1)[:, np.newaxis], axis=1)
    level = np.where(is_reached.any(axis=1)[:, np.newaxis], np.clip(first, 0.0, 1.0), 1.0)
    deserved: Floats = np.minimum(asked, np.maximum(level * due, guarantee))
    return deserved


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
