"""Rows of rules: nothing in them is misspelt, and one reads no more into an object than is there."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from compiler.validation.judge import Judge
from compiler.validation.rows import breaches, judge_rows

TEXT = (files("compiler.validation") / "rules.toml").read_text("utf-8")
PODS = (files("compiler.validation") / "pods.toml").read_text("utf-8")
TABLES: list[dict[str, Any]] = [table for text in (TEXT, PODS) for table in tomllib.loads(text)["rules"]]
KINDS = sorted({kind for table in TABLES for kind in table["kinds"]})
ROWS = ("excluded", "missing", "refused", "references")
OF_ROWS = "among at from help if is message nearly of repeated severity to what write"


def test_the_head_names_all_that_tables_and_rows_hold() -> None:
    head = TEXT.partition("\n\n")[0]
    known = {word for names in re.findall(r"^#   (\w+(?:, \w+)*)  ", head, re.MULTILINE) for word in names.split(", ")}
    assert {key for table in TABLES for key in table} - {"kinds", "if"} == known
    rows = [row for table in TABLES for name in ROWS for row in table.get(name, ())]
    assert {key for row in rows for key in row} == set(OF_ROWS.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", [None, 1, "a", [], [None], {"template": [[]]}, {"template": {"cliques": ["a"]}}])
def test_nothing_is_assumed_of_types(kind: str, odd: Any) -> None:
    for data in ({"spec": odd}, {"metadata": odd}, {"spec": {"template": odd, "templates": odd, "predictor": odd}}):
        judge_rows(Judge(), kind, data)
        list(breaches(kind, data))
