"""The spread of gangs with identical pods: pieces, the pods of one gang in one leaf, counted by size in each region.

Where pods are identical and leaves differ only in how many of them they hold, a placement is how each gang is cut into
pieces and how pieces fill leaves. Filling is a flow (arc flow of bin packing: Valerio de Carvalho, 1999): a unit of it
is a leaf, an arc of length s a piece of s pods. Its relaxation is far tighter than that of a model with a variable for
each gang and leaf, and no two of its solutions differ in names only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pulp

from solver.mip.rows import Row, Terms, add_rows, at_least, at_most, equal, linear


@dataclass(frozen=True, slots=True)
class IdenticalPodsGang:
    """level: of the one domain that must hold the gang (0: a leaf). min_domains: level -> the fewest that hold it."""

    gang: int
    pods: int
    level: int | None
    min_domains: tuple[int, ...]

    def at_leaf_level(self) -> IdenticalPodsGang:
        """As if all leaves were below one domain."""
        return IdenticalPodsGang(self.gang, self.pods, 0 if self.level == 0 else None, self.min_domains[:1])


@dataclass(frozen=True, slots=True)
class Region:
    """Leaves below the same domains (levels 1, 2, ...). excluded_levels: gangs of these levels may not be here."""

    domains: tuple[int, ...] = ()
    excluded_levels: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class LeafCapacity:
    """leaves: region -> leaf -> pods that it holds, at least one. tier_weights: level -> cost of one more domain."""

    leaves: Mapping[Region, Mapping[int, int]]
    tier_weights: Sequence[int]

    def largest_leaf(self, region: Region) -> int:
        return max(self.leaves[region].values())

    def at_leaf_level(self) -> LeafCapacity:
        """As if all leaves were below one domain."""
        every = {leaf: slots for leaves in self.leaves.values() for leaf, slots in leaves.items()}
        return LeafCapacity({Region(): every}, self.tier_weights[:1])


@dataclass(slots=True)
class PieceModel:
    """
    b[j,R,s]    pieces of s pods that gang j has in region R                                  integer, 0 .. pods_j // s
    e[j,l,d]    gang j touches domain d of level l >= 1                                       binary
    a[R,i,s]    leaves of R that hold a piece of s pods behind i slots that are filled, or skipped    integer

    start: values of a known solution.
    """

    model: pulp.LpProblem
    b: dict[tuple[int, Region, int], pulp.LpVariable] = field(default_factory=dict)
    e: dict[tuple[int, int, int], pulp.LpVariable] = field(default_factory=dict)
    a: dict[Region, dict[tuple[int, int], pulp.LpVariable]] = field(default_factory=dict)
    start: dict[str, float] = field(default_factory=dict)


LeafPods = Mapping[int, Mapping[int, int]]
"""Gang -> leaf -> its pods there."""


def variable_count(gangs: Sequence[IdenticalPodsGang], capacity: LeafCapacity) -> int:
    """Variables b and a that the model has."""
    found, most = 0, max((gang.pods for gang in gangs), default=0)
    for region in capacity.leaves:
        widest = capacity.largest_leaf(region)
        found += sum(min(gang.pods, widest) for gang in gangs) + sum(min(most, widest - i) for i in range(widest))
    return found


def build_model(gangs: Sequence[IdenticalPodsGang], capacity: LeafCapacity, known: LeafPods) -> PieceModel:
    """min  sum_j sum_l weight_l (domains of level l that j touches - 1), pieces at level 0.

    known: where the gangs are now, in the same leaves; empty for none.
    """
    x = PieceModel(pulp.LpProblem("pieces", pulp.LpMinimize))
    for number, (region, leaves) in enumerate(capacity.leaves.items()):
        _add_flow(x, number, region, leaves, max(gang.pods for gang in gangs))
    for gang in gangs:
        _add_pieces(x, gang, capacity, known.get(gang.gang, {}))
    for number, region in enumerate(capacity.leaves):
        add_rows(x.model, _fill_rows(x, number, region))
    if known:
        _set_flow_start(x, capacity, known)
    cost: Terms = [(v, capacity.tier_weights[0]) for v in x.b.values()]
    cost += [(v, capacity.tier_weights[level]) for (_, level, _), v in x.e.items()]
    x.model.setObjective(linear(cost) - len(gangs) * sum(capacity.tier_weights))
    return x


def _add_flow(x: PieceModel, number: int, region: Region, leaves: Mapping[int, int], max_pods: int) -> None:
    """The variables a of one region. A leaf with v slots enters at i = widest - v; pieces follow one another.

    sum_s a[R,i,s]  <=  leaves with widest - i slots  +  sum_s a[R,i-s,s]
    """
    widest, leaf_counts = max(leaves.values()), Counter(leaves.values())
    arcs = x.a[region] = {
        (i, s): x.model.add_variable(f"a_{number}_{i}_{s}", 0, len(leaves), cat=pulp.LpInteger)
        for i in range(widest)
        for s in range(1, min(max_pods, widest - i) + 1)
    }
    out, into = [Terms() for _ in range(widest)], [Terms() for _ in range(widest + 1)]
    for (i, s), v in arcs.items():
        out[i].append((v, 1))
        into[i + s].append((v, -1))
    for i in range(widest):
        add_rows(x.model, [Row("flow", (number, i), at_most([*out[i], *into[i]], leaf_counts[widest - i]))])


def _add_pieces(x: PieceModel, gang: IdenticalPodsGang, capacity: LeafCapacity, known: Mapping[int, int]) -> None:
    """The variables b and e of one gang.

    sum_{R,s} s b[j,R,s] = pods_j
    sum_{R in d, s} s b[j,R,s] <= pods_j e[j,1,d]        e[j,l,d] <= e[j,l+1,domain above d]
    sum_{R,s} b[j,R,s] >= min_domains_j,0        sum_d e[j,l,d] >= min_domains_j,l

    and exactly 1 domain of the level that must hold the gang.
    """
    j = gang.gang
    pieces, pods = list[pulp.LpVariable](), list[tuple[pulp.LpVariable, float]]()
    pods_by_domain: dict[int, Terms] = {}
    above: dict[tuple[int, int], int] = {}
    for number, (region, leaves) in enumerate(capacity.leaves.items()):
        if gang.level in region.excluded_levels:
            continue
        have = Counter(here for leaf, here in known.items() if leaf in leaves)
        for s in range(gang.pods if gang.level == 0 else 1, min(gang.pods, capacity.largest_leaf(region)) + 1):
            v = x.b[j, region, s] = x.model.add_variable(f"b_{j}_{number}_{s}", 0, gang.pods // s, cat=pulp.LpInteger)
            x.start[v.name] = float(have[s])
            pieces.append(v)
            pods.append((v, s))
            for d in region.domains[:1]:
                pods_by_domain.setdefault(d, []).append((v, s))
        for level, d in enumerate(region.domains, 1):
            if (j, level, d) not in x.e:
                x.e[j, level, d] = x.model.add_variable(f"e_{j}_{level}_{d + 2}", 0, 1, cat=pulp.LpInteger)
                x.start[x.e[j, level, d].name] = 0.0
            if have:
                x.start[x.e[j, level, d].name] = 1.0
        for level, (d, up) in enumerate(itertools.pairwise(region.domains), 1):
            above[level, d] = up
    rows = [Row("pods", (j,), equal(pods, gang.pods))]
    for d, terms in pods_by_domain.items():
        rows.append(Row("touch", (j, d), at_most([*terms, (x.e[j, 1, d], -gang.pods)], 0)))
    for (level, d), up in above.items():
        row = at_least([(x.e[j, level + 1, up], 1), (x.e[j, level, d], -1)], 0)
        rows.append(Row("touch.above", (j, level, d), row))
    for level in range(len(capacity.tier_weights)):
        touching = [v for (of, at, _), v in x.e.items() if (of, at) == (j, level)] if level else pieces
        touched: Terms = [(v, 1) for v in touching]
        least = equal(touched, 1) if level == gang.level else at_least(touched, gang.min_domains[level])
        rows.append(Row("touch.least", (j, level), least))
    add_rows(x.model, rows)


def _fill_rows(x: PieceModel, number: int, region: Region) -> Iterator[Row]:
    """sum_j b[j,R,s]  <=  sum_i a[R,i,s]"""
    wanted: dict[int, Terms] = {}
    for (_, of, s), v in x.b.items():
        if of == region:
            wanted.setdefault(s, []).append((v, 1))
    for s, terms in wanted.items():
        held: Terms = [(v, -1) for (_, length), v in x.a[region].items() if length == s]
        yield Row("filled", (number, s), at_most([*terms, *held], 0))


def _set_flow_start(x: PieceModel, capacity: LeafCapacity, known: LeafPods) -> None:
    """The flow of the known solution: in each leaf its largest piece first."""
    x.start.update({v.name: 0.0 for arcs in x.a.values() for v in arcs.values()})
    here: dict[int, list[int]] = {}
    for leaves in known.values():
        for leaf, pods in leaves.items():
            here.setdefault(leaf, []).append(pods)
    for region, leaves in capacity.leaves.items():
        for leaf, holds in leaves.items():
            i = capacity.largest_leaf(region) - holds
            for s in sorted(here.get(leaf, ()), reverse=True):
                x.start[x.a[region][i, s].name] += 1.0
                i += s


def read_solution(x: PieceModel, capacity: LeafCapacity, values: Mapping[str, float]) -> dict[int, dict[int, int]]:
    """Return gang -> leaf -> pods: the flow cut into leaves, and the pieces assigned to them."""
    held = {region: _leaves_by_piece(x, capacity, region, values) for region in capacity.leaves}
    found: dict[int, Counter[int]] = {}
    for (j, region, s), v in x.b.items():
        here = found.setdefault(j, Counter())
        for _ in range(round(values[v.name])):
            here[held[region][s].pop(0)] += s
    return {j: dict(here) for j, here in found.items()}


def _leaves_by_piece(
    x: PieceModel, capacity: LeafCapacity, region: Region, values: Mapping[str, float]
) -> dict[int, list[int]]:
    """Return pods of a piece -> the leaves that hold one, once for each."""
    found: dict[int, list[int]] = {}
    at: dict[int, list[int]] = {}
    for leaf, holds in capacity.leaves[region].items():
        at.setdefault(capacity.largest_leaf(region) - holds, []).append(leaf)
    for (i, s), v in sorted(x.a[region].items(), key=lambda arc: (arc[0][0], -arc[0][1])):
        for _ in range(round(values[v.name])):
            leaf = at[i].pop(0)
            found.setdefault(s, []).append(leaf)
            at.setdefault(i + s, []).append(leaf)
    return found
