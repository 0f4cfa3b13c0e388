"""From which cells running pods hold their portions, as far as anybody knows, and what comes back of them when pods go
(docs/model.md, Evictions).

Of the N pods of a role on a node u hold a share of cell c. Which of them go is not the plan's to say; while n stay,

    held_c(n) = min(u_c, n)

shares of c may be among what stays, and no more. What those that nobody knows of hold is off `Cell.free` and never
comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from solver.problem import Placement, Problem, Vector
from solver.semantics.device_slots import Ints, positions


@dataclass(frozen=True, slots=True)
class Holding:
    """Of the pods of one role on one node, `pods` hold `share` of a cell: the one at `position` among the node's cells
    of this division."""

    role: int
    node: int
    division: int
    position: int
    share: Vector
    pods: int


@dataclass(frozen=True)
class Holdings:
    """What the running pods of each gang hold of cells."""

    problem: Problem

    @cached_property
    def _of(self) -> tuple[tuple[Holding, ...], ...]:
        if not any(gang.holds for gang in self.problem.gangs):
            return ((),) * len(self.problem.gangs)
        spots, found = positions(self.problem), []
        for gang in self.problem.gangs:
            own = []
            for hold in gang.holds:
                division, position = spots[hold.node][hold.cell]
                (share,) = (portion.share for portion in gang.roles[hold.role].portions if portion.division == division)
                own.append(Holding(hold.role, hold.node, division, position, share, hold.pods))
            found.append(tuple(own))
        return tuple(found)

    def held(self, v: int, running: Iterable[Placement]) -> tuple[Holding, ...]:
        """held_c(n) of gang v for each of its cells, with these pods running; those of which nothing is held are left
        out."""
        left = {(p.role, p.node): p.pods for p in running}
        every = (replace(h, pods=min(h.pods, left.get((h.role, h.node), 0))) for h in self._of[v])
        return tuple(h for h in every if h.pods)

    def given_back(self, v: int, before: Iterable[Placement], after: Iterable[Placement]) -> Mapping[int, Ints]:
        """Node -> division x cell x resource: what gang v holds of cells with the pods `before` and not with those
        `after`; below 0 for more."""
        found: dict[int, Ints] = {}
        for pods, times in ((before, 1), (after, -1)):
            for h in self.held(v, pods):
                if h.node not in found:
                    found[h.node] = np.zeros(self._shape, dtype=np.int64)
                found[h.node][h.division, h.position] += np.array(h.share, dtype=np.int64) * (times * h.pods)
        return {node: cells for node, cells in sorted(found.items()) if cells.any()}

    @cached_property
    def _shape(self) -> tuple[int, int, int]:
        most = max((position + 1 for own in positions(self.problem) for _, position in own), default=0)
        return len(self.problem.divisions), most, len(self.problem.resources)


def add_held(cells: Ints, holdings: Iterable[Holding]) -> None:
    """Adds to the free cells (node x division x cell x resource) what these hold."""
    for h in holdings:
        cells[h.node, h.division, h.position] += np.array(h.share, dtype=np.int64) * h.pods
