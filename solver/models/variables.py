"""The variables of the admission model. n is a sum of terms, so that a domain of one place needs no variable of its
own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pulp

from solver.mip.rows import Terms
from solver.models.sets import AdmissionClass, Sets
from solver.problem import SlotRequest
from solver.semantics.topology import ROOT


@dataclass(slots=True)
class Variables:
    """
    y[q, p, k]   gangs of the class that are admitted                         integer, 0 .. N g[k, h]      gangs of
    shape k that lie whole in domain h                  integer   (shapes with a hard tier only; else sum of y) n[k, t,
    i]   pods of role t of shape k at place i, as terms               integer   (terms of g where the domain is one
    place) u[k, s, h]   whole subgroups s of shape k in domain h                     integer m[i, a, c]   pods of
    portion a at the single node i that use its cell c   integer w[q, r]      what queue q needs of resource r: held, or
    guaranteed        continuous o[j]         gang j of a queue with strict order is among the first       binary c[rho,
    a, d] what the new pods of relation rho are to domain d            binary    (a: bears, counted, opens; "least":
    integer)
    """

    model: pulp.LpProblem
    y: dict[AdmissionClass, pulp.LpVariable] = field(default_factory=dict)
    g: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)
    n: dict[tuple[int, int], dict[int, Terms]] = field(default_factory=dict)
    u: dict[tuple[int, int, int], pulp.LpVariable] = field(default_factory=dict)
    w: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)
    o: dict[int, pulp.LpVariable] = field(default_factory=dict)
    m: dict[tuple[int, SlotRequest, int], pulp.LpVariable] = field(default_factory=dict)
    c: dict[tuple[int, str, int], pulp.LpVariable] = field(default_factory=dict)


def build_variables(s: Sets, fixed_admission: bool = False) -> Variables:
    """All variables, within their simple bounds. fixed_admission: every gang of the batch is in (growth, spreading)."""
    x = Variables(pulp.LpProblem("batch", pulp.LpMaximize))
    for (q, p, k), gangs in s.waiting_gangs.items():
        low = len(gangs) if fixed_admission else 0
        x.y[q, p, k] = x.model.add_variable(f"y_{q}_{p + 2**32}_{k}", low, len(gangs), cat=pulp.LpInteger)
    for k in range(len(s.gang_classes)):
        _add_placement_variables(s, x, k)
    return x


def _add_placement_variables(s: Sets, x: Variables, k: int) -> None:
    """g and n of one shape, domain by domain. A domain that cannot hold one gang gets no variables."""
    shape = s.gang_classes[k]
    for t in range(len(shape.roles)):
        x.n[k, t] = {}
    for h, places in s.buckets_in[k].items():
        whole = _max_gangs(s, k, places)
        if not whole:
            continue
        if h != ROOT:
            x.g[k, h] = x.model.add_variable(f"g_{k}_{h}", 0, whole, cat=pulp.LpInteger)
        for t, role in enumerate(shape.roles):
            for i in places:
                if i not in s.pod_limits[k, t]:
                    continue
                if h != ROOT and len(places) == 1 and shape.is_rigid:
                    x.n[k, t][i] = [(x.g[k, h], role.min_pods)] if role.min_pods else []
                else:
                    x.n[k, t][i] = [
                        (x.model.add_variable(f"n_{k}_{t}_{i}", 0, s.pod_limits[k, t][i], cat=pulp.LpInteger), 1)
                    ]


def _max_gangs(s: Sets, k: int, places: Iterable[int]) -> int:
    """An upper bound on the whole gangs of shape k in these places: each role alone, and all roles together."""
    shape = s.gang_classes[k]
    most = [sum(s.pod_limits[k, t].get(i, 0) for i in places) for t in range(len(shape.roles))]
    fit = s.gang_counts[k]
    for pods, role in zip(most, shape.roles, strict=True):
        if role.min_pods:
            fit = min(fit, pods // role.min_pods)
    return min(fit, sum(most) // shape.min_pods) if shape.min_pods else fit
