"""Waiting jobs of one queue, asked in order; equal jobs are asked until one of them is refused."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heapreplace, merge

from solver.simulation.site import Order
from solver.simulation.workload import Shape


class Lines:
    """The jobs of each shape in a line of its own. A refusal of one job applies to its whole line: room only shrinks
    within a cycle."""

    def __init__(self) -> None:
        self._lines: dict[Shape, list[Order]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, shape: Shape, order: Order) -> None:
        insort(self._lines.setdefault(shape, []), order)

    def remove(self, shape: Shape, order: Order) -> None:
        line = self._lines[shape]
        del line[bisect_left(line, order)]
        if not line:
            del self._lines[shape]

    def in_order(self) -> Iterator[int]:
        """Return the last parts of the orders of all jobs."""
        return (order[2] for order in merge(*self._lines.values()))

    def turns(self, without: Collection[Shape] = ()) -> Turns:
        """Return one round through the lines, but for those of some shapes."""
        return Turns({shape: line for shape, line in self._lines.items() if shape not in without})


class Turns:
    """A round: `head` is asked, then `taken` or `refused` is called for it, `taken` when it has left its line."""

    def __init__(self, lines: dict[Shape, list[Order]]) -> None:
        self._heads = [(line[0], line, shape) for shape, line in lines.items()]
        heapify(self._heads)

    @property
    def head(self) -> int | None:
        """Return the last part of the order of the job that is asked next."""
        return self._heads[0][0][2] if self._heads else None

    def taken(self) -> None:
        """The head is served; the next of its line is asked in its turn."""
        _, line, shape = self._heads[0]
        if line:
            heapreplace(self._heads, (line[0], line, shape))
        else:
            heappop(self._heads)

    def refused(self) -> None:
        """Nobody of the head's line is asked any more."""
        heappop(self._heads)
