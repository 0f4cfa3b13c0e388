"""What the cells of the nodes hold: a relaxation where nodes are counted together, exact at a single node. Letters as
in docs/model.md.

m[i,a,c]    pods of portion a at the single node i that take a share from its cell c        integer
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from solver.mip.rows import Row, scaled
from solver.models.sets import Sets
from solver.models.variables import Terms, Vars
from solver.problem import Portion
from solver.semantics.device_slots import Ints, counters, rows

FEW_SIZES = 12
"""Floor rows are written for every share of a resource up to this many; beyond it for some of them."""


def cells(s: Sets, x: Vars) -> Iterator[Row]:
    """What the cells of the nodes hold of the portions of pods: at a single node exact, with a variable for each cell
    (`solver.semantics.device_slots.rows`); elsewhere `_together`."""
    for i, users in sorted(users_of(s, x).items()):
        for division in sorted({portion.division for portion in users}):
            here = {portion: terms for portion, terms in sorted(users.items()) if portion.division == division}
            free = s.free.cells[list(s.places[i].nodes), division]
            if len(free) > 1:
                yield from _together(free, here, (i, division))
                continue
            most = [(portion, int(sum(v.upBound * c for v, c in terms))) for portion, terms in here.items()]
            m = counters(x.model, f"m_{i}", free[0], most)
            x.m.update({(i, portion, c): v for (portion, c), v in m.items()})
            for row in rows(free[0], {portion: (terms, 0) for portion, terms in here.items()}, m):
                yield Row("cells", (i, division), row)


def users_of(s: Sets, x: Vars) -> dict[int, dict[Portion, Terms]]:
    """Place -> portion -> pods that take it, over all shapes and roles."""
    users: dict[int, dict[Portion, Terms]] = {}
    for (k, t), pods in x.n.items():
        for portion in s.shapes[k].roles[t].ask.portions:
            for i, terms in pods.items():
                if terms:
                    users.setdefault(i, {}).setdefault(portion, []).extend(terms)
    return users


def _together(free: Ints, pods: Mapping[Portion, Terms], key: tuple[int, int]) -> Iterator[Row]:
    """Nested floors over all cells of the place, per resource; exact where sizes divide one another and each pod takes
    from one cell.

    sum_a number_a floor(share_a[r] / z) n_a  <=  sum_c floor(free_c[r] / z)         z among `thresholds`, and 1
    """
    for r in range(free.shape[-1]):
        asked = sorted({portion.share[r] for portion in pods if portion.share[r]})
        amounts = free[..., r].ravel()
        for z in thresholds(asked, int(amounts.max(initial=0))):
            large = [
                (portion.number * (portion.share[r] // z), n) for portion, n in pods.items() if portion.share[r] >= z
            ]
            yield Row(
                "cells.floor",
                (*key, r, z),
                scaled([(v, c * times) for times, n in large for v, c in n], int((amounts // z).sum())),
            )


def thresholds(asked: list[int], largest: int) -> list[int]:
    """Sizes whose floors are worth a row: all of a few; of many the least ones of which 1, 2, 3, 4 fit into the largest
    cell. And 1, the plain sum, unless the sizes divide one another."""
    if not asked:
        return []
    chain = all(b % a == 0 for a, b in itertools.pairwise(asked))
    if len(asked) <= FEW_SIZES:
        return asked if chain else [1, *(z for z in asked if z > 1)]
    least = (next((z for z in asked if z > largest // (fit + 1)), None) for fit in range(1, 5))
    return [1, *sorted({z for z in least if z is not None and z > 1})]


def laid_out(s: Sets, x: Vars, taken: Mapping[int, Mapping[Portion, tuple[int, ...]]]) -> dict[str, float]:
    """The values of m that say from which cells pods take their portions. taken: node -> portion -> cell -> pods."""
    values = {}
    for (i, portion, c), v in x.m.items():
        (node,) = s.places[i].nodes
        counts = taken.get(node, {}).get(portion)
        values[v.name] = float(counts[c]) if counts else 0.0
    return values
