"""Renderers of diagnostics: text, JSON, GitHub workflow commands, SARIF and JUnit, one pure function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.diagnostics.render.github import render as render_github
from compiler.diagnostics.render.json import render as render_json
from compiler.diagnostics.render.junit import render as render_junit
from compiler.diagnostics.render.sarif import render as render_sarif
from compiler.diagnostics.render.text import render as render_text

FORMATS: Mapping[str, Callable[[Sequence[Diagnostic]], str]] = {
    "text": render_text,
    "json": render_json,
    "github": render_github,
    "sarif": render_sarif,
    "junit": render_junit,
}

__all__ = ["FORMATS", "render_github", "render_json", "render_junit", "render_sarif", "render_text"]
