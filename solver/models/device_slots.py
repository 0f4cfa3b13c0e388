"""What the cells of the nodes hold: a relaxation where nodes are counted together, exact at a single node. Letters as
in docs/model.md.

m[i,a,c]    pods of portion a at the single node i that take a share from its cell c        integer
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from solver.mip.rows import Row, normalized_at_most
from solver.models.sets import Sets
from solver.models.variables import Terms, Variables
from solver.problem import SlotRequest
from solver.semantics.device_slots import IntArray, slot_capacity_rows, slot_variables

MAX_FLOOR_SIZES = 12
"""Floor rows are written for every share of a resource up to this many; beyond it for some of them."""


def device_slots(s: Sets, x: Variables) -> Iterator[Row]:
    """What the cells of the nodes hold of the portions of pods: at a single node exact, with a variable for each cell
    (`solver.semantics.device_slots.rows`); elsewhere `_together`."""
    for i, users in sorted(slot_request_terms(s, x).items()):
        for division in sorted({portion.slot_group for portion in users}):
            here = {portion: terms for portion, terms in sorted(users.items()) if portion.slot_group == division}
            free = s.free.slots[list(s.buckets[i].nodes), division]
            if len(free) > 1:
                yield from _aggregate_rows(free, here, (i, division))
                continue
            most = [(portion, int(sum(v.upBound * c for v, c in terms))) for portion, terms in here.items()]
            m = slot_variables(x.model, f"m_{i}", free[0], most)
            x.m.update({(i, portion, c): v for (portion, c), v in m.items()})
            for row in slot_capacity_rows(free[0], {portion: (terms, 0) for portion, terms in here.items()}, m):
                yield Row("cells", (i, division), row)


def slot_request_terms(s: Sets, x: Variables) -> dict[int, dict[SlotRequest, Terms]]:
    """Place -> portion -> pods that take it, over all shapes and roles."""
    users: dict[int, dict[SlotRequest, Terms]] = {}
    for (k, t), pods in x.n.items():
        for portion in s.gang_classes[k].roles[t].pod_request.slot_requests:
            for i, terms in pods.items():
                if terms:
                    users.setdefault(i, {}).setdefault(portion, []).extend(terms)
    return users


def _aggregate_rows(free: IntArray, pods: Mapping[SlotRequest, Terms], key: tuple[int, int]) -> Iterator[Row]:
    """Nested floors over all cells of the place, per resource; exact where sizes divide one another and each pod takes
    from one cell.

    sum_a number_a floor(share_a[r] / z) n_a  <=  sum_c floor(free_c[r] / z)         z among `thresholds`, and 1
    """
    for r in range(free.shape[-1]):
        asked = sorted({portion.share[r] for portion in pods if portion.share[r]})
        amounts = free[..., r].ravel()
        for z in floor_sizes(asked, int(amounts.max(initial=0))):
            large = [
                (portion.number * (portion.share[r] // z), n) for portion, n in pods.items() if portion.share[r] >= z
            ]
            yield Row(
                "cells.floor",
                (*key, r, z),
                normalized_at_most([(v, c * times) for times, n in large for v, c in n], int((amounts // z).sum())),
            )


def floor_sizes(requested: list[int], largest: int) -> list[int]:
    """Sizes whose floors are worth a row: all of a few; of many the least ones of which 1, 2, 3, 4 fit into the largest
    cell. And 1, the plain sum, unless the sizes divide one another."""
    if not requested:
        return []
    chain = all(b % a == 0 for a, b in itertools.pairwise(requested))
    if len(requested) <= MAX_FLOOR_SIZES:
        return requested if chain else [1, *(z for z in requested if z > 1)]
    least = (next((z for z in requested if z > largest // (fit + 1)), None) for fit in range(1, 5))
    return [1, *sorted({z for z in least if z is not None and z > 1})]


def slot_values(
    s: Sets, x: Variables, pods_per_slot: Mapping[int, Mapping[SlotRequest, tuple[int, ...]]]
) -> dict[str, float]:
    """The values of m that say from which cells pods take their portions. taken: node -> portion -> cell -> pods."""
    values = {}
    for (i, portion, c), v in x.m.items():
        (node,) = s.buckets[i].nodes
        counts = pods_per_slot.get(node, {}).get(portion)
        values[v.name] = float(counts[c]) if counts else 0.0
    return values
