"""The known device slots of running pods, and their shares that evictions return (model.md, Evictions).

Of the pods of one role on one node, u_c hold a share of slot c. The plan does not choose which pods go; while n stay,

    held_c(n) = min(u_c, n)

shares of c stay held at most. What pods hold unknown to the problem is off `DeviceSlot.free` and never returns.
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
    """Of the pods of one role on one node, `pods` hold `share` of one device slot: the one at `position` among the
    node's slots of this slot group."""

    role: int
    node: int
    slot_group: int
    position: int
    share: Vector
    pods: int


@dataclass(frozen=True)
class SlotHoldings:
    """The device slots that the running pods of each gang hold."""

    problem: Problem

    @cached_property
    def _by_gang(self) -> tuple[tuple[HeldShare, ...], ...]:
        if not any(gang.slot_holds for gang in self.problem.gangs):
            return ((),) * len(self.problem.gangs)
        positions, found = slot_positions(self.problem), []
        for gang in self.problem.gangs:
            own = []
            for hold in gang.slot_holds:
                group, position = positions[hold.node][hold.slot]
                requests = gang.roles[hold.role].slot_requests
                (share,) = (request.share for request in requests if request.slot_group == group)
                own.append(HeldShare(hold.role, hold.node, group, position, share, hold.pods))
            found.append(tuple(own))
        return tuple(found)

    def shares_held(self, v: int, running: Iterable[Placement]) -> tuple[HeldShare, ...]:
        """held_c(n) of gang v while these pods run, without slots of which nothing is held."""
        left = {(p.role, p.node): p.pods for p in running}
        every = (replace(h, pods=min(h.pods, left.get((h.role, h.node), 0))) for h in self._by_gang[v])
        return tuple(h for h in every if h.pods)

    def returned_amounts(
        self, v: int, before: Iterable[Placement], after: Iterable[Placement]
    ) -> Mapping[int, IntArray]:
        """Return node -> slot group x slot x resource: the amounts that gang v holds with the pods `before`, less those
        with the pods `after`."""
        found: dict[int, IntArray] = {}
        for pods, times in ((before, 1), (after, -1)):
            for h in self.shares_held(v, pods):
                if h.node not in found:
                    found[h.node] = np.zeros(self._array_shape, dtype=np.int64)
                found[h.node][h.slot_group, h.position] += np.array(h.share, dtype=np.int64) * (times * h.pods)
        return {node: amounts for node, amounts in sorted(found.items()) if amounts.any()}

    @cached_property
    def _array_shape(self) -> tuple[int, int, int]:
        most = max((position + 1 for own in slot_positions(self.problem) for _, position in own), default=0)
        return len(self.problem.slot_groups), most, len(self.problem.resources)


def add_held_shares(slots: IntArray, holdings: Iterable[HeldShare]) -> None:
    """Add held shares to free amounts (node x slot group x slot x resource)."""
    for h in holdings:
        slots[h.node, h.slot_group, h.position] += np.array(h.share, dtype=np.int64) * h.pods
