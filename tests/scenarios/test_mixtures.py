"""Features that once got into each other's way; each world was found by mixing all of them at random."""

from __future__ import annotations

import pytest

from solver import solve
from solver.plan import Plan
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.problems import gang, nodes, problem, queue, role, subgroup
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def repairs(made: Plan, j: int) -> set[str]:
    return {repair.code for repair in made.decisions[j].repairs}


def test_no_repair_counts_on_a_node_that_closes_too_soon() -> None:
    """A larger capability alone would not let it start: all nodes close first."""
    small = queue("small", capability={"gpu": 1})
    closing = solve(problem(nodes(1, gpu=4, maintenance_in=2), small, gang("a", role(1, gpu=2), queue="small")))
    ready = solve(problem(nodes(1, gpu=4), small, gang("a", role(1, gpu=2), queue="small")))
    assert "GR101" in repairs(ready, 0)
    assert "GR101" not in repairs(closing, 0)


def test_no_nodes_are_to_be_added_where_another_queue_keeps_the_domain() -> None:
    tree: dict[str, tuple[int, str | None]] = {"s": (1, None)}
    wide = gang("wide", role(2, gpu=4), queue="mine")
    kept = solve(
        problem(
            nodes(1, leaf="s", gpu=4), queue("mine"), queue("theirs", dedicated_domains=("s",)), wide, hypernodes=tree
        )
    )
    free = solve(problem(nodes(1, leaf="s", gpu=4), queue("mine"), queue("theirs"), wide, hypernodes=tree))
    assert "GR104" in repairs(free, 0)
    assert "GR104" not in repairs(kept, 0)


def test_fewer_pods_are_fewer_than_what_is_written() -> None:
    """Whole subgroups make it four pods, yet its minimum says one: three would be no fewer."""
    quads = gang("g", role(4, minimum=0, gpu=1), minimum=1, queue="q", subgroups=(subgroup(4, tier=4),))
    world = problem(nodes(1, gpu=8), queue("q", capability={"gpu": 4}, used={"gpu": 1}), quads)
    made = solve(world)
    assert verify(world, made) == []
    assert not [
        change for repair in made.decisions[0].repairs for change in (repair, *repair.also) if change.code == "GR105"
    ]
