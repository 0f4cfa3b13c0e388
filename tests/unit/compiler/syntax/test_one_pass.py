"""Texts read in one pass are read as by a tree of nodes, and what is unusual is left to that."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.worlds import generate_repository
from compiler.syntax import yaml_reader
from compiler.syntax.one_pass import read_in_one_pass
from compiler.syntax.yaml_reader import YamlReader

ROOT = Path(__file__).parents[4]
TEXTS = [
    *(path.read_text() for path in sorted(ROOT.glob("jobs/**/*.yaml"))),
    *(path.read_text() for path in sorted(ROOT.glob("tests/golden/*/repo/**/*.yaml"))[::4]),
    *(content.decode() for content in generate_repository(nodes=8, gangs=4, load=0.5).files.values()),
    "a: [1, 0x10, 1.5e3, ~, true, yes, 010, .nan, 2026-01-01, '<<', \"n\"]\nb: {c: , d: |\n  text\n, e: ''}\n",
    "- &x {a: 1}\n- *x\n- <<: *x\n  b: !!str 2\n- ? [c]\n  : d\n",
    "a: 1\na: 2\n1: b\n~: c\n<<: {d: 1}\n",
]
MARKS = ":-#&*!<>'\"[]{}|,%@~?\n \t0ya\x07é"


def read(text: str) -> tuple[Any, ...]:
    """All that a reader comes to."""
    reader = YamlReader("f.yaml", 3, text, [], 5)
    data = list(reader.load_data())
    return repr(data), list(reader.positions.items()), reader.diagnostics, reader.error_positions


def edited(chance: Random, text: str) -> str:
    """A part of the text, a few characters of it changed."""
    start = chance.randrange(len(text))
    text = text[start : start + chance.randint(1, 300)] if chance.random() < 0.5 else text
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(MARKS) + text[at + chance.randint(0, 1) :]
    return text


def test_both_ways_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(1)  # noqa: S311  # the same draws each time
    texts = [*TEXTS, *(edited(chance, chance.choice(TEXTS)) for _ in range(4000))]
    found = [read(text) for text in texts]
    monkeypatch.setattr(yaml_reader, "read_in_one_pass", lambda *_: None)
    for text, expected in zip(texts, found, strict=True):
        assert read(text) == expected, text
    in_one_pass = [text for text in texts if read_in_one_pass(text, 1, 1) is not None]
    assert 1000 < len(in_one_pass) < len(texts) - 1000


@pytest.mark.parametrize(
    "text",
    [
        "text",
        "",
        "&a {b: 1}",
        "{a: &b 1}",
        "{a: !!str 1}",
        "{a: *b}",
        "{<<: {a: 1}}",
        "{a: 1, a: 2}",
        "{1: a}",
        "{? [a] : b}",
        "{a: 010}",
        "{a: .inf}",
        "{a: 1} {b: 2}",
        "--- {a: 1}\n--- {b: 2}",
        "[" * 65 + "]" * 65,
        "{a: [}",
    ],
)
def test_what_is_unusual_is_left_to_the_whole_reader(text: str) -> None:
    assert read_in_one_pass(text, 1, 1) is None


def test_the_deepest_text_is_read_and_positions_count_from_its_first_character() -> None:
    assert read_in_one_pass("[" * 64 + "]" * 64, 1, 1) is not None
    assert read_in_one_pass("a:\n  - '<<': x\n", 7, 3) == (
        {"a": [{"<<": "x"}]},
        {(): (7, 3), ("a",): (7, 3), ("a", 0): (8, 7), ("a", 0, "<<"): (8, 7)},
    )
