"""What the stopwatch is put round is where it is said to be."""

from __future__ import annotations

import importlib

import pytest

from bench.measure import TIMED_FUNCTIONS


@pytest.mark.parametrize(("module", "path"), TIMED_FUNCTIONS.values(), ids=TIMED_FUNCTIONS.keys())
def test_every_phase_is_a_function_that_its_caller_finds_there(module: str, path: str) -> None:
    assert callable(getattr(importlib.import_module(module), path))
