"""Bounds to compare a plan with: the most GPUs that any plan places, and the GPUs that the greedy places alone."""

from __future__ import annotations

import math

import pulp

from solver.admission.greedy_floor import greedy_floor
from solver.greedy.best_fit import GreedyPlacer
from solver.mip.engine import FEASIBILITY_TOLERANCE, solve_model
from solver.models import constraints, variables
from solver.models.sets import Sets, coarsest_buckets
from solver.options import Options
from solver.problem import Problem
from solver.semantics.gang_classes import gangs_by_class
from solver.state.state import State

TIME_LIMIT = 600.0
"""Seconds for one linear program; without an optimum there is no bound and the case fails."""


def placed_upper_bound(problem: Problem, resource: int) -> int:
    """Return the optimum of the admission's linear relaxation, the solver's own sets, variables and rows with
    integrality dropped:

        max  sum_{q,p,k} demand_k[resource] * y[q,p,k]        subject to `constraints.CONSTRAINTS`

    No plan of rigid gangs places more, in whatever order its objectives come: the plan's own first objective is
    priority, not GPUs, so a plan may well stay below its best. Growth of elastic gangs is not in it. Raises
    RuntimeError without an optimum.
    """
    waiting = gangs_by_class(problem, range(len(problem.gangs)))
    shapes = tuple(dict.fromkeys(shape for _, _, shape in waiting))
    index = {shape: k for k, shape in enumerate(shapes)}
    by_class = {(q, p, index[shape]): js for (q, p, shape), js in waiting.items()}
    state = State.initial(problem)
    s = Sets(state, coarsest_buckets(state.tree), shapes, by_class)
    x = variables.build_variables(s)
    constraints.add_constraints(s, x)
    for v in x.model.variables():
        v.cat = pulp.LpContinuous
    x.model.setObjective(pulp.LpAffineExpression([(y, s.min_demands[k][resource]) for (_, _, k), y in x.y.items()]))
    answer = solve_model(x.model, Options(time_limit=TIME_LIMIT))
    if answer.status != "optimal":
        raise RuntimeError(f"the linear relaxation ended {answer.status}")
    return math.floor(answer.value + FEASIBILITY_TOLERANCE)


def placed_by_greedy(problem: Problem, resource: int) -> tuple[int, int]:
    """(gangs, amount of the resource) that the greedy starts by itself: the floor under every plan, and the baseline to
    beat."""
    placed = greedy_floor(GreedyPlacer(State.initial(problem)), range(len(problem.gangs)))
    return len(placed), sum(
        p.pods * problem.gangs[j].roles[p.role].request[resource] for j, pods in placed.items() for p in pods
    )
