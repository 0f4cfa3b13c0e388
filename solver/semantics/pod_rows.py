"""Requests of pods as rows, which are added to the amounts of their nodes all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from solver.problem import Gang, Placement
from solver.semantics.device_slots import IntArray

PodRows = tuple[IntArray, IntArray]
"""(nodes, the requests of pods on each of them: node x resource). A node may occur several times."""


def pod_rows(gang: Gang, pods: Sequence[Placement]) -> PodRows:
    """Return the requests of these pods of the gang."""
    rows = [[p.pods * amount for amount in gang.roles[p.role].request] for p in pods]
    width = len(gang.roles[0].request) if gang.roles else 0
    return np.array([p.node for p in pods], dtype=np.int64), np.array(rows, dtype=np.int64).reshape(-1, width)


def add_rows(total: IntArray, rows: Iterable[PodRows], times: int = 1) -> None:
    """Add the rows to those of `total` (node x resource), column by column: many times faster than all at once."""
    found = list(rows)
    if found:
        nodes, amounts = (np.concatenate(parts) for parts in zip(*found, strict=True))
        for r in range(total.shape[1]):
            np.add.at(total[:, r], nodes, times * amounts[:, r])
