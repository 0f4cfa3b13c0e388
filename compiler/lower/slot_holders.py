"""Which running pod surely has which cell of its node, where no annotation says so (docs/decisions/0008-cells.md).

Two things are sure. A pod that can be in no other cell is in that one. And where all pods that nobody knows of fill a
cell each, of cells that are all alike, it makes no difference which of them has which: what comes back when one goes is
one whole cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from solver.problem import Portion, Vector


@dataclass(frozen=True, slots=True)
class CellState:
    """whole: of the empty cell. left: what is left as far as is known; of the resources `told` the node itself says so,
    all pods taken off."""

    whole: Vector
    left: Vector
    told: frozenset[int]

    def may_hold(self, share: Vector) -> bool:
        """Whether a pod with this share may be one of those that run here."""
        return all(self._used(r) >= amount for r, amount in enumerate(share))

    def _used(self, r: int) -> int:
        """What pods that nobody knows of hold of a resource: no more than this."""
        return self.whole[r] - self.left[r] if r in self.told else self.left[r]

    def filled(self, share: Vector) -> bool:
        """Whether a pod with this share leaves no other one room here."""
        return any(0 < whole <= amount for whole, amount in zip(self.whole, share, strict=True))


def surely(portions: Sequence[Portion], cells: Mapping[int, CellState]) -> dict[int, tuple[int, ...]]:
    """Index into `portions`, those that nobody knows of in one division of a node -> their cells, for those of which it
    is sure."""
    found = {}
    for k, portion in enumerate(portions):
        possible = _possible(portion, cells)
        if len(possible) == portion.number:
            found[k] = tuple(possible)
    return found if len(found) == len(portions) else _one_each(portions, cells) or found


def _possible(portion: Portion, cells: Mapping[int, CellState]) -> list[int]:
    return [c for c, cell in sorted(cells.items()) if cell.may_hold(portion.share)]


def _one_each(portions: Sequence[Portion], cells: Mapping[int, CellState]) -> dict[int, tuple[int, ...]]:
    """The cells in turn, where each pod fills whatever it is in, and all cells that it may be in are alike; {}
    elsewhere."""
    choices: Collection[tuple[int, ...]] = {tuple(_possible(portion, cells)) for portion in portions}
    if len(choices) != 1:
        return {}
    (possible,) = choices
    number, full = sum(portion.number for portion in portions), any(cells[c].told for c in possible)
    if number > len(possible) or (full and number < len(possible)) or len({cells[c] for c in possible}) != 1:
        return {}
    if not all(cells[c].filled(portion.share) for portion in portions for c in possible):
        return {}
    line = iter(possible)
    return {k: tuple(next(line) for _ in range(portion.number)) for k, portion in enumerate(portions)}
