"""The mathematics of gangplan: a problem in plain integers in, a plan with proofs out. Start at `solve`."""

from solver.options import Budget, Options
from solver.plan import Plan
from solver.planner import solve
from solver.problem import InvalidProblemError, Problem

__all__ = ["Budget", "InvalidProblemError", "Options", "Plan", "Problem", "solve"]
