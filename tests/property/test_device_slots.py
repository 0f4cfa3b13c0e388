"""Devices and NUMA cells: the solver against brute force on tiny worlds, and the room that lays pods onto cells against
trying everything."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pulp
from hypothesis import given
from hypothesis import strategies as st

from solver.mip.engine import solve_model
from solver.models.device_slots import slot_capacity_rows, slot_variables
from solver.options import Options
from solver.problem import Problem, SlotRequest
from solver.semantics.device_slots import assign_slots, deal_slots, exact_assignment, pods_per_node
from tests.builders.depth import settings
from tests.builders.strategies import problems_with_slots
from tests.property.test_solve import assert_best_set, assert_nothing_more_could_start


@settings(max_examples=60)
@given(problems_with_slots(running="whole gangs"))
def test_the_admitted_set_is_feasible_and_the_best_by_the_objectives(world: Problem) -> None:
    assert_best_set(world, costs=("spread",))


@settings(max_examples=50)
@given(problems_with_slots(running="anything"))
def test_whatever_runs_already_the_plan_is_valid_and_nothing_more_could_start(world: Problem) -> None:
    assert_nothing_more_could_start(world)


def _choices(held: tuple[int, ...], number: int) -> int:
    """The most pods with `number` different cells each, pod after pod."""
    best = 0
    for chosen in combinations(range(len(held)), number):
        if all(held[c] for c in chosen):
            best = max(best, 1 + _choices(tuple(h - (c in chosen) for c, h in enumerate(held)), number))
    return best


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(1, 3))
def test_the_number_of_pods_that_cells_hold_is_that_of_trying_everything(held: list[int], number: int) -> None:
    assert int(pods_per_node(np.array([held]), number)[0]) == _choices(tuple(held), number)


@settings(max_examples=120)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 2)),
        min_size=1,
        max_size=3,
        unique_by=lambda x: x[:2],
    ),
)
def test_pods_are_arranged_on_cells_exactly_when_that_is_possible(
    free: list[int], asked: list[tuple[int, int, int]]
) -> None:
    wanted: dict[tuple[SlotRequest, ...], int] = {
        (SlotRequest(0, number, (share,)),): pods for number, share, pods in asked
    }
    found = assign_slots(np.array([[[amount] for amount in free]]), wanted)
    each = [combinations(range(len(free)), number) for number, _, pods in asked for _ in range(pods)]
    sizes = [share for _, share, pods in asked for _ in range(pods)]
    possible = any(
        all(
            sum(size for size, cells in zip(sizes, choice, strict=True) if c in cells) <= amount
            for c, amount in enumerate(free)
        )
        for choice in product(*map(list, each))
    )
    assert (found is not None) == possible
    for portions, counts in (found or {}).items():
        dealt = deal_slots(counts[0], wanted[portions])
        assert all(len(set(cells)) == len(cells) == portions[0].number for cells in dealt)


@settings(max_examples=120)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=4),
    st.dictionaries(
        st.tuples(st.integers(1, 2), st.integers(0, 4), st.integers(0, 2)), st.integers(1, 4), min_size=1, max_size=4
    ),
)
def test_the_search_over_slots_finds_counts_exactly_when_the_model_does(
    free: list[tuple[int, int]], asked: dict[tuple[int, int, int], int]
) -> None:
    slots = np.array(free)
    pods = {SlotRequest(0, number, (a, b)): n for (number, a, b), n in asked.items()}
    found = exact_assignment(slots, pods)
    model = pulp.LpProblem("slots", pulp.LpMinimize)
    m = slot_variables(model, "m", slots, sorted(pods.items()))
    for row in slot_capacity_rows(slots, {a: ([], n) for a, n in pods.items()}, m, ()):
        model.addConstraint(row.constraint, row.name)
    model.setObjective(pulp.lpSum(m.values()))
    assert (found is not None) == (solve_model(model, Options()).status == "optimal")
    for a, counts in (found or {}).items():
        assert sum(counts) == a.number * pods[a]
        assert max(counts) <= pods[a]
    if found is not None:
        assert (sum(np.outer(counts, a.share) for a, counts in found.items()) <= slots).all()
