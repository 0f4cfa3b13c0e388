"""Pod rules as rows: affinity, anti-affinity and topology spread of a batch's new pods, domain by domain.

Letters as in docs/develop/model.md: of pod rule rho, B new pods only own it, M are only selected by it, S are both.

Exact where every bucket lies inside one domain. A bucket that straddles several is left out of the rows of
anti-affinity, separation and quotas, and switches off those of the other two: a relaxation. The packed pods are checked
(`placement.pack`), and straddling buckets are split where they broke a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pulp

from solver.mip.rows import Row, Terms, at_least, at_most, scale_terms, value_of
from solver.models.sets import Sets
from solver.models.variables import Variables
from solver.state.selected_pods import NO_DOMAIN, DomainCount, PodRuleCounts, unit


@dataclass(slots=True)
class NewPodTerms:
    """The batch's pods of one rule in one domain, as terms; max_pods: at most so many of B, M, S."""

    B: Terms = field(default_factory=list)
    M: Terms = field(default_factory=list)
    S: Terms = field(default_factory=list)
    max_pods: dict[str, int] = field(default_factory=lambda: {"B": 0, "M": 0, "S": 0})

    @property
    def owners(self) -> Terms:
        return [*self.B, *self.S]

    @property
    def max_owners(self) -> int:
        return self.max_pods["B"] + self.max_pods["S"]

    @property
    def selected(self) -> Terms:
        return [*self.M, *self.S]

    @property
    def max_selected(self) -> int:
        return self.max_pods["M"] + self.max_pods["S"]


@dataclass(slots=True)
class RuleTerms:
    """domains: domain -> new pods, also for NO_DOMAIN. has_straddling: other new pods are in buckets that straddle."""

    domains: dict[int, NewPodTerms] = field(default_factory=dict)
    has_straddling: bool = False

    def mark_straddling(self) -> None:
        self.has_straddling = True

    @property
    def inside(self) -> dict[int, NewPodTerms]:
        """Without NO_DOMAIN, in order."""
        return {d: new for d, new in sorted(self.domains.items()) if d != NO_DOMAIN}


def rule_terms(
    s: Sets, x: Variables, rule_counts: PodRuleCounts, implied: Collection[int] = ()
) -> list[tuple[int, RuleTerms]]:
    """Return every enforced rule that owns or selects pods of the batch, with these pods; for a quota, with their
    requests. implied: rules that are left out."""
    found: dict[int, RuleTerms] = {}
    for (k, t), pods in x.n.items():
        role = s.roles[k, t]
        for rho in (rho for rho in rule_counts.rules_of(role) if rho not in implied):
            rule = found.setdefault(rho, RuleTerms())
            letter = "M" if rho not in role.owned_rules else "S" if rho in role.selecting_rules else "B"
            domains = s.bucket_domains(rule_counts.existing_pods.partitions[rho])
            each = unit(rule_counts.rule(rho), role)
            for i, terms in pods.items():
                d = domains[i]
                if terms and d is None:
                    rule.mark_straddling()
                elif terms and d is not None:
                    new = rule.domains.setdefault(d, NewPodTerms())
                    by_letter = {"B": new.B, "M": new.M, "S": new.S}
                    by_letter[letter].extend(terms if each == 1 else scale_terms(terms, each))
                    new.max_pods[letter] += s.pod_limits[k, t][i]
    return sorted(found.items())


def pod_rules(s: Sets, x: Variables) -> Iterator[Row]:
    """Every rule by its kind: `anti_affinity`, `separation`, `affinity`, `topology_spread`, `quota`."""
    if s.rule_counts is not None:
        for rho, rule in rule_terms(s, x, s.rule_counts, _implied_rules(s, x, s.rule_counts)):
            yield from FAMILIES[s.rule_counts.existing_pods.pod_rules[rho].rule_kind](s.rule_counts, x, rho, rule)
        yield from separated_gangs(s, x, s.rule_counts)


def anti_affinity(rule_counts: PodRuleCounts, x: Variables, rho: int, rule: RuleTerms) -> Iterator[Row]:
    """No domain holds an owner next to another pod that the rule selects. In each domain d:

    B_d + S_d <= 0  where selected pods are already        M_d + S_d <= 0  where owners are already
    B_d <= most c[bears,d]        M_d <= most c[counted,d]        S_d + c[bears,d] + c[counted,d] <= 1
    """
    yield from _apart("anti-affinity", rule_counts, x, rho, rule)


def separation(rule_counts: PodRuleCounts, x: Variables, rho: int, rule: RuleTerms) -> Iterator[Row]:
    """The rows of anti-affinity, for which an owner that runs does not count; and no owner outside all domains:

    B + S <= 0
    """
    if new := rule.domains.get(NO_DOMAIN):
        yield Row("separation.outside", (rho,), at_most(new.owners, 0))
    yield from _apart("separation", rule_counts, x, rho, rule)


def separated_gangs(s: Sets, x: Variables, rule_counts: PodRuleCounts) -> Iterator[Row]:
    """Yield the row by which a domain gets at most one of the gangs that are separated pair by pair and are in one
    domain each. Where all pods of a separation are of such gangs this row replaces its own rows (`_implied_rules`);
    else these imply it, and their relaxation allows many halves of gangs.

    sum_{k in clique} sum_{h in d} g[k,h] <= 1
    """
    for number, (domains, cliques) in enumerate(_separated_classes(s, rule_counts).items()):
        held = _DomainsHeld(s, domains)
        for c, clique in enumerate(cliques):
            members = frozenset(clique)
            inside: dict[int, Terms] = {}
            for (k, h), g in x.g.items():
                if k in members and (d := held.domain(h)) is not None:
                    inside.setdefault(d, []).append((g, 1))
            for d, terms in sorted(inside.items()):
                if len(terms) > 1:
                    yield Row("separation.clique", (number, c, d), at_most(terms, 1))


def _implied_rules(s: Sets, x: Variables, rule_counts: PodRuleCounts) -> frozenset[int]:
    """Return the separations that the rows of `separated_gangs` imply: all their pods in the batch are of gangs of one
    clique that lie in one domain each, none is both an owner and selected, and nothing is there already."""
    found, owners, selected = set[int](), dict[int, set[int]](), dict[int, set[int]]()
    cliques = _separated_classes(s, rule_counts)
    for (k, _), role in s.roles.items() if cliques else ():
        for rho in role.owned_rules:
            owners.setdefault(rho, set()).add(k)
        for rho in role.selecting_rules:
            selected.setdefault(rho, set()).add(k)
    places: dict[int, list[int]] = {}
    for k, h in x.g:
        places.setdefault(k, []).append(h)
    of_others = [rho for rho, classes in owners.items() if classes.isdisjoint(selected.get(rho, ()))]
    for domains, groups in cliques.items():
        held = _DomainsHeld(s, domains)
        bare = {rho: owners[rho] | selected.get(rho, set()) for rho in of_others}
        bare = {rho: of for rho, of in bare.items() if _is_bare_separation(rule_counts, rho, domains)}
        for clique in groups:
            inside = {k for k in clique if held.is_one(places.get(k, ()))}
            found |= {rho for rho, classes in bare.items() if classes <= inside}
    return frozenset(found)


def _is_bare_separation(rule_counts: PodRuleCounts, rho: int, domains: tuple[int | None, ...]) -> bool:
    """Return whether it is a separation by this partition that meets no pod that is there."""
    rule = rule_counts.rule(rho)
    if rule.rule_kind != "separation" or rule.domains != domains:
        return False
    return not any(pods.any() for pods in rule_counts.totals(rho))


class _DomainsHeld:
    """For each hypernode the one domain of a partition that all its nodes are in; None for several, or none."""

    def __init__(self, s: Sets, domains: tuple[int | None, ...]) -> None:
        self._tree, self._domains, self._known = s.tree, domains, dict[int, int | None]()

    def domain(self, h: int) -> int | None:
        if h not in self._known:
            held = {self._domains[n] for n in self._tree.nodes_under(h).tolist()}
            self._known[h] = held.pop() if len(held) == 1 else None
        return self._known[h]

    def is_one(self, hypernodes: Collection[int]) -> bool:
        """Return whether there are some, each in one domain."""
        return bool(hypernodes) and all(self.domain(h) is not None for h in hypernodes)


def _separated_classes(s: Sets, rule_counts: PodRuleCounts) -> dict[tuple[int | None, ...], list[list[int]]]:
    """Partition -> the classes that own a separation by it in all roles, in `_cliques`."""
    owners: dict[tuple[int | None, ...], list[int]] = {}
    for k in range(len(s.gang_classes)):
        for rho in sorted(_rules_of_all_roles(s, k, owned=True) & rule_counts.enforced_rules):
            rule = rule_counts.rule(rho)
            if rule.rule_kind == "separation" and k not in owners.setdefault(rule.domains, []):
                owners[rule.domains].append(k)
    return {domains: _cliques(s, classes) for domains, classes in owners.items()}


def _rules_of_all_roles(s: Sets, k: int, owned: bool) -> frozenset[int]:
    roles = s.gang_classes[k].roles
    return frozenset.intersection(*(frozenset(r.owned_rules if owned else r.selecting_rules) for r in roles))


def _cliques(s: Sets, classes: list[int]) -> list[list[int]]:
    """Return the classes of one gang each in parts in which one of each two owns a rule that selects the other."""
    owned = {k: _rules_of_all_roles(s, k, owned=True) for k in classes}
    selecting = {k: _rules_of_all_roles(s, k, owned=False) for k in classes}
    found: list[list[int]] = []
    for k in (k for k in classes if s.gang_classes[k].only_gang is not None):
        for clique in found:
            if all(owned[k] & selecting[other] or owned[other] & selecting[k] for other in clique):
                clique.append(k)
                break
        else:
            found.append([k])
    return found


def _apart(family: str, rule_counts: PodRuleCounts, x: Variables, rho: int, rule: RuleTerms) -> Iterator[Row]:
    """The rows that `anti_affinity` states, under the name of the family."""
    for d, new in rule.inside.items():
        existing = rule_counts.domain_count(rho, d)
        if existing.selected and new.owners:
            yield Row(f"{family}.owners", (rho, d), at_most(new.owners, 0))
        if existing.owners and new.selected:
            yield Row(f"{family}.selected", (rho, d), at_most(new.selected, 0))
        if existing.selected or existing.owners:
            continue
        one: Terms = [(v, float(c)) for v, c in new.S]
        for what, terms, most in (("bears", new.B, new.max_pods["B"]), ("counted", new.M, new.max_pods["M"])):
            if terms:
                c = _add_binary(x, rho, what, d)
                one.append((c, 1.0))
                yield Row(f"{family}.{what}", (rho, d), at_most([*terms, (c, -most)], 0))
        if new.S or (new.B and new.M):
            yield Row(f"{family}.one", (rho, d), at_most(one, 1))


def affinity(rule_counts: PodRuleCounts, x: Variables, rho: int, rule: RuleTerms) -> Iterator[Row]:
    """Every owner is in a domain with an anchor: a selected pod that is there already, or that is new and no owner.

    Where d has no anchor yet:

    B_d + S_d <= most c[bears,d]        c[bears,d] <= M_d + c[opens,d]        c[opens,d] <= S_d

    Only where there is no anchor anywhere, one domain may be opened by pods that select themselves:

    sum_d c[opens,d] <= 1        sum_d M_d <= most (1 - sum_d c[opens,d])

    Where an earlier batch opened d0:  c[opens,d] = 0,  sum_{d /= d0} M_d <= most M_d0.
    """
    if new := rule.domains.get(NO_DOMAIN):
        yield Row("affinity.outside", (rho,), at_most(new.owners, 0))
    if rule.has_straddling:
        return
    existing, inside = dict(rule_counts.domain_counts(rho)), rule.inside
    opened = [d for d, count in existing.items() if count.is_unanchored]
    may_open = not opened and not any(count.anchors for count in existing.values())
    opens: Terms = []
    for d, new in inside.items():
        if not new.owners or d in opened or existing.get(d, DomainCount()).anchors:
            continue
        c = _add_binary(x, rho, "bears", d)
        first: Terms = [(_add_binary(x, rho, "opens", d), 1)] if may_open and new.S else []
        opens += first
        yield Row("affinity.bears", (rho, d), at_most([*new.owners, (c, -new.max_owners)], 0))
        yield Row("affinity.anchor", (rho, d), at_least([*new.M, *first, (c, -1)], 0))
        if first:
            yield Row("affinity.itself", (rho, d), at_least([*new.S, *scale_terms(first, -1)], 0))
    most = sum(new.max_pods["M"] for new in inside.values())
    if opens:
        yield Row("affinity.one", (rho,), at_most(opens, 1))
        if most:
            anchors = [term for new in inside.values() for term in new.M]
            yield Row("affinity.first", (rho,), at_most([*anchors, *scale_terms(opens, most)], most))
    for d0 in opened:
        new = inside.get(d0, NewPodTerms())
        if len(opened) > 1:  # pods that an earlier batch placed next to anchors that this one places again
            yield Row("affinity.kept", (rho, d0), at_least(new.M, 1))
        elif not existing[d0].S:
            yield Row("affinity.kept", (rho, d0), at_least(new.selected, 1))
        elsewhere = [pods.M for d, pods in inside.items() if d != d0]
        others = [term for terms in elsewhere for term in terms]
        if others:
            yield Row("affinity.opened", (rho, d0), at_most([*others, *scale_terms(new.M, -most)], 0))


def topology_spread(rule_counts: PodRuleCounts, x: Variables, rho: int, rule: RuleTerms) -> Iterator[Row]:
    """Domains with new owners hold at most max_skew selected pods more than the domain with the fewest.

    count_d = selected pods that are there already + M_d + S_d        least <= count_d for all d; 0 with too few domains
    B_d + S_d <= most c[bears,d]        count_d - least <= max_skew + (most count_d) (1 - c[bears,d])

    c = 1 where an earlier batch put owners.
    """
    pod_rule = rule_counts.existing_pods.pod_rules[rho]
    if new := rule.domains.get(NO_DOMAIN):
        yield Row("spread.outside", (rho,), at_most(new.owners, 0))
    if rule.has_straddling:
        return
    selected, inside = [int(count) for count in rule_counts.selected_counts(rho)], rule.inside
    most = list(selected)
    for d, new in inside.items():
        most[d] += new.max_pods["M"] + new.max_pods["S"]
    bound_by_owners = [d for d, count in rule_counts.domain_counts(rho) if count.new_owners]
    low = max([0, *(selected[d] - pod_rule.max_skew for d in bound_by_owners if d not in inside)])
    high = min(most) if len(most) >= pod_rule.min_domains else 0
    least = x.model.add_variable(f"c_{rho}_least", low, high, cat=pulp.LpInteger)
    x.c[rho, "least", NO_DOMAIN] = least
    for d, new in inside.items():
        skew: Terms = [*new.selected, (least, -1)]
        if new.selected:
            yield Row("spread.least", (rho, d), at_least(skew, -selected[d]))
        if d in bound_by_owners:
            yield Row("spread.skew", (rho, d), at_most(skew, pod_rule.max_skew - selected[d]))
        elif new.owners:
            c = _add_binary(x, rho, "bears", d)
            yield Row("spread.bears", (rho, d), at_most([*new.owners, (c, -new.max_owners)], 0))
            row = at_most([*skew, (c, most[d])], pod_rule.max_skew + most[d] - selected[d])
            yield Row("spread.skew", (rho, d), row)


def quota(rule_counts: PodRuleCounts, x: Variables, rho: int, rule: RuleTerms) -> Iterator[Row]:
    """Yield rows that keep the queue's usage in the node group within its limit: M <= limit - held amounts.

    Nothing is added where running pods exceed it.
    """
    for d, new in rule.inside.items():
        yield Row("quota", (rho, d), at_most(new.M, max(0, int(rule_counts.quota_room(rho)[d]))))


FAMILIES = {
    "anti-affinity": anti_affinity,
    "separation": separation,
    "affinity": affinity,
    "spread": topology_spread,
    "quota": quota,
}


def _add_binary(x: Variables, rho: int, what: str, d: int) -> pulp.LpVariable:
    c = x.c[rho, what, d] = x.model.add_variable(f"c_{rho}_{what}_{d}", cat=pulp.LpBinary)
    return c


def set_rule_values(s: Sets, x: Variables, values: dict[str, float]) -> None:
    """Add the values of c that go with those of n, in a solution that keeps every rule."""
    if s.rule_counts is None:
        return
    for rho, rule in rule_terms(s, x, s.rule_counts, _implied_rules(s, x, s.rule_counts)):
        anchored = any(count.anchors for _, count in s.rule_counts.domain_counts(rho))
        anchored = anchored or any(_pod_count(new.M, values) for new in rule.inside.values())
        for d, new in rule.domains.items():
            owners = new.B if s.problem.pod_rules[rho].only_forbids else new.owners
            bears = _pod_count(owners, values)
            values_of = {"bears": bears, "counted": _pod_count(new.M, values), "opens": bears and not anchored}
            for what, true in values_of.items():
                if (rho, what, d) in x.c:
                    values[x.c[rho, what, d].name] = float(bool(true))
        if least := x.c.get((rho, "least", NO_DOMAIN)):
            selected = s.rule_counts.selected_counts(rho)
            for d, new in rule.inside.items():
                selected[d] += _pod_count(new.selected, values)
            values[least.name] = float(s.rule_counts.min_selected(rho, selected))


def _pod_count(terms: Terms, values: Mapping[str, float]) -> int:
    return round(value_of(terms, values))
