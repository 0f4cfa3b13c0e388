"""JSON: {"diagnostics": [{"code", "severity", "file", "line", "column", "message", "help", "object"}]}, a stable
interface for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic


def render(diagnostics: Sequence[Diagnostic]) -> str:
    return json.dumps({"diagnostics": [diagnostic_entry(each) for each in diagnostics]}, indent=2) + "\n"


def diagnostic_entry(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "file": diagnostic.position.file,
        "line": diagnostic.position.line,
        "column": diagnostic.position.column,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "object": diagnostic.object,
    }
