from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from compiler.emit.block import scalar_text, to_yaml

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc-/. ", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=3))
def test_what_is_written_is_what_is_read(data: dict[str, Any]) -> None:
    assert YAML(typ="safe").load(to_yaml(data)) == data


WORDS = [
    "yes", "No", "on", "null", "~", "1e3", "0o7", "12:30", "0x1F", "", " a", "a ", "- a", "a: b", "#a", "@a",
    "2026-01-01",
]  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_text_that_some_yaml_reads_as_something_else_is_quoted(word: str) -> None:
    assert scalar_text(word)[0] in "'\""


def test_long_text_is_a_literal_block_and_lists_stand_below_their_key() -> None:
    assert to_yaml({"data": {"a.conf": "x: 1\ny:\n- 2\n"}, "list": [{"name": "a", "of": [1]}, "b"], "none": {}}) == (
        "data:\n  a.conf: |\n    x: 1\n    y:\n    - 2\nlist:\n- name: a\n  of:\n  - 1\n- b\nnone: {}\n"
    )
