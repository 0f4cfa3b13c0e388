"""The mathematics of gangplan: a problem in plain integers in, a plan with proofs out. Start at `solve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solver.options import Budget, Options
from solver.plan import Plan
from solver.problem import InvalidProblemError, Problem

if TYPE_CHECKING:
    from solver.planner import solve

__all__ = ["Budget", "InvalidProblemError", "Options", "Plan", "Problem", "solve"]


def __getattr__(name: str) -> Any:
    """`solve`, which loads the whole solver: a program that only speaks of problems and plans does without it."""
    if name != "solve":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from solver.planner import solve

    return solve
