"""Reservations and backfill: when nodes are reserved for a gang, and which gangs may start before it."""

from __future__ import annotations

import pytest

from tests.builders.beside import beside
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])
