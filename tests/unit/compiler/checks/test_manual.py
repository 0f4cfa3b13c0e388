"""Every rule says what it means."""

from __future__ import annotations

import re

import pytest

from compiler.checks.check import all_rules
from compiler.diagnostics.diagnostic import declare_rule


def test_every_rule_is_documented_with_a_code_of_its_range() -> None:
    for code, found in all_rules().items():
        assert re.fullmatch(r"GP[1-5]\d\d", code)
        assert len(found.text) > 30, code
        assert not found.title.endswith(".")


def test_a_code_is_never_given_twice() -> None:
    all_rules()
    with pytest.raises(ValueError, match="GP101 already means"):
        declare_rule("GP101", "error", ("another meaning", "text"))
