"""Features that once got into each other's way; each world was found by mixing all of them at random."""

from __future__ import annotations

import pytest

from solver import solve
from solver.verify import verify
from tests.builders.beside import beside
from tests.builders.problems import gang, nodes, problem, queue, role, subgroup
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


def test_fewer_pods_are_fewer_than_what_is_written() -> None:
    """Whole subgroups make it four pods, yet its minimum says one: three would be no fewer."""
    quads = gang("g", role(4, minimum=0, gpu=1), minimum=1, queue="q", subgroups=(subgroup(4, tier=4),))
    world = problem(nodes(1, gpu=8), queue("q", capability={"gpu": 4}, used={"gpu": 1}), quads)
    made = solve(world)
    assert verify(world, made) == []
    assert not [
        change for repair in made.decisions[0].repairs for change in (repair, *repair.also) if change.code == "GR105"
    ]
