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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the clone is packed anew", 1),
        ("# Mend it: whoever made it", 2),
        ('{"mended": []}', 0),
        ("the clone is packed again", 0),
        ("it fits beside the others; keep.place_beside_kept", 1),
    ],
)
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


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("Return the pods by node.", 0),
        ("return the pods by node.", 1),
        ("Return the pods by node", 1),
        ("node: the node of the pods.", 0),
        ("path -> blob.", 0),
        ("gangplan reads it.", 0),
        ("What the node holds.", 1),
    ],
)
def test_docstrings_begin_with_a_capital_and_end_with_a_full_stop(docstring: str, found: int) -> None:
    assert len(list(_docstring_problems("a.py", ast.parse(f'"""{docstring}"""')))) == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = 1  # what the server says", ["a.py:1"]),
        ('def f():\n    """Return it.\n\n    It goes on, as the plan told."""', ["a.py:4", "a.py:4"]),
        ('limit = 1\n"""The limit stands."""', ["a.py:2"]),
        ('said = {"told": "it says so"}\nprint("""\ntold\n""")', []),
        ('"""told: the start, which stands for one."""', []),
    ],
)
def test_docstrings_and_comments_have_banned_words_that_other_code_may_have(code: str, found: list[str]) -> None:
    problems = _banned_words("a.py", _documentation(code), BANNED_IN_DOCSTRINGS)
    assert [problem.split(": ")[0] for problem in problems] == found


def test_only_long_sentences_count() -> None:
    words = " ".join(["word"] * MAX_WORDS)
    assert _long_sentences(f"{words}. {words}.") == []
    assert len(_long_sentences(f"{words} more. Short.")) == 1
