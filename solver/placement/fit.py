"""Whether one gang fits alone on given free vectors: by counting where counting proves a no, by the greedy for a yes,
else by an exact model."""

from __future__ import annotations

from dataclasses import dataclass

import pulp

from solver.admission.admit import Admission, pods_of
from solver.greedy.best_fit import Greedy
from solver.mip.engine import solve_model
from solver.models import constraints, variables
from solver.models.sets import Sets, aggregate, refine
from solver.options import Options
from solver.placement.realise import realise
from solver.placement.spread import shared_out
from solver.problem import Placement, Problem, Subgroup
from solver.semantics.device_slots import Free
from solver.semantics.gang_classes import Shape
from solver.semantics.priorities import urgency
from solver.semantics.topology import ROOT, Tree
from solver.state.pod_rules import Neighbours
from solver.state.room import Ledger, Room


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is too little, in the fields of a Fact. size: pods of a subgroup."""

    code: str
    role: int | None = None
    resource: int | None = None
    tier: int | None = None
    hypernode: int | None = None
    asked: int | None = None
    available: int | None = None
    size: int | None = None


def shortage(problem: Problem, tree: Tree, shape: Shape, free: Free) -> Shortage | None:
    """A proof by counting that the gang does not fit: a role alone, all roles together, every subgroup, every domain.
    None proves nothing."""
    reach = reaches(problem, tree, shape, free)
    return (
        role_shortage(shape, reach, free)
        or next(
            (short for part in shape.subgroups if (short := subgroup_shortage(tree, shape, part, reach)) is not None),
            None,
        )
        or total_shortage(shape, reach)
        or domain_shortage(tree, shape, reach)
    )


def reaches(problem: Problem, tree: Tree, shape: Shape, free: Free) -> list[dict[int, int]]:
    """Role -> domain -> pods of the role that fit under it by number."""
    greedy = Greedy(problem, tree, Room(free))
    return [greedy.reach(shape, t) for t in range(len(shape.roles))]


def role_shortage(shape: Shape, reach: list[dict[int, int]], free: Free) -> Shortage | None:
    """GW102: all nodes that are open to a role hold too few of its pods."""
    for t, role in enumerate(shape.roles):
        if reach[t][ROOT] < role.need:
            r = _scarcest(free, role.request)
            return Shortage(
                "GW102", t, r, asked=role.need * role.request[r], available=reach[t][ROOT] * role.request[r]
            )
    return None


def total_shortage(shape: Shape, reach: list[dict[int, int]]) -> Shortage | None:
    """GW102: all roles together find room for too few pods."""
    total = sum(min(role.room, reach[t][ROOT]) for t, role in enumerate(shape.roles))
    return Shortage("GW102", asked=shape.least, available=total) if total < shape.least else None


def domain_shortage(tree: Tree, shape: Shape, reach: list[dict[int, int]]) -> Shortage | None:
    """GW104: no domain of the gang's tier has room by number; the best of them."""
    if shape.tier is None or shape.tier > tree.top:
        return None
    best, at = -1, None
    for h in tree.domains(shape.tier):
        if (
            all(reach[t][h] >= role.need for t, role in enumerate(shape.roles))
            and sum(r[h] for r in reach) >= shape.least
        ):
            return None
        pods = sum(min(reach[t][h], role.need) for t, role in enumerate(shape.roles))
        best, at = (pods, h) if pods > best else (best, at)
    return Shortage(
        "GW104", tier=shape.tier, hypernode=at, asked=shape.least, available=max(0, min(best, shape.least - 1))
    )


def subgroup_shortage(tree: Tree, shape: Shape, part: Subgroup, reach: list[dict[int, int]]) -> Shortage | None:
    """GW109: the domains of the subgroup's tier hold too few whole parts by number, inside the best domain of the gang.
    asked, available: parts."""
    if part.topology.mode != "hard" or part.topology.tier > tree.top or shape.fixed:
        return None
    wanted = parts_wanted(shape, part)
    domains = tree.domains(part.topology.tier)
    homes = tree.domains(shape.tier) if shape.tier is not None and shape.tier <= tree.top else (ROOT,)
    parts = max(
        (sum(sum(reach[t][h] for t in part.roles) // part.size for h in _meet(tree, domains, home)) for home in homes),
        default=0,
    )
    return (
        Shortage("GW109", tier=part.topology.tier, asked=wanted, available=parts, size=part.size)
        if parts < wanted
        else None
    )


def parts_wanted(shape: Shape, part: Subgroup) -> int:
    """How many parts of the subgroup the gang needs at least, those that run not counted."""
    others = sum(role.room for t, role in enumerate(shape.roles) if t not in part.roles)
    return -(-max(sum(shape.roles[t].need for t in part.roles), shape.least - others) // part.size)


def _meet(tree: Tree, domains: tuple[int, ...], home: int) -> list[int]:
    """What the domains of a subgroup have in common with the home of the whole gang, be they smaller or larger."""
    if home == ROOT:
        return list(domains)
    return [h for h in domains if home in tree.path(h)] or [home for h in domains if h in tree.path(home)]


def _scarcest(free: Free, request: tuple[int, ...]) -> int:
    """The resource that runs out first for pods of this request."""
    asked = [r for r, a in enumerate(request) if a]
    return min(asked, key=lambda r: (int((free.amounts[:, r] // request[r]).sum()), r), default=0)


def holds(
    problem: Problem,
    tree: Tree,
    j: int,
    shape: Shape,
    free: Free,
    options: Options,
    neighbours: Neighbours | None = None,
) -> bool | None:
    """Whether the gang fits, queues aside: exact; None when a limit struck before an answer. Without neighbours
    relations are not minded."""
    placed = found(problem, tree, j, shape, free, neighbours)
    return True if placed is not None else exactly(problem, tree, j, shape, free, options, neighbours)


def found(
    problem: Problem, tree: Tree, j: int, shape: Shape, free: Free, neighbours: Neighbours | None = None
) -> tuple[Placement, ...] | None:
    """A place for the gang as the greedy finds it; None proves nothing."""
    return Greedy(problem, tree, Room(free, neighbours)).place(j, shape)


def exactly(
    problem: Problem,
    tree: Tree,
    j: int,
    shape: Shape,
    free: Free,
    options: Options,
    neighbours: Neighbours | None = None,
) -> bool | None:
    """`holds` by the model alone."""
    places = aggregate(problem)
    waiting = {(problem.gangs[j].queue, urgency(problem.gangs[j]), 0): (j,)}
    while True:
        s = Sets(problem, tree, places, free, Ledger(problem), (shape,), waiting, neighbours)
        x = variables.make(s)
        constraints.build(s, x, constraints.PLACEMENT)
        (y,) = x.y.values()
        x.model.setObjective(pulp.LpAffineExpression([(y, 1)]))
        answer = solve_model(x.model, options)
        if answer.status == "infeasible" or (
            answer.values and answer.status == "optimal" and not answer.values[y.name]
        ):
            return False
        if not answer.values or not answer.values[y.name]:
            return None
        packed = realise(s, (j,), shared_out(s, Admission((j,), pods_of(x, answer.values), ())), options)
        if not isinstance(packed, tuple):
            return True
        places = refine(places, packed)
