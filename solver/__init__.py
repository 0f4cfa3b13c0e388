"""The mathematics of gangplan: a problem in plain integers in, a plan with proofs out. Start at `solve`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solver.options import Budget, Options
    from solver.plan import Plan
    from solver.planner import solve
    from solver.problem import InvalidProblemError, Problem

__all__ = ["Budget", "InvalidProblemError", "Options", "Plan", "Problem", "solve"]

_HOMES = {
    "Budget": "solver.options",
    "InvalidProblemError": "solver.problem",
    "Options": "solver.options",
    "Plan": "solver.plan",
    "Problem": "solver.problem",
    "solve": "solver.planner",
}


def __getattr__(name: str) -> Any:
    """Return a name of the package, loaded at first use: building problems needs no solver, and checking files no
    plans."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
