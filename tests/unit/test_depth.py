"""What part of its examples and seeds a run tries."""

from __future__ import annotations

import hypothesis
import pytest

from tests.builders.depth import least, sample, settings


@pytest.mark.parametrize(("profile", "share"), [("sampled", 0.4), ("deep", 1), ("random", 1)])
def test_a_profile_tries_its_share_and_asks_for_as_much_as_that_shows(profile: str, share: float) -> None:
    before = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.load_profile(profile)
    try:
        assert settings(max_examples=50).max_examples == sample(50) == 50 * share
        assert sample(1) == 1
        assert [least(number) for number in (9, 30)] == ([9, 30] if share == 1 else [0, 1])
    finally:
        hypothesis.settings.load_profile(before)
