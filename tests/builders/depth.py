"""How many examples and seeds a run tries. Tests name the number of a deep run (`scripts/test --deep`); the hypothesis
profile says how many of a hundred are tried, as its max_examples.

Modules that take a second, or that need all examples to notice a mutant of the solver, use hypothesis' own settings."""

from __future__ import annotations

import hypothesis


def sample(number: int) -> int:
    """How many of so many this run tries: at least one, and always the same."""
    return -(-number * hypothesis.settings().max_examples // 100)


def is_deep() -> bool:
    return sample(100) == 100


def least(number: int) -> int:
    """How often this run must show what a deep run shows so often: a sample once, unless that is rare."""
    return number if is_deep() else min(1, number // 20)


def settings(max_examples: int, deadline: None = None) -> hypothesis.settings:
    """Hypothesis' settings with a sample of the examples. By its name and arguments they are written as hypothesis'
    own: a test's examples follow from its text."""
    return hypothesis.settings(max_examples=sample(max_examples), deadline=deadline)
