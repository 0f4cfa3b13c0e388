"""Small worlds in which the solver once claimed what was not so; each was found by a random search against brute
force."""

from __future__ import annotations

import pytest

from tests.builders.beside import beside
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])
