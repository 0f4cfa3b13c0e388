"""Kinds whose pods cannot be bound to the plan's nodes, since their controllers accept no gate: reported once an
object."""

from __future__ import annotations

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.syntax.documents import Document

NOT_BOUND = declare_rule("GP222", "info")
UNREAD_PART = declare_rule("GP228", "info")


def not_bound_diagnostic(document: Document, reason: str, *, is_recurring: bool = False) -> Diagnostic:
    """Return the diagnostic of a planned object of such a kind. is_recurring: it runs by the clock."""
    message = f"{document.kind} is planned, and its pods are not bound to the plan's nodes: {reason}"
    room = "no room is kept for its next run" if is_recurring else "room is kept for them"
    return document.diagnostic(NOT_BOUND, ("kind",), message, f"nothing; {room}")
