"""The variables of the admission model. n is a linear expression: a domain of one bucket needs no variable but g."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pulp

from solver.mip.rows import Terms
from solver.models.sets import AdmissionClass, Sets
from solver.problem import SlotRequest, Subgroup, Vector
from solver.semantics.topology import ROOT


@dataclass(slots=True)
class Variables:
    """The model and its variables by index.

    y[q,p,k]    gangs of the admission class that start                            integer, 0 .. N
    e[q,p,k]    gangs that the queue's entitlement covers                          integer, 0 .. N
    g[k,h]      gangs of class k inside domain h                                   integer; classes with a hard tier
    n[k,t,i]    pods of role t of class k in bucket i                              integer; of g where h is one bucket
    u[k,S,h]    parts of subgroup S of class k in domain h                         integer
    m[i,a,c]    pods with slot request a at the single node i on its slot c        integer
    w[q,r]      what queue q needs of resource r: held, or guaranteed              real
    o[j]        gang j of a queue with strict order is among the first to start    binary
    c[rho,a,d]  what the new pods of pod rule rho are to domain d                  binary; see `models.pod_rules`
    """

    model: pulp.LpProblem
    classes: dict[int, list[AdmissionClass]] = field(default_factory=dict)
    """k -> the admission classes of its gangs"""
    y: dict[AdmissionClass, pulp.LpVariable] = field(default_factory=dict)
    e: dict[AdmissionClass, pulp.LpVariable] = field(default_factory=dict)
    g: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)
    n: dict[tuple[int, int], dict[int, Terms]] = field(default_factory=dict)
    u: dict[tuple[int, int, int], pulp.LpVariable] = field(default_factory=dict)
    w: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)
    o: dict[int, pulp.LpVariable] = field(default_factory=dict)
    m: dict[tuple[int, SlotRequest, int], pulp.LpVariable] = field(default_factory=dict)
    c: dict[tuple[int, str, int], pulp.LpVariable] = field(default_factory=dict)

    def started(self, k: int) -> Terms:
        """sum_{q,p} y[q,p,k]"""
        return [(self.y[key], 1) for key in self.classes.get(k, ())]

    def gangs_in_domain(self, k: int, h: int) -> Terms:
        """g[k,h]; all that start where the domain is the whole cluster; nothing where no gang of the class fits."""
        if h == ROOT:
            return self.started(k)
        return [(self.g[k, h], 1)] if (k, h) in self.g else []


def build_variables(s: Sets, fixed_admission: bool = False) -> Variables:
    """Return all variables, within their simple bounds. fixed_admission: every gang of the batch starts."""
    x = Variables(pulp.LpProblem("batch", pulp.LpMaximize))
    for (q, p, k), gangs in s.waiting_gangs.items():
        low = len(gangs) if fixed_admission else 0
        x.classes.setdefault(k, []).append((q, p, k))
        x.y[q, p, k] = x.model.add_variable(f"y_{q}_{p + 2**33}_{k}", low, len(gangs), cat=pulp.LpInteger)
    for k in range(len(s.gang_classes)):
        _add_placement_variables(s, x, k)
    return x


def _add_placement_variables(s: Sets, x: Variables, k: int) -> None:
    """g and n of one class, domain by domain. A domain that cannot hold one gang gets no variables."""
    gang_class = s.gang_classes[k]
    x.n.update({(k, t): {} for t in range(len(gang_class.roles))})
    limits_and_needs = [(s.pod_limits[k, t], role.min_pods) for t, role in enumerate(gang_class.roles)]
    for h, buckets in s.buckets_in[k].items():
        most = _max_gangs(limits_and_needs, gang_class.min_pods, s.gang_counts[k], buckets)
        if not most:
            continue
        if h != ROOT:
            x.g[k, h] = x.model.add_variable(f"g_{k}_{h}", 0, most, cat=pulp.LpInteger)
        determined = h != ROOT and len(buckets) == 1 and gang_class.is_rigid
        for t, role in enumerate(gang_class.roles):
            limits = s.pod_limits[k, t]
            for i in (i for i in buckets if i in limits):
                if determined:
                    x.n[k, t][i] = [(x.g[k, h], role.min_pods)] if role.min_pods else []
                else:
                    x.n[k, t][i] = [(x.model.add_variable(f"n_{k}_{t}_{i}", 0, limits[i], cat=pulp.LpInteger), 1)]


def _max_gangs(
    limits_and_needs: Iterable[tuple[Mapping[int, int], int]], min_pods: int, waiting: int, buckets: Iterable[int]
) -> int:
    """Return an upper bound on the gangs of a class in these buckets: by each role, and by all pods. Asked of tens of
    thousands of domains, most of them one bucket. limits_and_needs: per role its pod limits and least pods."""
    total = 0
    for limits, needed in limits_and_needs:
        pods = sum([limits.get(i, 0) for i in buckets])
        total += pods
        if needed and pods < needed * waiting:
            waiting = pods // needed
    return min(waiting, total // min_pods) if min_pods else waiting


def pods_by_bucket(s: Sets, x: Variables) -> dict[int, list[tuple[Vector, Terms]]]:
    """Return bucket -> (request of one pod, pods n) of every role with variables there, in the order of buckets."""
    found: dict[int, list[tuple[Vector, Terms]]] = {}
    for (k, t), pods in x.n.items():
        for i, terms in pods.items():
            if terms:
                found.setdefault(i, []).append((s.roles[k, t].request, terms))
    return dict(sorted(found.items()))


def subgroup_pods(
    s: Sets, x: Variables, k: int, subgroup: Subgroup, domain_of: Callable[[int | None], int]
) -> dict[int, tuple[Terms, int]]:
    """Return domain -> (new pods of the subgroup of class k, how many run there), ascending. domain_of: of a leaf."""
    pods: dict[int, Terms] = {}
    for t in subgroup.roles:
        for i, terms in x.n[k, t].items():
            pods.setdefault(domain_of(s.buckets[i].leaf), []).extend(terms)
    running: Counter[int] = Counter()
    for p in s.gang_classes[k].running_pods:
        if p.role in subgroup.roles:
            running[domain_of(s.problem.nodes[p.node].leaf)] += p.pods
    return {h: (pods.get(h, []), running[h]) for h in sorted(pods.keys() | running.keys())}
