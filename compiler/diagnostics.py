"""A diagnostic is data: what is wrong, where, and how to mend it. `compiler.render` turns it into text, JSON, SARIF and so on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file of the repository; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """`message` says what is wrong, `help` how to mend it; neither ends in the other. `object` is "Kind namespace/name" where known."""

    code: str
    severity: Severity
    position: Position
    message: str
    help: str
    object: str = ""
    see: Position | None = None
    """A second place that belongs to the finding, e.g. the other document of the same name."""
