"""JUnit XML: a suite for each file; an error is a failed case, a warning or info a passed one with output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.diagnostics.render.words import place_text, printable, sentence

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NO_PROBLEM = f"""{_HEAD}<testsuites name="gangplan check" tests="1" failures="0">
  <testsuite name="gangplan check" tests="1" failures="0">
    <testcase name="no problem found" classname="gangplan"/>
  </testsuite>
</testsuites>
"""


def render(diagnostics: Sequence[Diagnostic]) -> str:
    if not diagnostics:
        return _NO_PROBLEM
    ordered = sorted(diagnostics, key=lambda diagnostic: (diagnostic.position, diagnostic.code, diagnostic.message))
    suites = ""
    for file, group in groupby(ordered, key=lambda diagnostic: diagnostic.position.file):
        found = list(group)
        suites += f"  <testsuite {_suite_attributes(file, found)}>\n{''.join(map(_case, found))}  </testsuite>\n"
    return f"{_HEAD}<testsuites {_suite_attributes('gangplan check', ordered)}>\n{suites}</testsuites>\n"


def _suite_attributes(name: str, diagnostics: Sequence[Diagnostic]) -> str:
    failures = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    return f'name={_quoted_attribute(name)} tests="{len(diagnostics)}" failures="{failures}"'


def _case(diagnostic: Diagnostic) -> str:
    at = diagnostic.position
    name = f"{diagnostic.code} {at.line}:{at.column}"
    text = f"{place_text(at)}: {diagnostic.severity} {diagnostic.code}: {sentence(diagnostic)}"
    inner = f"<system-out>{_escaped_text(text)}</system-out>"
    if diagnostic.severity == "error":
        attributes = f"type={_quoted_attribute(diagnostic.code)} message={_quoted_attribute(sentence(diagnostic))}"
        inner = f"<failure {attributes}>{_escaped_text(text)}</failure>"
    return f"    <testcase name={_quoted_attribute(name)} classname={_quoted_attribute(at.file)}>{inner}</testcase>\n"


def _escaped_text(text: str) -> str:
    from xml.sax.saxutils import escape

    return escape(_xml_printable(text))


def _quoted_attribute(text: str) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(_xml_printable(printable(text)))


def _xml_printable(text: str) -> str:
    """`text` without the characters that XML 1.0 excludes even as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
