"""The catalogue of all codes, and the manual page made of it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from compiler.checks.check import all_checks
from compiler.diagnostics.diagnostic import RULES, Rule
from compiler.kinds.registry import kinds

RULE_MODULES = (
    "compiler.emit.manifest",
    "compiler.pipeline",
    "compiler.emit.static",
    "compiler.explain.caveats",
    "compiler.reading",
)
"""Modules beside the checks and the kinds whose import declares rules."""

_CODE_RANGES = (
    ("GP1", "Reading files"),
    ("GP2", "Shape and types of one document"),
    ("GP3", "Rules inside and across objects"),
    ("GP4", "Scheduler configuration"),
    ("GP5", "Binding and placement"),
)


def all_rules() -> Mapping[str, Rule]:
    """Every rule, sorted by code."""
    all_checks()
    tuple(kinds().values())  # imports each
    for module in RULE_MODULES:
        importlib.import_module(module)
    return dict(sorted(RULES.items()))


def diagnostics_page() -> str:
    """The text of docs/diagnostics.md."""
    lines = [
        "# Diagnostics",
        "",
        "Every problem that gangplan reports has a code that means the same for ever. "
        "This page is made from the code by",
        "`python -m compiler.checks.catalogue > docs/diagnostics.md`; a test keeps it current.",
    ]
    rules = all_rules()
    for prefix, title in _CODE_RANGES:
        found = [rule for code, rule in rules.items() if code.startswith(prefix)]
        if found:
            lines += ["", f"## {prefix}xx {title}"]
        for rule in found:
            lines += ["", f"### {rule.code} {rule.title} ({rule.severity})", "", rule.text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(diagnostics_page(), end="")
