"""Which running pod surely has which cell of its node, where no annotation says so (docs/decisions/0008-cells.md).

Two things are sure. A pod that can be in no other cell is in that one. And where all pods that nobody knows of fill a
cell each, of cells that are all alike, it makes no difference which of them has which: what comes back when one goes is
one whole cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from solver.problem import SlotRequest, Vector


@dataclass(frozen=True, slots=True)
class SlotState:
    """whole: of the empty cell. left: what is left as far as is known; of the resources `told` the node itself says so,
    all pods taken off."""

    capacity: Vector
    free: Vector
    reported: frozenset[int]

    def may_hold(self, share: Vector) -> bool:
        """Whether a pod with this share may be one of those that run here."""
        return all(self._max_used(r) >= amount for r, amount in enumerate(share))

    def _max_used(self, r: int) -> int:
        """What pods that nobody knows of hold of a resource: no more than this."""
        return self.capacity[r] - self.free[r] if r in self.reported else self.free[r]

    def is_filled_by(self, share: Vector) -> bool:
        """Whether a pod with this share leaves no other one room here."""
        return any(0 < whole <= amount for whole, amount in zip(self.capacity, share, strict=True))


def certain_slots(slot_requests: Sequence[SlotRequest], slots: Mapping[int, SlotState]) -> dict[int, tuple[int, ...]]:
    """Index into `portions`, those that nobody knows of in one division of a node -> their cells, for those of which it
    is sure."""
    found = {}
    for k, portion in enumerate(slot_requests):
        possible = _possible_slots(portion, slots)
        if len(possible) == portion.number:
            found[k] = tuple(possible)
    return found if len(found) == len(slot_requests) else _interchangeable_slots(slot_requests, slots) or found


def _possible_slots(slot_request: SlotRequest, slots: Mapping[int, SlotState]) -> list[int]:
    return [c for c, cell in sorted(slots.items()) if cell.may_hold(slot_request.share)]


def _interchangeable_slots(
    slot_requests: Sequence[SlotRequest], slots: Mapping[int, SlotState]
) -> dict[int, tuple[int, ...]]:
    """The cells in turn, where each pod fills whatever it is in, and all cells that it may be in are alike; {}
    elsewhere."""
    choices: Collection[tuple[int, ...]] = {tuple(_possible_slots(portion, slots)) for portion in slot_requests}
    if len(choices) != 1:
        return {}
    (possible,) = choices
    number, full = sum(portion.number for portion in slot_requests), any(slots[c].reported for c in possible)
    if number > len(possible) or (full and number < len(possible)) or len({slots[c] for c in possible}) != 1:
        return {}
    if not all(slots[c].is_filled_by(portion.share) for portion in slot_requests for c in possible):
        return {}
    line = iter(possible)
    return {k: tuple(next(line) for _ in range(portion.number)) for k, portion in enumerate(slot_requests)}
