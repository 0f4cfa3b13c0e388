"""GitHub workflow commands, which show each diagnostic beside its line in a pull request.

Escaping follows actions/toolkit (packages/core/src/command.ts): % CR LF everywhere, and : and , in properties.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.diagnostics import Diagnostic
from compiler.diagnostics.render.words import sentence

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(diagnostics: Sequence[Diagnostic]) -> str:
    return "".join(_command(diagnostic) for diagnostic in diagnostics)


def _command(diagnostic: Diagnostic) -> str:
    at = diagnostic.position
    properties = {"file": at.file, "line": str(at.line), "col": str(at.column), "title": diagnostic.code}
    attributes = ",".join(f"{key}={_escaped_property(value)}" for key, value in properties.items())
    return f"::{_COMMANDS[diagnostic.severity]} {attributes}::{_escaped_data(sentence(diagnostic))}\n"


def _escaped_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped_data(text).replace(":", "%3A").replace(",", "%2C")
