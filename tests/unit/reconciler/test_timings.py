"""The numbers that the fault schedules make small are there: others are passed over in older versions, and in this one
would leave a schedule to wait for minutes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import pytest

from reconciler.timings import TIMINGS
from tests.faults.schedule import SHORT_TIMES


@pytest.mark.parametrize(("place", "numbers"), SHORT_TIMES.items())
def test_each_number_that_a_schedule_makes_small_is_there(place: str, numbers: Mapping[str, object]) -> None:
    owner = import_module(place) if "." in place else getattr(TIMINGS, place)
    assert [name for name in numbers if not hasattr(owner, name)] == []
