"""Ways to say a restricted pod in cells against the kubelet's rule, by trying every set of cells."""

from __future__ import annotations

from functools import reduce
from itertools import combinations, product
from operator import and_

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.lower.slot_groups import NumaRequest, fits_empty_slots, restricted_request
from compiler.specs.eligibility import NumaLayout

Cells = list[dict[str, int]]


def preferred(r: str, amount: int, cells: Cells, free: Cells) -> list[frozenset[int]]:
    """Of one resource: the sets with as few cells as would do were all of them empty, that have it free."""
    sets = [frozenset(some) for n in range(1, len(cells) + 1) for some in combinations(range(len(cells)), n)]
    large = [some for some in sets if sum(cells[c][r] for c in some) >= amount]
    fewest = min((len(some) for some in large), default=0)
    return [some for some in large if len(some) == fewest and sum(free[c][r] for c in some) >= amount]


def admits(asked: dict[str, int], cells: Cells, free: Cells) -> bool:
    """Whether one preferred set of each resource can be chosen so that all have a cell in common."""
    choices = product(*(preferred(r, amount, cells, free) for r, amount in asked.items()))
    return any(reduce(and_, chosen) for chosen in choices)


def holds(way: NumaRequest, free: Cells) -> bool:
    return sum(all(cell[r] >= amount for r, amount in way.share) for cell in free) >= way.number


AMOUNT = st.integers(0, 4)
CELL = st.fixed_dictionaries({"cpu": AMOUNT, "gpu": AMOUNT})


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Cells, Cells]:
    """(cells, what is free of them); half of the time they are alike."""
    number = draw(st.integers(1, 4))
    cells = draw(st.one_of(CELL.map(lambda cell: [cell] * number), st.lists(CELL, min_size=number, max_size=number)))
    return cells, [
        {r: draw(st.integers(0, amount)) if draw(st.booleans()) else amount for r, amount in cell.items()}
        for cell in cells
    ]


@settings(max_examples=160)
@given(nodes(), st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(1, 12), min_size=1))
def test_pods_planned_in_numa_cells_are_admitted(node: tuple[Cells, Cells], asked: dict[str, int]) -> None:
    """One cell is asked for exactly where the kubelet asks for one; several whole cells are enough for it, and an empty
    node has them. A node that is too small, even empty, takes no pod by either rule."""
    cells, free = node
    layout: NumaLayout = tuple(tuple(sorted(cell.items())) for cell in cells)
    way = restricted_request(asked, layout)
    if not fits_empty_slots(asked, layout):
        assert not admits(asked, cells, free)
    elif way is not None:
        assert admits(asked, cells, free) or not holds(way, free)
        assert way.number == 1 or holds(way, cells)
        assert way.number > 1 or holds(way, free) or not admits(asked, cells, free)
