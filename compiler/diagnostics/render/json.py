"""JSON: {"diagnostics": [{"code", "severity", "file", "line", "column", "message", "help", "object"}]}, a stable
interface for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from compiler.diagnostics import Diagnostic


def render(diagnostics: Sequence[Diagnostic]) -> str:
    rows = [
        {
            "code": diagnostic.code,
            "severity": diagnostic.severity,
            "file": diagnostic.position.file,
            "line": diagnostic.position.line,
            "column": diagnostic.position.column,
            "message": diagnostic.message,
            "help": diagnostic.help,
            "object": diagnostic.object,
        }
        for diagnostic in diagnostics
    ]
    return json.dumps({"diagnostics": rows}, indent=2) + "\n"
