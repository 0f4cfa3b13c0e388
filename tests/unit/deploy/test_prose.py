"""The check of words finds what it is for, and nothing in a good text."""

from __future__ import annotations

import ast

import pytest

from deploy.prose import (
    BANNED_IN_DOCSTRINGS,
    BANNED_IN_TEXTS,
    MAX_WORDS,
    _banned_words,
    _docstring_problems,
    _documentation,
    _long_sentences,
)
from tests.builders.beside import beside

CASES = beside(__file__)


@pytest.mark.parametrize(("text", "found"), CASES["banned words are named with what to write"])
def test_banned_words_are_named_with_what_to_write(text: str, found: int) -> None:
    assert len(list(_banned_words("a.py", text))) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("spec.x is no list, and stands beside another", 3),
        ("there is no queue a, and starts are no later", 0),
        ("i stands for a bucket", 0),
    ],
)
def test_texts_of_users_have_further_banned_words(text: str, found: int) -> None:
    assert len(list(_banned_words("a.md", text, BANNED_IN_TEXTS))) == found


@pytest.mark.parametrize(("docstring", "found"), CASES["docstrings begin with a capital and end with a full stop"])
def test_docstrings_begin_with_a_capital_and_end_with_a_full_stop(docstring: str, found: int) -> None:
    assert len(list(_docstring_problems("a.py", ast.parse(f'"""{docstring}"""')))) == found


@pytest.mark.parametrize(("code", "found"), CASES["docstrings and comments have banned words that other code may have"])
def test_docstrings_and_comments_have_banned_words_that_other_code_may_have(code: str, found: list[str]) -> None:
    problems = _banned_words("a.py", _documentation(code), BANNED_IN_DOCSTRINGS)
    assert [problem.split(": ")[0] for problem in problems] == found


def test_only_long_sentences_count() -> None:
    words = " ".join(["word"] * MAX_WORDS)
    assert _long_sentences(f"{words}. {words}.") == []
    assert len(_long_sentences(f"{words} more. Short.")) == 1
