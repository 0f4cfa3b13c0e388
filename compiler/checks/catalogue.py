"""The catalogue of all codes of diagnostics."""

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
"""Modules, other than checks and kinds, whose import declares rules."""

CODE_RANGES = (
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
