"""Kinds whose pods cannot be bound to the plan's nodes, since their controllers accept no gate: reported once an
object."""

from __future__ import annotations

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.syntax.documents import Document

NOT_BOUND = declare_rule(
    "GP222",
    "info",
    "planned, and not bound",
    """The plan keeps room for the object's pods before anything else, and says where; but no gate can be put into them,
    so that they go where their scheduler puts them, alone or as its gang plugin lets them. Of what runs by the clock
    no room is kept for the next run. Fix: nothing, or a NodePool
    of their own with a taint.""",
)
UNREAD_PART = declare_rule(
    "GP228",
    "info",
    "part of a served model that is not read",
    """The pods follow from a configuration outside the repository (such as a ServingRuntime), or from a template patch
    that is not applied. Only what the object itself describes is counted. A topology that only the operator's own
    scheduler enforces is not planned. Fix: add the runtime to the repository, write the resources into the object, or
    leave room.""",
)


def not_bound_diagnostic(document: Document, reason: str, *, is_recurring: bool = False) -> Diagnostic:
    """Return the diagnostic of a planned object of such a kind. is_recurring: it runs by the clock."""
    message = f"{document.kind} is planned, and its pods are not bound to the plan's nodes: {reason}"
    room = "no room is kept for its next run" if is_recurring else "room is kept for them"
    return document.diagnostic(NOT_BOUND, ("kind",), message, f"nothing; {room}")
