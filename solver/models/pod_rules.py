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

from solver.mip.rows import Row, Terms, at_least, at_most, scale_terms
from solver.models.sets import Sets
from solver.models.variables import Variables
from solver.state.pod_rules import NO_DOMAIN, DomainCount, PodRuleCounts


@dataclass(slots=True)
class NewPodTerms:
    """The batch's pods of one relation in one domain, as terms: B only carry it, M are only counted, S are both.
    `most`: of B, M, S."""

    B: Terms = field(default_factory=list)
    M: Terms = field(default_factory=list)
    S: Terms = field(default_factory=list)
    max_pods: dict[str, int] = field(default_factory=lambda: {"B": 0, "M": 0, "S": 0})

    @property
    def owners(self) -> Terms:
        return [*self.B, *self.S]

    @property
    def selected(self) -> Terms:
        return [*self.M, *self.S]


@dataclass(slots=True)
class RuleTerms:
    """domains: domain -> newcomers, NOWHERE included. blurred: whether some of them straddle domains, and are not among
    these."""

    domains: dict[int, NewPodTerms] = field(default_factory=dict)
    has_straddling: bool = False


def rule_terms(s: Sets, x: Variables, rule_counts: PodRuleCounts) -> Iterator[tuple[int, RuleTerms]]:
    """Every enforced relation that pods of the batch carry or are counted by, with these pods."""
    found: dict[int, RuleTerms] = {}
    for (k, t), pods in x.n.items():
        role = s.gang_classes[k].roles[t]
        for rho in rule_counts.rules_of(role):
            scene = found.setdefault(rho, RuleTerms())
            what = (
                "S"
                if rho in role.owned_rules and rho in role.selecting_rules
                else "B"
                if rho in role.owned_rules
                else "M"
            )
            at = s.bucket_domains(rule_counts.existing_pods.partitions[rho])
            for i, terms in pods.items():
                d = at[i]
                if not terms:
                    continue
                if d is None:
                    scene.has_straddling = True
                    continue
                here = scene.domains.setdefault(d, NewPodTerms())
                getattr(here, what).extend(terms)
                here.max_pods[what] += s.pod_limits[k, t][i]
    yield from sorted(found.items())


def pod_rules(s: Sets, x: Variables) -> Iterator[Row]:
    """Every relation in its own words: `apart`, `together`, `even`."""
    if s.rule_counts is not None:
        for rho, scene in rule_terms(s, x, s.rule_counts):
            yield from _FAMILIES[s.rule_counts.existing_pods.pod_rules[rho].rule_kind](s.rule_counts, x, rho, scene)


def anti_affinity(rule_counts: PodRuleCounts, x: Variables, rho: int, rule_terms: RuleTerms) -> Iterator[Row]:
    """In each domain d, with matched_d counted pods and bearing_d pods that carry the rule there already:

    B_d + S_d <= 0  where matched_d > 0          M_d + S_d <= 0  where bearing_d > 0
    B_d <= most c[bears,d]        M_d <= most c[counted,d]        S_d + c[bears,d] + c[counted,d] <= 1
    """
    for d, new in sorted(rule_terms.domains.items()):
        if d == NO_DOMAIN:
            continue
        crowd = rule_counts.domain_count(rho, d)
        bearing = crowd.existing_owners + crowd.B + crowd.S
        if crowd.selected and new.owners:
            yield Row("anti-affinity.counted", (rho, d), at_most(new.owners, 0))
        if bearing and new.selected:
            yield Row("anti-affinity.bearing", (rho, d), at_most(new.selected, 0))
        if crowd.selected or bearing:
            continue
        one = [(v, float(c)) for v, c in new.S]
        for what, terms, most in (("bears", new.B, new.max_pods["B"]), ("counted", new.M, new.max_pods["M"])):
            if terms:
                c = _add_binary(x, rho, what, d)
                one.append((c, 1.0))
                yield Row(f"anti-affinity.{what}", (rho, d), at_most([*terms, (c, -most)], 0))
        if new.S or (new.B and new.M):
            yield Row("anti-affinity.one", (rho, d), at_most(one, 1))


def affinity(rule_counts: PodRuleCounts, x: Variables, rho: int, rule_terms: RuleTerms) -> Iterator[Row]:
    """anchors_d: counted pods that stand in d, or came in an earlier batch and do not carry the rule. Where there are
    none:

    B_d + S_d <= most c[bears,d]            c[bears,d] <= M_d + c[opens,d]        c[opens,d] <= S_d sum_d c[opens,d] <=
    1                   sum_d M_d <= most (1 - sum_d c[opens,d]) No domain is opened where there is an anchor anywhere.
    Where an earlier batch opened d0:  c[opens,d] = 0,  sum_{d /= d0} M_d <= most M_d0.
    """
    if new := rule_terms.domains.get(NO_DOMAIN):
        yield Row("affinity.outside", (rho,), at_most(new.owners, 0))
    if rule_terms.has_straddling:
        return
    crowds = dict(rule_counts.domain_counts(rho))
    inside = {d: new for d, new in sorted(rule_terms.domains.items()) if d != NO_DOMAIN}
    opened = [d for d, crowd in crowds.items() if crowd.B + crowd.S and not crowd.anchors]
    free = not opened and not any(crowd.anchors for crowd in crowds.values())
    opens: Terms = []
    for d, new in inside.items():
        if not new.owners or d in opened or crowds.get(d, DomainCount()).anchors:
            continue
        c = _add_binary(x, rho, "bears", d)
        first: Terms = [(_add_binary(x, rho, "opens", d), 1)] if free and new.S else []
        opens += first
        yield Row("affinity.bears", (rho, d), at_most([*new.owners, (c, -new.max_pods["B"] - new.max_pods["S"])], 0))
        yield Row("affinity.beside", (rho, d), at_least([*new.M, *first, (c, -1)], 0))
        if first:
            yield Row("affinity.itself", (rho, d), at_least([*new.S, *scale_terms(first, -1)], 0))
    most = sum(new.max_pods["M"] for new in inside.values())
    if opens:
        yield Row("affinity.one", (rho,), at_most(opens, 1))
        if most:
            anchors = [term for new in inside.values() for term in new.M]
            yield Row("affinity.first", (rho,), at_most([*anchors, *scale_terms(opens, most)], most))
    for d0 in opened:
        yield from _required_anchors(rho, d0, inside.get(d0, NewPodTerms()), crowds[d0], len(opened))
        elsewhere = [term for d, new in inside.items() if d != d0 for term in new.M]
        if elsewhere:
            here = inside[d0].M if d0 in inside else []
            yield Row("affinity.opened", (rho, d0), at_most([*elsewhere, *scale_terms(here, -most)], 0))


def _required_anchors(rho: int, d0: int, new: NewPodTerms, existing: DomainCount, opened_count: int) -> Iterator[Row]:
    """Domains where pods of earlier batches wait for the company that others, placed again now, were to them."""
    if opened_count > 1:
        yield Row("affinity.kept", (rho, d0), at_least(new.M, 1))
    elif not existing.S:
        yield Row("affinity.kept", (rho, d0), at_least(new.selected, 1))


def topology_spread(rule_counts: PodRuleCounts, x: Variables, rho: int, rule_terms: RuleTerms) -> Iterator[Row]:
    """count_d = counted pods that stand in d or came in earlier batches + M_d + S_d;  least <= count_d for all d, 0
    with too few domains.

    B_d + S_d <= most c[bears,d] count_d - least <= skew + (most count_d) (1 - c[bears,d])         c = 1 where an
    earlier batch put pods that carry the rule
    """
    relation = rule_counts.existing_pods.pod_rules[rho]
    if new := rule_terms.domains.get(NO_DOMAIN):
        yield Row("spread.outside", (rho,), at_most(new.owners, 0))
    if rule_terms.has_straddling:
        return
    counted = rule_counts.selected_counts(rho)
    inside = {d: new for d, new in sorted(rule_terms.domains.items()) if d != NO_DOMAIN}
    most = {
        d: int(counted[d]) + (inside[d].max_pods["M"] + inside[d].max_pods["S"] if d in inside else 0)
        for d in range(len(counted))
    }
    top = min(most.values()) if len(counted) >= relation.min_domains else 0
    bound = [
        int(counted[d]) - relation.max_skew
        for d, crowd in rule_counts.domain_counts(rho)
        if crowd.B + crowd.S and d not in inside
    ]
    least = x.c[rho, "least", NO_DOMAIN] = x.model.add_variable(
        f"c_{rho}_least", max([0, *bound]), top, cat=pulp.LpInteger
    )
    for d, new in inside.items():
        crowd = rule_counts.domain_count(rho, d)
        if new.selected:
            yield Row("spread.least", (rho, d), at_least([*new.selected, (least, -1)], -int(counted[d])))
        if crowd.B + crowd.S:
            yield Row(
                "spread.skew", (rho, d), at_most([*new.selected, (least, -1)], relation.max_skew - int(counted[d]))
            )
        elif new.owners:
            c = _add_binary(x, rho, "bears", d)
            yield Row("spread.bears", (rho, d), at_most([*new.owners, (c, -new.max_pods["B"] - new.max_pods["S"])], 0))
            yield Row(
                "even.skew",
                (rho, d),
                at_most([*new.selected, (least, -1), (c, most[d])], relation.max_skew + most[d] - int(counted[d])),
            )


_FAMILIES = {"anti-affinity": anti_affinity, "affinity": affinity, "spread": topology_spread}


def _add_binary(x: Variables, rho: int, what: str, d: int) -> pulp.LpVariable:
    c = x.c[rho, what, d] = x.model.add_variable(f"c_{rho}_{what}_{d}", cat=pulp.LpBinary)
    return c


def set_rule_values(s: Sets, x: Variables, values: dict[str, float]) -> None:
    """The values of c that go with those of n, in a solution that keeps every relation."""
    if s.rule_counts is None:
        return
    for rho, scene in rule_terms(s, x, s.rule_counts):
        crowds = dict(s.rule_counts.domain_counts(rho))
        anchored = any(crowd.anchors for crowd in crowds.values())
        anchored = anchored or any(_pod_sum(new.M, values) for d, new in scene.domains.items() if d != NO_DOMAIN)
        for d, new in scene.domains.items():
            bears = _pod_sum(new.B if s.problem.pod_rules[rho].rule_kind == "anti-affinity" else new.owners, values)
            told = {"bears": bears, "counted": _pod_sum(new.M, values), "opens": bears and not anchored}
            for what, true in told.items():
                if (rho, what, d) in x.c:
                    values[x.c[rho, what, d].name] = float(bool(true))
        if least := x.c.get((rho, "least", NO_DOMAIN)):
            counted = s.rule_counts.selected_counts(rho)
            for d, new in scene.domains.items():
                if d != NO_DOMAIN:
                    counted[d] += _pod_sum(new.selected, values)
            values[least.name] = float(s.rule_counts.min_selected(rho, counted))


def _pod_sum(terms: Terms, values: Mapping[str, float]) -> int:
    return round(sum(values[v.name] * c for v, c in terms))
