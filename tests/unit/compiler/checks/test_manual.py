"""docs/diagnostics.md says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.checks.catalogue import all_rules, diagnostics_page
from compiler.diagnostics.diagnostic import declare_rule

PAGE = Path(__file__).parents[4] / "docs" / "diagnostics.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == diagnostics_page(), (
        "run python -m compiler.checks.catalogue > docs/diagnostics.md"
    )


def test_every_rule_is_documented_with_a_code_of_its_range() -> None:
    for code, found in all_rules().items():
        assert re.fullmatch(r"GP[1-5]\d\d", code)
        assert len(found.text) > 30, code
        assert not found.title.endswith(".")


def test_a_code_is_never_given_twice() -> None:
    all_rules()
    with pytest.raises(ValueError, match="GP101 already means"):
        declare_rule("GP101", "error", "another meaning", "text")
