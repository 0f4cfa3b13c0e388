"""Which known word a misspelt one stands for."""

from __future__ import annotations

import pytest

from compiler.diagnostics.diagnostic import did_you_mean

NODES = [f"cpu-{number:02}" for number in range(40)]


@pytest.mark.parametrize("word", ["cpu-0", "cpu-0x", "CPU-0", "cpu-000"])
def test_of_equally_similar_words_the_one_of_fewest_edits_and_first_in_order(word: str) -> None:
    assert did_you_mean(word, NODES) == "cpu-00"


def test_a_more_similar_word_comes_first() -> None:
    assert did_you_mean("cpu-31x", NODES) == "cpu-31"
    assert did_you_mean("gpu", NODES) == ""
