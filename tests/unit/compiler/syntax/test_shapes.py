"""Texts of one shape say the same, filled in or parsed."""

from __future__ import annotations

import pytest

from compiler.syntax import one_pass
from compiler.syntax.parse import ParsedFile, parse_file
from compiler.syntax.shapes import shape_of

HEAD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: {}\n"
FILLED = [
    ("a: {}\n", ("text", "1", "0.5", "true", "null", "registry.example.com/x:1.0")),
    ('a: "{}"\n', ("text", "", "two words", "# none", "12:30", "1")),
    ("a: '{}'\n", ("text", "", 'a "word"', "1")),
    ("# {}\na: 1\n", ("one", "key: value", "Ärger")),
    ("a:\n- b: {}\n  c: [1, {{d: e}}]\n- f\n", ("x", "y", "7")),
    ("a: {{b: {}\n  , c: d}}\n", ("x", "y", "z")),
]
NOT_FILLED = [
    ("a: {}\n  continued\n", ("x", "y", "z")),
    ("a: {}\n  b: c\n", ("x", "y", "z")),
    ("a: |\n  b: {}\n", ("x", "y", "z")),
    ('a: "b\n  c: {}\n  "\n', ("x", "y", "z")),
    ('a: "b\n  # {}\n  "\n', ("x", "y", "z")),
    ("a: {}\n", ("010", "yes", ".inf", "2026-01-01")),
]


def both_ways(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[ParsedFile, ParsedFile]:
    by_shape = parse_file("f.yaml", text.encode())
    with monkeypatch.context() as patch:
        patch.setattr(one_pass, "shape_of", lambda text: (None, ()))
        return by_shape, parse_file("f.yaml", text.encode())


@pytest.mark.parametrize(("body", "values"), FILLED + NOT_FILLED)
def test_texts_of_one_shape_say_what_they_say_alone(
    monkeypatch: pytest.MonkeyPatch, body: str, values: tuple[str, ...]
) -> None:
    for number, value in enumerate(values * 2):
        for before in ("", "# a comment before a marker\n---\n"):
            text = before + HEAD.format(f"n{number}") + body.format(value)
            by_shape, alone = both_ways(monkeypatch, text)
            assert by_shape.diagnostics == alone.diagnostics
            for (found, failed), (other, other_failed) in zip(by_shape.documents, alone.documents, strict=True):
                assert (repr(found.data), failed) == (repr(other.data), other_failed)
                assert list(found.positions.items()) == list(other.positions.items())


@pytest.mark.parametrize(("body", "values"), FILLED)
def test_a_text_like_two_before_it_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch, body: str, values: tuple[str, ...]
) -> None:
    texts = [HEAD.format(f"like-{number}") + body.format(value) for number, value in enumerate(values)]
    assert len({shape_of(text)[0] for text in texts}) == 1
    for text in texts[:2]:
        parse_file("f.yaml", text.encode())
    monkeypatch.delattr(one_pass, "CParser")
    for text in texts[2:]:
        assert parse_file("f.yaml", text.encode()).documents[0][0].text == text


@pytest.mark.parametrize("value", ["text", "7", "two words"])
def test_what_is_filled_in_is_nobody_elses(value: str) -> None:
    texts = [HEAD.format("n") + f'own:\n- key: "{value}{number}"\n' for number in range(4)]
    found = [parse_file("f.yaml", text.encode()).documents[0][0].data for text in texts]
    found[-1]["own"].append("changed")
    assert [data["own"][0]["key"] for data in found] == [f"{value}{number}" for number in range(4)]
    assert [len(data["own"]) for data in found] == [1, 1, 1, 2]
