"""The table of attacks on the reconciler (docs/attacks.md) names tests that are there, at least one for each case."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_attack_has_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "attacks.md").read_text()
    rows = re.findall(r"^\| (S\d+b?) \|.*\|(.*)\|$", page, re.MULTILINE)
    assert [case for case, _ in rows] == sorted(
        {f"S{number}" for number in range(1, 34)} | {"S6b"}, key=lambda case: (int(case[1:].rstrip("b")), case)
    )
    assert all(".py::test_" in tests for _, tests in rows)
    for file, function in re.findall(r"`([\w/]+\.py)::(\w+)`", page):
        assert f"\ndef {function}(" in (ROOT / "tests" / file).read_text(), f"{file}::{function}"
