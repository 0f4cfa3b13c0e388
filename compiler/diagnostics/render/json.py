"""JSON: {"diagnostics": [{"code", "severity", "file", "line", "column", "message", "help", "object"}]}, a stable
interface for scripts. Where a fix is certain, "fix" lists what to replace in the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, TextEdit


def render(diagnostics: Sequence[Diagnostic]) -> str:
    return json.dumps({"diagnostics": [diagnostic_entry(each) for each in diagnostics]}, indent=2) + "\n"


def diagnostic_entry(diagnostic: Diagnostic) -> dict[str, Any]:
    fix = {"fix": [_text_edit_entry(each) for each in diagnostic.fix]} if diagnostic.fix else {}
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "file": diagnostic.position.file,
        "line": diagnostic.position.line,
        "column": diagnostic.position.column,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "object": diagnostic.object,
        **fix,
    }


def _text_edit_entry(edit: TextEdit) -> dict[str, Any]:
    end = {"endLine": edit.end_line, "endColumn": edit.end_column}
    return {"file": edit.file, "line": edit.line, "column": edit.column, **end, "text": edit.text}
