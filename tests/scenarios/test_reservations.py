"""Reservations and backfill: when nodes are reserved for a gang, and which gangs may start before it."""

from __future__ import annotations

import pytest

from solver.facts import ReservedNodes
from tests.builders.beside import beside
from tests.builders.plans import decision_in, fact_codes, verified_plan
from tests.builders.problems import busy_gang, gang, nodes, problem, role
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


@pytest.mark.parametrize(("duration", "starts"), [(None, False), (1200, False), (900, True), (60, True)])
def test_a_small_gang_takes_reserved_nodes_only_when_it_ends_in_time(duration: int | None, starts: bool) -> None:
    world = problem(
        nodes(2, gpu=8),
        busy_gang("a", 0, ends_in=900),
        gang("large", role(2, gpu=8)),
        gang("small", role(1, gpu=4), duration=duration),
    )
    made = verified_plan(world)
    assert (decision_in(world, made, "small").action == "start") is starts
    if not starts:
        assert fact_codes(world, made, "small") == ["GW114"]
        assert decision_in(world, made, "small").facts == (ReservedNodes(gang=1),)
