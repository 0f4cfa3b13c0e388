"""Relations between pods as rows: what the new pods of a batch may be to one another and to those that stand there,
domain by domain.

Written in full where every place lies inside one domain. A place that straddles several domains of a relation (nodes
counted together, of a rule about single nodes) is left out of the rows of `apart`, and switches off those of `together`
and `even`: a relaxation, whose bounds are bounds. What comes of it is looked at when it is packed
(`stages.spread.realise`), and the straddling places are split where it broke the relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pulp

from solver.mip.rows import Row, at_least, at_most, times
from solver.models.sets import Sets
from solver.models.variables import Terms, Vars
from solver.state.pod_rules import NOWHERE, Crowd, Neighbours


@dataclass(slots=True)
class Newcomers:
    """The batch's pods of one relation in one domain, as terms: B only carry it, M are only counted, S are both.
    `most`: of B, M, S."""

    B: Terms = field(default_factory=list)
    M: Terms = field(default_factory=list)
    S: Terms = field(default_factory=list)
    most: dict[str, int] = field(default_factory=lambda: {"B": 0, "M": 0, "S": 0})

    @property
    def bearing(self) -> Terms:
        return [*self.B, *self.S]

    @property
    def counted(self) -> Terms:
        return [*self.M, *self.S]


@dataclass(slots=True)
class Scene:
    """domains: domain -> newcomers, NOWHERE included. blurred: whether some of them straddle domains, and are not among
    these."""

    domains: dict[int, Newcomers] = field(default_factory=dict)
    blurred: bool = False


def scenes(s: Sets, x: Vars, there: Neighbours) -> Iterator[tuple[int, Scene]]:
    """Every enforced relation that pods of the batch carry or are counted by, with these pods."""
    found: dict[int, Scene] = {}
    for (k, t), pods in x.n.items():
        role = s.shapes[k].roles[t]
        for rho in there.relations(role):
            scene = found.setdefault(rho, Scene())
            what = "S" if rho in role.bears and rho in role.matches else "B" if rho in role.bears else "M"
            at = s.domain_in(there.standing.at[rho])
            for i, terms in pods.items():
                d = at[i]
                if not terms:
                    continue
                if d is None:
                    scene.blurred = True
                    continue
                here = scene.domains.setdefault(d, Newcomers())
                getattr(here, what).extend(terms)
                here.most[what] += s.limits[k, t][i]
    yield from sorted(found.items())


def relations(s: Sets, x: Vars) -> Iterator[Row]:
    """Every relation in its own words: `apart`, `together`, `even`."""
    if s.neighbours is not None:
        for rho, scene in scenes(s, x, s.neighbours):
            yield from _FAMILIES[s.neighbours.standing.relations[rho].kind](s.neighbours, x, rho, scene)


def apart(there: Neighbours, x: Vars, rho: int, scene: Scene) -> Iterator[Row]:
    """In each domain d, with matched_d counted pods and bearing_d pods that carry the rule there already:

    B_d + S_d <= 0  where matched_d > 0          M_d + S_d <= 0  where bearing_d > 0
    B_d <= most c[bears,d]        M_d <= most c[counted,d]        S_d + c[bears,d] + c[counted,d] <= 1
    """
    for d, new in sorted(scene.domains.items()):
        if d == NOWHERE:
            continue
        crowd = there.crowd(rho, d)
        bearing = crowd.bearing + crowd.B + crowd.S
        if crowd.counted and new.bearing:
            yield Row("apart.counted", (rho, d), at_most(new.bearing, 0))
        if bearing and new.counted:
            yield Row("apart.bearing", (rho, d), at_most(new.counted, 0))
        if crowd.counted or bearing:
            continue
        one = [(v, float(c)) for v, c in new.S]
        for what, terms, most in (("bears", new.B, new.most["B"]), ("counted", new.M, new.most["M"])):
            if terms:
                c = _binary(x, rho, what, d)
                one.append((c, 1.0))
                yield Row(f"apart.{what}", (rho, d), at_most([*terms, (c, -most)], 0))
        if new.S or (new.B and new.M):
            yield Row("apart.one", (rho, d), at_most(one, 1))


def together(there: Neighbours, x: Vars, rho: int, scene: Scene) -> Iterator[Row]:
    """anchors_d: counted pods that stand in d, or came in an earlier batch and do not carry the rule. Where there are
    none:

    B_d + S_d <= most c[bears,d]            c[bears,d] <= M_d + c[opens,d]        c[opens,d] <= S_d sum_d c[opens,d] <=
    1                   sum_d M_d <= most (1 - sum_d c[opens,d]) No domain is opened where there is an anchor anywhere.
    Where an earlier batch opened d0:  c[opens,d] = 0,  sum_{d /= d0} M_d <= most M_d0.
    """
    if new := scene.domains.get(NOWHERE):
        yield Row("together.outside", (rho,), at_most(new.bearing, 0))
    if scene.blurred:
        return
    crowds = dict(there.crowds(rho))
    inside = {d: new for d, new in sorted(scene.domains.items()) if d != NOWHERE}
    opened = [d for d, crowd in crowds.items() if crowd.B + crowd.S and not crowd.anchors]
    free = not opened and not any(crowd.anchors for crowd in crowds.values())
    opens: Terms = []
    for d, new in inside.items():
        if not new.bearing or d in opened or crowds.get(d, Crowd()).anchors:
            continue
        c = _binary(x, rho, "bears", d)
        first: Terms = [(_binary(x, rho, "opens", d), 1)] if free and new.S else []
        opens += first
        yield Row("together.bears", (rho, d), at_most([*new.bearing, (c, -new.most["B"] - new.most["S"])], 0))
        yield Row("together.beside", (rho, d), at_least([*new.M, *first, (c, -1)], 0))
        if first:
            yield Row("together.itself", (rho, d), at_least([*new.S, *times(first, -1)], 0))
    most = sum(new.most["M"] for new in inside.values())
    if opens:
        yield Row("together.one", (rho,), at_most(opens, 1))
        if most:
            anchors = [term for new in inside.values() for term in new.M]
            yield Row("together.first", (rho,), at_most([*anchors, *times(opens, most)], most))
    for d0 in opened:
        yield from _still_needed(rho, d0, inside.get(d0, Newcomers()), crowds[d0], len(opened))
        elsewhere = [term for d, new in inside.items() if d != d0 for term in new.M]
        if elsewhere:
            here = inside[d0].M if d0 in inside else []
            yield Row("together.opened", (rho, d0), at_most([*elsewhere, *times(here, -most)], 0))


def _still_needed(rho: int, d0: int, new: Newcomers, crowd: Crowd, opened: int) -> Iterator[Row]:
    """Domains where pods of earlier batches wait for the company that others, placed again now, were to them."""
    if opened > 1:
        yield Row("together.kept", (rho, d0), at_least(new.M, 1))
    elif not crowd.S:
        yield Row("together.kept", (rho, d0), at_least(new.counted, 1))


def even(there: Neighbours, x: Vars, rho: int, scene: Scene) -> Iterator[Row]:
    """count_d = counted pods that stand in d or came in earlier batches + M_d + S_d;  least <= count_d for all d, 0
    with too few domains.

    B_d + S_d <= most c[bears,d] count_d - least <= skew + (most count_d) (1 - c[bears,d])         c = 1 where an
    earlier batch put pods that carry the rule
    """
    relation = there.standing.relations[rho]
    if new := scene.domains.get(NOWHERE):
        yield Row("even.outside", (rho,), at_most(new.bearing, 0))
    if scene.blurred:
        return
    counted = there.counted(rho)
    inside = {d: new for d, new in sorted(scene.domains.items()) if d != NOWHERE}
    most = {
        d: int(counted[d]) + (inside[d].most["M"] + inside[d].most["S"] if d in inside else 0)
        for d in range(len(counted))
    }
    top = min(most.values()) if len(counted) >= relation.least_domains else 0
    bound = [int(counted[d]) - relation.skew for d, crowd in there.crowds(rho) if crowd.B + crowd.S and d not in inside]
    least = x.c[rho, "least", NOWHERE] = x.model.add_variable(
        f"c_{rho}_least", max([0, *bound]), top, cat=pulp.LpInteger
    )
    for d, new in inside.items():
        crowd = there.crowd(rho, d)
        if new.counted:
            yield Row("even.least", (rho, d), at_least([*new.counted, (least, -1)], -int(counted[d])))
        if crowd.B + crowd.S:
            yield Row("even.skew", (rho, d), at_most([*new.counted, (least, -1)], relation.skew - int(counted[d])))
        elif new.bearing:
            c = _binary(x, rho, "bears", d)
            yield Row("even.bears", (rho, d), at_most([*new.bearing, (c, -new.most["B"] - new.most["S"])], 0))
            yield Row(
                "even.skew",
                (rho, d),
                at_most([*new.counted, (least, -1), (c, most[d])], relation.skew + most[d] - int(counted[d])),
            )


_FAMILIES = {"apart": apart, "together": together, "even": even}


def _binary(x: Vars, rho: int, what: str, d: int) -> pulp.LpVariable:
    c = x.c[rho, what, d] = x.model.add_variable(f"c_{rho}_{what}_{d}", cat=pulp.LpBinary)
    return c


def settle(s: Sets, x: Vars, values: dict[str, float]) -> None:
    """The values of c that go with those of n, in a solution that keeps every relation."""
    if s.neighbours is None:
        return
    for rho, scene in scenes(s, x, s.neighbours):
        crowds = dict(s.neighbours.crowds(rho))
        anchored = any(crowd.anchors for crowd in crowds.values())
        anchored = anchored or any(_pods(new.M, values) for d, new in scene.domains.items() if d != NOWHERE)
        for d, new in scene.domains.items():
            bears = _pods(new.B if s.problem.relations[rho].kind == "apart" else new.bearing, values)
            told = {"bears": bears, "counted": _pods(new.M, values), "opens": bears and not anchored}
            for what, true in told.items():
                if (rho, what, d) in x.c:
                    values[x.c[rho, what, d].name] = float(bool(true))
        if least := x.c.get((rho, "least", NOWHERE)):
            counted = s.neighbours.counted(rho)
            for d, new in scene.domains.items():
                if d != NOWHERE:
                    counted[d] += _pods(new.counted, values)
            values[least.name] = float(s.neighbours.floor(rho, counted))


def _pods(terms: Terms, values: Mapping[str, float]) -> int:
    return round(sum(values[v.name] * c for v, c in terms))
