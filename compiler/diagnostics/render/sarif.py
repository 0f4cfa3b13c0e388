"""SARIF 2.1.0 (OASIS) for code scanning services, with the documentation of each code that occurs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from compiler.diagnostics.diagnostic import RULES, Diagnostic, Position, TextEdit, code_url
from compiler.diagnostics.render.words import sentence
from compiler.version import VERSION

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(diagnostics: Sequence[Diagnostic], baseline: Sequence[str] = ()) -> str:
    """baseline: the state of each against an earlier run (SARIF's baselineState), where there was one."""
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    driver = {"name": "gangplan", "version": VERSION, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            {**_result(diagnostic, codes.index(diagnostic.code)), **({"baselineState": state} if state else {})}
            for diagnostic, state in zip_longest(diagnostics, baseline)
        ],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    known = RULES.get(code)
    if known is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.text},
        "helpUri": code_url(code),
        "defaultConfiguration": {"level": _LEVELS[known.severity]},
    }


def _result(diagnostic: Diagnostic, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": sentence(diagnostic)},
        "locations": [_location(diagnostic.position)],
    }
    if diagnostic.see:
        result["relatedLocations"] = [_location(diagnostic.see)]
    if diagnostic.fix:
        changes = [_artifact_change(edit) for edit in diagnostic.fix]
        result["fixes"] = [{"description": {"text": diagnostic.help}, "artifactChanges": changes}]
    return result


def _artifact_change(edit: TextEdit) -> dict[str, Any]:
    end = {"endLine": edit.end_line, "endColumn": edit.end_column}
    deleted = {"startLine": edit.line, "startColumn": edit.column, **end}
    replacement = {"deletedRegion": deleted, "insertedContent": {"text": edit.text}}
    return {"artifactLocation": _artifact(edit.file), "replacements": [replacement]}


def _location(at: Position) -> dict[str, Any]:
    region = {"startLine": at.line, "startColumn": at.column}
    return {"physicalLocation": {"artifactLocation": _artifact(at.file), "region": region}}


def _artifact(file: str) -> dict[str, str]:
    return {"uri": quote(file, errors="surrogatepass")}
