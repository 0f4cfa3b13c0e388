"""Diagnostics as text, JSON, GitHub workflow commands, SARIF and JUnit: one module each, all pure functions to a string that ends in a newline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from compiler.diagnostics import Diagnostic
from compiler.render.github import render as render_github
from compiler.render.json import render as render_json
from compiler.render.junit import render as render_junit
from compiler.render.sarif import render as render_sarif
from compiler.render.text import render as render_text

FORMATS: Mapping[str, Callable[[Sequence[Diagnostic]], str]] = {
    "text": render_text,
    "json": render_json,
    "github": render_github,
    "sarif": render_sarif,
    "junit": render_junit,
}

__all__ = ["FORMATS", "render_github", "render_json", "render_junit", "render_sarif", "render_text"]
