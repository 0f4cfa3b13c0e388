"""Patterns of hypernodes: simple ones match as Python's `re` does, and what Go's regexp refuses is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.specs.hypernode_tree import Regex
from tests.builders.beside import beside
from tests.builders.depth import settings

CASES = beside(__file__)

atoms = st.sampled_from(["a", "b", "-", "0", "1", ".", "[a-c]", "[^a]", r"\d", r"\w", "[0-9b]", r"\b"])
repeats = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])
names = st.text("ab-01", max_size=8)


def larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}{}".format, smaller, smaller),
        st.builds("({}|{})".format, smaller, smaller),
        st.builds("(?:{}){}".format, smaller, repeats),
    )


patterns = st.builds(
    "{}{}{}".format, st.sampled_from(["^", ""]), st.recursive(atoms, larger, max_leaves=8), st.sampled_from(["$", ""])
)


@settings(max_examples=500, deadline=None)
@given(patterns, st.lists(names, min_size=5, max_size=5))
def test_simple_patterns_match_as_in_python(written: str, tried: list[str]) -> None:
    pattern = Regex(written)
    assert [pattern.search(name) for name in tried] == [bool(re.search(written, name)) for name in tried]


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
        "a{99999999999}",
        "a{2,99999999999}",
        "(?x)a",
        "(?P<é>a)",
        "[[:foo:]]",
        r"a\C",
        r"a\Z",
        "(" * 5000,
        r"\pL{1000}",  # Go reads it; it is too large here
    ],
)
def test_what_go_refuses_and_what_is_too_large_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Regex(written)


@pytest.mark.parametrize(("written", "name"), CASES["go syntax is read"])
def test_go_syntax_is_read(written: str, name: str) -> None:
    assert Regex(written).search(name)
