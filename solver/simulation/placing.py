"""Where a job's pods go: one function a rule. None where they do not fit together; nothing is taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from solver.problem import Role
from solver.simulation.room import Holds, Room

PlaceRule = Callable[[Room, Role], Holds | None]


def lowest_numbered(room: Room, role: Role) -> Holds | None:
    """Return the first nodes with room, in the order of the cluster, as batch schedulers choose by default."""
    return _fill_in_order(room, role, np.arange(len(room.classes)))


def best_fit(room: Room, role: Role) -> Holds | None:
    """Return the nodes with the least left over: sum over resources of free_r / (largest free_r of any node when
    empty)."""
    largest = np.maximum(room.largest, 1)
    left = (room.free.amounts / largest).sum(axis=1)
    return _fill_in_order(room, role, np.argsort(left, kind="stable"))


def _fill_in_order(room: Room, role: Role, order: npt.NDArray[np.int64]) -> Holds | None:
    """As many pods as fit on each of the nodes in this order, until all are placed."""
    counts = room.fit_counts(role)[order]
    before = np.cumsum(counts) - counts
    if int(counts.sum()) < role.replicas:
        return None
    taken = np.clip(role.replicas - before, 0, counts)
    used = np.flatnonzero(taken)
    return tuple(room.hold(role, int(order[at]), int(taken[at])) for at in used)
