"""Patterns of hypernodes: as Python's own matcher answers, in time that grows with the name."""

from __future__ import annotations

import random
import re

import pytest

from compiler.fields.regex import Regex

LETTERS = ("a", "b", "-", "0", "1", ".", "[a-c]", "[^a]", r"\d", r"\w", "[0-9b]", r"\b")
REPEATS = ("*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?")


def pattern(chance: random.Random, depth: int) -> str:
    kind = chance.random() if depth else 0.0
    if kind < 0.35:
        return chance.choice(LETTERS)
    if kind < 0.5:
        return pattern(chance, depth - 1) + pattern(chance, depth - 1)
    if kind < 0.65:
        return f"({pattern(chance, depth - 1)}|{pattern(chance, depth - 1)})"
    if kind < 0.9:
        return f"(?:{pattern(chance, depth - 1)}){chance.choice(REPEATS)}"
    return chance.choice(("^", "")) + pattern(chance, depth - 1) + chance.choice(("$", ""))


def test_random_patterns_match_what_python_matches() -> None:
    chance = random.Random(1)  # noqa: S311
    for _ in range(1500):
        written = pattern(chance, 3)
        for _ in range(5):
            name = "".join(chance.choice("ab-01") for _ in range(chance.randint(0, 8)))
            assert Regex(written).search(name) == bool(re.search(written, name)), (written, name)


@pytest.mark.parametrize("written", ["^(([a-z0-9-])+.)+x$", "^(a|aa)+$", "(a+)+$", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x"])
def test_no_pattern_takes_exponential_time(written: str) -> None:
    """Backtracking would not come to an end."""
    assert not Regex(written).search("a" * 62 + "!")


@pytest.mark.parametrize(
    "written",
    [
        "(",
        "a++",
        "(?>a)",
        "(?=a)",
        r"(a)\1",
        "(a{1000}){1000}",
        "(?i:a)b",
        "(?x)a",
        "[[:alpha:]]",
        "a{99999999999}",
        "(" * 5000,
    ],
)
def test_what_go_refuses_and_what_is_not_read_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Regex(written)


def test_flags_at_the_beginning_are_read() -> None:
    assert Regex("(?i)^GPU-(0|1)+$").search("gpu-01")
