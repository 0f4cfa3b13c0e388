"""Finds which running pod certainly holds which slot of its node, if no annotation names it. Decision:
docs/develop/decisions/0008-cells.md.

Two cases are certain. A pod that fits only one slot holds that one. And where each unlocated pod fills a slot, and
those slots are identical, any assignment is as good: the end of a pod returns one whole slot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from solver.problem import SlotRequest, Vector


@dataclass(frozen=True, slots=True)
class SlotState:
    """One slot with all located pods deducted. reported: resources whose free amount the node itself reports, with
    every pod deducted."""

    capacity: Vector
    free: Vector
    reported: frozenset[int]

    def may_hold(self, share: Vector) -> bool:
        """Return whether an unlocated pod with this share may be running here."""
        return all(self._max_used(r) >= amount for r, amount in enumerate(share))

    def _max_used(self, r: int) -> int:
        """Return the most that unlocated pods hold of a resource."""
        return self.capacity[r] - self.free[r] if r in self.reported else self.free[r]

    def is_filled_by(self, share: Vector) -> bool:
        """Return whether a pod with this share leaves no room for another one."""
        return any(0 < whole <= amount for whole, amount in zip(self.capacity, share, strict=True))


def certain_slots(slot_requests: Sequence[SlotRequest], slots: Mapping[int, SlotState]) -> dict[int, tuple[int, ...]]:
    """Return index into `slot_requests` -> its slots, for certain ones.

    slot_requests: of the unlocated pods, in one slot group of a node.
    """
    found = {}
    for k, request in enumerate(slot_requests):
        possible = _possible_slots(request, slots)
        if len(possible) == request.number:
            found[k] = tuple(possible)
    return found if len(found) == len(slot_requests) else _interchangeable_slots(slot_requests, slots) or found


def _possible_slots(slot_request: SlotRequest, slots: Mapping[int, SlotState]) -> list[int]:
    return [c for c, slot in sorted(slots.items()) if slot.may_hold(slot_request.share)]


def _interchangeable_slots(
    slot_requests: Sequence[SlotRequest], slots: Mapping[int, SlotState]
) -> dict[int, tuple[int, ...]]:
    """Return the possible slots in turn, if they are identical and each pod fills every slot that it is in; else
    none."""
    choices: Collection[tuple[int, ...]] = {tuple(_possible_slots(request, slots)) for request in slot_requests}
    if len(choices) != 1:
        return {}
    (possible,) = choices
    number, is_reported = sum(request.number for request in slot_requests), any(slots[c].reported for c in possible)
    if number > len(possible) or (is_reported and number < len(possible)) or len({slots[c] for c in possible}) != 1:
        return {}
    if not all(slots[c].is_filled_by(request.share) for request in slot_requests for c in possible):
        return {}
    remaining = iter(possible)
    return {k: tuple(next(remaining) for _ in range(request.number)) for k, request in enumerate(slot_requests)}
