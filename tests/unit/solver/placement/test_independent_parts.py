"""Gangs that cannot meet are spread in parts: as well as together, and better where together they are too many for a
model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver import solve
from solver.admission.admit import Admission
from solver.mip.executors import LOCAL_EXECUTOR, process_executor
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import batch
from solver.placement.batch import independent_groups
from solver.placement.spread import PlacementResult
from solver.placement.spread import place_admitted as spread_together
from solver.plan import Plan
from solver.problem import Problem
from solver.semantics.placement_cost import COST_NAMES
from solver.semantics.placements import Placements
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.described import world_of
from tests.builders.models import sets_of
from tests.builders.problems import gang, nodes, problem, role

TREE = {"s0": (1, "a"), "s1": (1, "a"), "a": (2, None), "s2": (1, "b"), "s3": (1, "b"), "b": (2, None)}


CASES = beside(__file__)


@pytest.mark.parametrize("case", CASES)
def test_gangs_that_cannot_meet_are_parts(case: str) -> None:
    world = world_of(**{key: said for key, said in CASES[case].items() if key != "parts"})
    parts = independent_groups(sets_of(world), tuple(range(len(world.gangs))))
    assert [[world.gangs[j].name for j in part] for part in parts] == CASES[case]["parts"]


def halves(waiting: int = 0) -> Problem:
    """Two pools of two supernodes, two gangs for each that need more than one supernode, and perhaps gangs that find no
    room."""
    return problem(
        nodes(3, leaf="s0", node_class=0, gpu=8),
        nodes(3, leaf="s1", node_class=0, gpu=8),
        nodes(3, leaf="s2", node_class=1, gpu=8),
        nodes(3, leaf="s3", node_class=1, gpu=8),
        *(
            gang(f"g{kind}{n}", role(size, node_classes=[kind], gpu=8))
            for kind in (0, 1)
            for n, size in enumerate((4, 2))
        ),
        *(gang(f"w{n}", role(20 + n, node_classes=[n % 2], gpu=8)) for n in range(waiting)),
        hypernodes=TREE,
    )


def timeless(plan: Plan) -> Plan:
    return replace(plan, batches=tuple(replace(batch, seconds=0.0) for batch in plan.batches))


def test_costs_and_bounds_of_the_parts_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = halves()
    apart = solve(world)
    assert verify(world, apart) == []
    asked: list[int] = []

    def together(s: Sets, admission: Admission, floor: Placements, options: Options) -> PlacementResult:
        asked.append(len(admission.admitted))
        return spread_together(s, admission, floor, options)

    monkeypatch.setattr(batch, "spread_together", together)
    assert timeless(solve(world)) == timeless(apart)
    assert asked == [2, 2]
    monkeypatch.setattr(batch, "independent_groups", lambda _, gangs: [gangs])
    whole = solve(world)
    assert asked[2:] == [4]
    assert whole.batches[0].objectives == apart.batches[0].objectives
    assert {o.name: o.value for o in apart.batches[0].objectives if o.name in COST_NAMES} == {
        "spread": 2,
        "supernodes": 4,
        "nodes": 12,
    }


def test_parts_of_which_one_is_too_coarse_are_all_asked_again() -> None:
    fine = PlacementResult({0: ()}, ())
    assert batch.merge_groups(
        [fine, PlacementResult({}, (), (5,)), PlacementResult({}, (), (2,))], Options()
    ) == PlacementResult({}, (), (2, 5))


def test_the_plan_is_the_same_from_processes_as_from_here() -> None:
    world = halves(waiting=6)
    with process_executor(2, min_work=0) as mapper:
        there = timeless(solve(world, mapper=mapper))
        assert mapper.faults == []
    assert there == timeless(solve(world, mapper=LOCAL_EXECUTOR))
    assert sum(d.action == "wait" for d in there.decisions) == 6
    assert all(d.facts for d in there.decisions if d.action == "wait")
