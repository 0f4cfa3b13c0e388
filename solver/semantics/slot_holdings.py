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
from solver.semantics.device_slots import IntArray, slot_positions


@dataclass(frozen=True, slots=True)
class HeldShare:
    """Of the pods of one role on one node, `pods` hold `share` of a cell: the one at `position` among the node's cells
    of this division."""

    role: int
    node: int
    slot_group: int
    position: int
    share: Vector
    pods: int


@dataclass(frozen=True)
class SlotHoldings:
    """What the running pods of each gang hold of cells."""

    problem: Problem

    @cached_property
    def _by_gang(self) -> tuple[tuple[HeldShare, ...], ...]:
        if not any(gang.slot_holds for gang in self.problem.gangs):
            return ((),) * len(self.problem.gangs)
        spots, found = slot_positions(self.problem), []
        for gang in self.problem.gangs:
            own = []
            for hold in gang.slot_holds:
                division, position = spots[hold.node][hold.slot]
                (share,) = (
                    portion.share for portion in gang.roles[hold.role].slot_requests if portion.slot_group == division
                )
                own.append(HeldShare(hold.role, hold.node, division, position, share, hold.pods))
            found.append(tuple(own))
        return tuple(found)

    def shares_held(self, v: int, running: Iterable[Placement]) -> tuple[HeldShare, ...]:
        """held_c(n) of gang v for each of its cells, with these pods running; those of which nothing is held are left
        out."""
        left = {(p.role, p.node): p.pods for p in running}
        every = (replace(h, pods=min(h.pods, left.get((h.role, h.node), 0))) for h in self._by_gang[v])
        return tuple(h for h in every if h.pods)

    def returned_amounts(
        self, v: int, before: Iterable[Placement], after: Iterable[Placement]
    ) -> Mapping[int, IntArray]:
        """Node -> division x cell x resource: what gang v holds of cells with the pods `before` and not with those
        `after`; below 0 for more."""
        found: dict[int, IntArray] = {}
        for pods, times in ((before, 1), (after, -1)):
            for h in self.shares_held(v, pods):
                if h.node not in found:
                    found[h.node] = np.zeros(self._array_shape, dtype=np.int64)
                found[h.node][h.slot_group, h.position] += np.array(h.share, dtype=np.int64) * (times * h.pods)
        return {node: cells for node, cells in sorted(found.items()) if cells.any()}

    @cached_property
    def _array_shape(self) -> tuple[int, int, int]:
        most = max((position + 1 for own in slot_positions(self.problem) for _, position in own), default=0)
        return len(self.problem.slot_groups), most, len(self.problem.resources)


def add_held_shares(slots: IntArray, holdings: Iterable[HeldShare]) -> None:
    """Adds to the free cells (node x division x cell x resource) what these hold."""
    for h in holdings:
        slots[h.node, h.slot_group, h.position] += np.array(h.share, dtype=np.int64) * h.pods
