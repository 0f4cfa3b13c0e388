"""JUnit XML: a failed case for each error, a passed one with its text for each warning and info; one suite for each
file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from compiler.diagnostics import Diagnostic
from compiler.diagnostics.render.words import printable, sentence

_EMPTY_SUITE = '<testsuites name="gangplan check" tests="1" failures="0">\n  <testsuite name="gangplan check" tests="1" failures="0">\n'


def render(diagnostics: Sequence[Diagnostic]) -> str:
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    if not diagnostics:
        return (
            head
            + _EMPTY_SUITE
            + '    <testcase name="no problem found" classname="gangplan"/>\n  </testsuite>\n</testsuites>\n'
        )
    ordered = sorted(diagnostics, key=lambda diagnostic: (diagnostic.position, diagnostic.code, diagnostic.message))
    suites = "".join(
        _suite(file, list(group)) for file, group in groupby(ordered, key=lambda diagnostic: diagnostic.position.file)
    )
    failures = _failure_count(ordered)
    return f'{head}<testsuites name="gangplan check" tests="{len(ordered)}" failures="{failures}">\n{suites}</testsuites>\n'


def _failure_count(diagnostics: Sequence[Diagnostic]) -> int:
    return sum(diagnostic.severity == "error" for diagnostic in diagnostics)


def _suite(file: str, diagnostics: Sequence[Diagnostic]) -> str:
    cases = "".join(map(_case, diagnostics))
    return f'  <testsuite name={_quoted_attribute(file)} tests="{len(diagnostics)}" failures="{_failure_count(diagnostics)}">\n{cases}  </testsuite>\n'


def _case(diagnostic: Diagnostic) -> str:
    at = diagnostic.position
    name = f"{diagnostic.code} {at.line}:{at.column}"
    text = (
        f"{printable(at.file)}:{at.line}:{at.column}: {diagnostic.severity} {diagnostic.code}: {sentence(diagnostic)}"
    )
    inner = f"<system-out>{_escaped_text(text)}</system-out>"
    if diagnostic.severity == "error":
        inner = f"<failure type={_quoted_attribute(diagnostic.code)} message={_quoted_attribute(sentence(diagnostic))}>{_escaped_text(text)}</failure>"
    return f"    <testcase name={_quoted_attribute(name)} classname={_quoted_attribute(at.file)}>{inner}</testcase>\n"


def _escaped_text(text: str) -> str:
    return escape(_xml_printable(text))


def _quoted_attribute(text: str) -> str:
    return quoteattr(_xml_printable(printable(text)))


def _xml_printable(text: str) -> str:
    """XML 1.0 has no place for some characters, escaped or not."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
