"""JSON: {"diagnostics": [{"code", "severity", "file", "line", "column", "message", "help", "object"}]}, a stable
interface for scripts. Where a fix is certain, "fix" lists what to replace in the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.diagnostics.diagnostic import Diagnostic, TextEdit

if TYPE_CHECKING:
    from compiler.outputs import CheckDocument, DiagnosticEntry, TextEditEntry


def render(diagnostics: Sequence[Diagnostic]) -> str:
    document: CheckDocument = {"diagnostics": [diagnostic_entry(each) for each in diagnostics]}
    return json.dumps(document, indent=2) + "\n"


def diagnostic_entry(diagnostic: Diagnostic) -> DiagnosticEntry:
    entry: DiagnosticEntry = {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "file": diagnostic.position.file,
        "line": diagnostic.position.line,
        "column": diagnostic.position.column,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "object": diagnostic.object,
    }
    if diagnostic.fix:
        entry["fix"] = [_text_edit_entry(each) for each in diagnostic.fix]
    return entry


def _text_edit_entry(edit: TextEdit) -> TextEditEntry:
    return {
        "file": edit.file,
        "line": edit.line,
        "column": edit.column,
        "endLine": edit.end_line,
        "endColumn": edit.end_column,
        "text": edit.text,
    }
