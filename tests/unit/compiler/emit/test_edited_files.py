"""Edits of fields in the text of a file: what they leave as it is, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit.edited_files import FileEditor, edited_files
from compiler.syntax.documents import FieldPath
from compiler.syntax.edits import FieldEdit, Removal
from compiler.syntax.parse import parse_file

HEAD = "apiVersion: v1\nkind: X\nmetadata: {name: x}\n"
FILE = "jobs/a.yaml"


def edited(text: str, path: FieldPath, value: Any, is_key: bool = False, at: int = 0) -> str | None:
    """The text with the edit of its document number `at`."""
    document, _ = parse_file(FILE, text.encode()).documents[at]
    found = edited_files({FILE: text.encode()}, [FieldEdit(document, path, value, is_key)])
    return None if found is None else found[FILE].decode()


Row = tuple[str, FieldPath, Any, str | None]
"""The text below the head, path, value, and the text afterwards; None for an edit that is refused."""
ROWS: dict[str, Row] = {
    "number": ("spec: {a: 1, b: 2} # c\n", ("spec", "a"), 3, "spec: {a: 3, b: 2} # c\n"),
    "quotes": ("spec:\n  a: '1'\n", ("spec", "a"), "it's", "spec:\n  a: 'it''s'\n"),
    "double": ('spec:\n  a: "1" # c\n', ("spec", "a"), 'x"y', 'spec:\n  a: "x\\"y" # c\n'),
    "unit": ("spec: {a: 1}\n", ("spec", "a"), "64Gi", "spec: {a: 64Gi}\n"),
    "text like a number": ("spec: {a: b}\n", ("spec", "a"), "1e3", "spec: {a: '1e3'}\n"),
    "several lines": ("spec:\n  a: one\n    two\n  b: 1\n", ("spec", "a"), "x", "spec:\n  a: x\n  b: 1\n"),
    "no value": ("spec:\n  a:\n  b: 1\n", ("spec", "a"), 1, "spec:\n  a: 1\n  b: 1\n"),
    "no end": ("spec: {}\nstatus: {a: 1}", ("status", "a"), 2, "spec: {}\nstatus: {a: 2}"),
    "anchor": ("spec: {a: &x 1, b: 2}\n", ("spec", "a"), 3, "spec: {a: &x 3, b: 2}\n"),
    "aliased": ("spec: {a: &x 1, b: *x}\n", ("spec", "a"), 3, None),
    "alias": ("spec: {a: &x 1, b: *x}\n", ("spec", "b"), 3, None),
    "merged": ("spec:\n  a: &x {n: 1}\n  b:\n    <<: *x\n    m: 1\n", ("spec", "b", "n"), 2, None),
    "literal": ("spec:\n  a: |\n    x\n", ("spec", "a"), "y", None),
    "block list": ("spec:\n  a:\n  - 1\n", ("spec", "a"), [2], None),
    "flow list": ("spec: {a: [1, 2]}\n", ("spec", "a"), [2], "spec: {a: [2]}\n"),
    "item": ("spec:\n- {a: 1}\n- a: 2\n", ("spec", 1, "a"), 3, "spec:\n- {a: 1}\n- a: 3\n"),
    "new key": ("spec:\n  a: 1 # c\n  b: 2\n", ("spec", "c"), 3, "spec:\n  a: 1 # c\n  c: 3\n  b: 2\n"),
    "new key of an item": ("spec:\n- a: |\n    x\n", ("spec", 0, "b"), 1, "spec:\n- b: 1\n  a: |\n    x\n"),
    "new key at the end": ("spec:\n  a: 1", ("spec", "b", "c"), 2, "spec:\n  a: 1\n  b:\n    c: 2"),
    "new key in flow": ("spec: {a: 1}\n", ("spec", "b"), {"c": [1]}, "spec: {b: {c: [1]}, a: 1}\n"),
    "new key in nothing": ("spec: {}\n", ("spec", "b", "c"), "d", "spec: {b: {c: d}}\n"),
    "new item": (
        "spec:\n  - a: 1 # c\n  # d\nz: 1\n",
        ("spec", 1),
        {"b": 2},
        "spec:\n  - a: 1 # c\n  - b: 2\n  # d\nz: 1\n",
    ),
    "new flow item": ("spec: [a, b]\n", ("spec", 2), "c", "spec: [a, b, c]\n"),
    "first flow item": ("spec: []\n", ("spec", 0), {"a": 1}, "spec: [{a: 1}]\n"),
    "no such item": ("spec: [a]\n", ("spec", 3), "c", None),
    "removal": ("spec:\n  a: 1 # c\n  b: 2\n", ("spec", "a"), Removal.FIELD, "spec:\n  b: 2\n"),
    "removal in flow": ("spec: {a: 1, b: 2}\n", ("spec", "b"), Removal.FIELD, "spec: {a: 1}\n"),
    "removal of all": ("spec:\n  a: {b: 1}\nz: 1\n", ("spec", "a", "b"), Removal.FIELD, "z: 1\n"),
}


@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", ROWS)
def test_an_edit_changes_its_field_and_nothing_else(name: str, eol: str) -> None:
    text, path, value, after = ROWS[name]
    found = edited((HEAD + text).replace("\n", eol), path, value)
    assert found == (None if after is None else (HEAD + after).replace("\n", eol))


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_the_other_documents_of_a_file_and_its_mark_stay(mark: str) -> None:
    parts = ["# first\n", f"{HEAD}spec: {{a: 1}}\n", "--- # two\n", f"{HEAD}spec: {{a: 1}}\n...\n"]
    found = edited(mark + "".join(parts), ("spec", "a"), 2, at=1)
    assert found == mark + "".join(parts[:3]) + parts[3].replace("a: 1", "a: 2")


def test_an_item_of_a_list_is_edited_in_the_list() -> None:
    item = "- apiVersion: v1\n  kind: X\n  metadata: {name: NAME}\n  spec:\n    a: 1\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n{item.replace('NAME', 'one')}{item.replace('NAME', 'two')}"
    assert edited(text, ("spec", "a"), 2, at=1) == text[: -len("1\n")] + "2\n"
    assert edited(text, ("spec", "b"), 2, at=1) == f"{text}    b: 2\n"


def test_a_key_is_renamed_in_its_quotes() -> None:
    assert edited(f"{HEAD}spec: {{'b': 1, \"c\": 2}}\n", ("spec", "c"), "d", is_key=True) == (
        f"{HEAD}spec: {{'b': 1, \"d\": 2}}\n"
    )
    assert edited(f"{HEAD}spec: {{b: 1, c: 2}}\n", ("spec", "c"), "b", is_key=True) is None


def test_a_generated_name_may_change_with_the_text() -> None:
    text = HEAD.replace("name: x", "generateName: x-") + "spec: {a: 1}\n"
    assert edited(text, ("spec", "a"), 2) == text.replace("a: 1", "a: 2")


def test_a_text_edit_counts_lines_and_columns_from_one() -> None:
    text = f"# é\n---\n{HEAD}spec: {{é: 1, a: 10}}\n"
    document, _ = parse_file(FILE, text.encode()).documents[0]
    made = FileEditor(FILE, text.encode()).edited([FieldEdit(document, ("spec", "a"), 2)])
    assert made is not None
    (found,) = made[1]
    assert (found.line, found.column, found.end_line, found.end_column, found.text) == (6, 17, 6, 19, "2")
