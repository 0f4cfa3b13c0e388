"""Maintenance as policies know it: which nodes close when."""

from __future__ import annotations

from solver.simulation.room import Nodes
from solver.simulation.workload import Outage


class Closings:
    """The maintenance that was announced. announced: all of it, in the order of the announcements."""

    def __init__(self) -> None:
        self.announced: list[Outage] = []
        self._left: dict[tuple[int, int], Nodes] = {}

    def announce(self, outage: Outage) -> None:
        self.announced.append(outage)
        window = outage.start, outage.end
        self._left[window] = self._left.get(window, frozenset()) | {outage.node}

    def advance(self, now: int) -> None:
        """Forget what has ended."""
        if any(end <= now for _, end in self._left):
            self._left = {window: nodes for window, nodes in self._left.items() if window[1] > now}

    def __bool__(self) -> bool:
        """Return whether any has not ended."""
        return bool(self._left)

    def nodes(self, begin: int, end: int) -> Nodes:
        """Return the nodes that are closed at some moment from `begin` until before `end`."""
        met = (nodes for (start, until), nodes in self._left.items() if max(begin, start) < min(end, until))
        return frozenset[int]().union(*met)

    def windows(self) -> dict[int, list[tuple[int, int]]]:
        """Return node -> its times (from, to)."""
        found: dict[int, list[tuple[int, int]]] = {}
        for window, nodes in self._left.items():
            for node in nodes:
                found.setdefault(node, []).append(window)
        return found

    def ends(self) -> set[int]:
        """Return the moments at which nodes open again."""
        return {end for _, end in self._left}
