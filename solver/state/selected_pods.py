"""Pods per pod rule and domain, with undo.

`allowed_nodes` asks, one pod at a time, the questions of an online scheduler, and what the pods placed so far need of
it; so any order of placements that it allows ends in a state that the `PodRule`s allow. Letters of
docs/develop/model.md for new pods: B own a rule, M are selected by it, S are both. Under a quota pods count as their
requests.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, PodRule, Problem, Role
from solver.semantics.gang_classes import ClassRole

NO_DOMAIN = -1
"""The nodes outside a rule's partition."""

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
Change = tuple[int, int, int, int, int]
"""Counts of one domain: new pods B, M, S, and evicted ones that are selected, and that are owners."""


_UNCHANGED: Change = (0, 0, 0, 0, 0)

AnyRole = Role | ClassRole


@dataclass(frozen=True, slots=True)
class DomainCount:
    """The pods of one rule in one domain: existing ones, and new ones (B, M, S)."""

    existing_selected: int = 0
    existing_owners: int = 0
    B: int = 0
    M: int = 0
    S: int = 0

    @property
    def selected(self) -> int:
        return self.existing_selected + self.M + self.S

    @property
    def owners(self) -> int:
        return self.existing_owners + self.B + self.S

    @property
    def new_owners(self) -> int:
        return self.B + self.S

    @property
    def anchors(self) -> int:
        """Selected pods that need no other one: owners may join them."""
        return self.existing_selected + self.M

    @property
    def is_unanchored(self) -> bool:
        """Return whether new owners are here and nothing that they may join."""
        return bool(self.new_owners) and not self.anchors


class ExistingPods:
    """Pods that exist in every plan, per rule; shared by all counts of a problem and never changed. only: on a cluster
    that holds nothing but the running pods of this gang."""

    def __init__(self, problem: Problem, only: Gang | None = None) -> None:
        self.pod_rules = problem.pod_rules
        self.node_count = len(problem.nodes)
        self.partitions = _node_partitions(problem.pod_rules)
        foreign = only is None
        self.selected = [+Counter(dict(enumerate(rule.selected_present if foreign else ()))) for rule in self.pod_rules]
        self.owners = [+Counter(dict(enumerate(rule.owners_present if foreign else ()))) for rule in self.pod_rules]
        self._split_cache: dict[tuple[int, int], tuple[IntArray, IntArray, bool]] = {}
        for gang in problem.gangs if only is None else (only,):
            for p in gang.running:
                self._add(gang.roles[p.role], p.node, p.pods)

    def _add(self, role: AnyRole, node: int, pods: int) -> None:
        """An owner that runs counts for no separation: it keeps nobody away."""
        for rho in role.selecting_rules:
            self.selected[rho][int(self.partitions[rho][node])] += pods * unit(self.pod_rules[rho], role)
        for rho in role.owned_rules:
            if self.pod_rules[rho].rule_kind != "separation":
                self.owners[rho][int(self.partitions[rho][node])] += pods

    def without_pods(self, removed: Iterable[tuple[AnyRole, int, int]]) -> ExistingPods:
        """Return the same without some of these pods: (role, node, number)."""
        other = copy.copy(self)
        other.selected, other.owners = [*map(Counter, self.selected)], [*map(Counter, self.owners)]
        for role, node, pods in removed:
            other._add(role, node, -pods)
        return other

    def with_limits(self, limits: Mapping[int, int]) -> ExistingPods:
        """Return the same under other limits of these quotas."""
        other = copy.copy(self)
        other.pod_rules = tuple(
            replace(rule, quota=replace(rule.quota, limit=limits[rho])) if rule.quota and rho in limits else rule
            for rho, rule in enumerate(self.pod_rules)
        )
        return other

    def split_domains(self, rho: int, h: int, nodes: IntArray) -> tuple[IntArray, IntArray, bool]:
        """Return (the rule's domains of these nodes, its other domains, whether a node is in none). h: names the
        nodes."""
        key = (id(self.partitions[rho]), h)
        if key not in self._split_cache:
            found = np.unique(self.partitions[rho][nodes])
            inside = found[found != NO_DOMAIN]
            outside = np.setdiff1d(np.arange(len(self.pod_rules[rho].selected_present)), inside)
            self._split_cache[key] = inside, outside, len(inside) < len(found)
        return self._split_cache[key]


def unit(rule: PodRule, role: AnyRole) -> int:
    """Return how much a pod of the role counts: one; under a quota, its request."""
    return 1 if rule.quota is None else role.request[rule.quota.resource]


def _node_partitions(rules: tuple[PodRule, ...]) -> list[IntArray]:
    """Rule -> node -> domain, NO_DOMAIN for None; rules of one partition share the array."""
    partitions = dict.fromkeys(rule.domains for rule in rules)
    arrays = {of: np.array([NO_DOMAIN if d is None else d for d in of], dtype=np.int64) for of in partitions}
    return [arrays[rule.domains] for rule in rules]


class PodRuleCounts:
    """Existing pods and those added or removed since. enforced_rules: the others are ignored; None for all."""

    def __init__(
        self, problem: Problem, existing_pods: ExistingPods | None = None, enforced: frozenset[int] | None = None
    ) -> None:
        self.existing_pods = existing_pods or ExistingPods(problem)
        self.enforced_rules = frozenset(range(len(problem.pod_rules))) if enforced is None else enforced
        self._changes: dict[int, dict[int, Change]] = {}
        self._log: list[tuple[int, int, int, Change]] = []
        self._totals: dict[int, tuple[IntArray, IntArray]] = {}
        self._own_totals: set[int] = set()

    def copy(self) -> PodRuleCounts:
        """Return an independent copy, which cannot undo what happened before. Totals are shared until either
        changes."""
        other = copy.copy(self)
        other._changes, other._log = {rho: dict(domains) for rho, domains in self._changes.items()}, []
        other._totals = dict(self._totals)
        self._own_totals, other._own_totals = set(), set()
        return other

    def without_pods(self, removed: Iterable[tuple[AnyRole, int, int]]) -> PodRuleCounts:
        """Return a copy without some existing pods: (role, node, number). New ones are removed by `add_pods`."""
        other, gone = self.copy(), list(removed)
        if gone:
            other.existing_pods = self.existing_pods.without_pods(gone)
            for rho in {rho for role, _, _ in gone for rho in (*role.owned_rules, *role.selecting_rules)}:
                other._totals.pop(rho, None)
        return other

    def restrict_to(self, enforced: frozenset[int]) -> PodRuleCounts:
        """Return a copy that ignores all other rules."""
        other = self.copy()
        other.enforced_rules = self.enforced_rules & enforced
        return other

    # ---- pods come and go

    def add_pods(self, role: AnyRole, node: int, pods: int, stamp: int) -> None:
        """Count `pods` more of the role on a node, or fewer. stamp: never falls from call to call; for `undo`."""
        owned, selecting = frozenset(role.owned_rules), frozenset(role.selecting_rules)
        for rho in sorted(owned | selecting):
            number = pods * unit(self.rule(rho), role)
            if rho not in owned:
                change: Change = (0, number, 0, 0, 0)
            else:
                change = (0, 0, number, 0, 0) if rho in selecting else (number, 0, 0, 0, 0)
            self._change_counts(rho, node, change, stamp)

    def evict_pods(self, role: AnyRole, node: int, pods: int, stamp: int) -> None:
        """Count existing pods of the role as gone, or fewer of them. Only anti-affinity counts on that: a new pod waits
        until they are. To other rules they stay."""
        for rho in sorted({*role.owned_rules, *role.selecting_rules}):
            if self.rule(rho).rule_kind == "anti-affinity":
                gone = pods * (rho in role.selecting_rules), pods * (rho in role.owned_rules)
                self._change_counts(rho, node, (0, 0, 0, *gone), stamp)

    def _change_counts(self, rho: int, node: int, change: Change, stamp: int) -> None:
        d = int(self.existing_pods.partitions[rho][node])
        self._add_change(rho, d, change)
        self._log.append((stamp, rho, d, change))

    def _add_change(self, rho: int, d: int, change: Change, sign: int = 1) -> None:
        inside = self._changes.setdefault(rho, {})
        b, m, s, selected, owners = inside.get(d, _UNCHANGED)
        new_b, new_m, new_s, gone_selected, gone_owners = change
        b, m, s = b + sign * new_b, m + sign * new_m, s + sign * new_s
        inside[d] = (b, m, s, selected + sign * gone_selected, owners + sign * gone_owners)
        if inside[d] == _UNCHANGED:
            del inside[d]
        if rho in self._totals and d != NO_DOMAIN:
            if rho not in self._own_totals:
                self._totals[rho] = self._totals[rho][0].copy(), self._totals[rho][1].copy()
                self._own_totals.add(rho)
            all_selected, all_owners = self._totals[rho]
            all_selected[d] += sign * (new_m + new_s - gone_selected)
            all_owners[d] += sign * (new_b + new_s - gone_owners)

    def undo(self, stamp: int) -> None:
        """Take back everything added with this stamp or a later one."""
        while self._log and self._log[-1][0] >= stamp:
            _, rho, d, change = self._log.pop()
            self._add_change(rho, d, change, -1)

    # ---- existing pods

    def rule(self, rho: int) -> PodRule:
        return self.existing_pods.pod_rules[rho]

    def rules_of(self, role: AnyRole) -> list[int]:
        """Return the enforced rules that the role owns or that select it, ascending."""
        return sorted(self.enforced_rules.intersection((*role.owned_rules, *role.selecting_rules)))

    def domain_counts(self, rho: int) -> Iterator[tuple[int, DomainCount]]:
        """(domain, its count) for each domain with pods of the rule, ascending."""
        existing = self.existing_pods
        for d in sorted({*existing.selected[rho], *existing.owners[rho], *self._changes.get(rho, ())} - {NO_DOMAIN}):
            if (count := self.domain_count(rho, d)) != DomainCount():
                yield d, count

    def domain_count(self, rho: int, d: int) -> DomainCount:
        existing, (b, m, s, selected, owners) = self.existing_pods, self._changes.get(rho, {}).get(d, _UNCHANGED)
        return DomainCount(existing.selected[rho][d] - selected, existing.owners[rho][d] - owners, b, m, s)

    def selected_counts(self, rho: int) -> IntArray:
        """Return domain -> pods that the rule selects; not to be changed."""
        return self.totals(rho)[0]

    def count_array(self, rho: int, figure: Callable[[DomainCount], int]) -> IntArray:
        """Return domain -> a figure of its count."""
        found = np.zeros(len(self.rule(rho).selected_present), dtype=np.int64)
        for d, count in self.domain_counts(rho):
            found[d] = figure(count)
        return found

    def totals(self, rho: int) -> tuple[IntArray, IntArray]:
        """Return domain -> pods that the rule selects, and owners. Kept up to date, since rules that keep apart are
        asked for every pod; not to be changed."""
        if rho not in self._totals:
            domains = len(self.rule(rho).selected_present)
            selected, owners = np.zeros(domains + 1, dtype=np.int64), np.zeros(domains + 1, dtype=np.int64)
            for found, existing in ((selected, self.existing_pods.selected), (owners, self.existing_pods.owners)):
                for d, number in existing[rho].items():
                    found[d] = number  # that of NO_DOMAIN is the last, which is cut off
            for d, (b, m, s, gone_selected, gone_owners) in self._changes.get(rho, {}).items():
                selected[d] += m + s - gone_selected
                owners[d] += b + s - gone_owners
            self._totals[rho] = selected[:domains], owners[:domains]
            self._own_totals.add(rho)
        return self._totals[rho]

    def min_selected(self, rho: int, selected: IntArray) -> int:
        """The count from which the skew of a spread rule is measured."""
        return int(selected.min()) if len(selected) >= max(1, self.rule(rho).min_domains) else 0

    # ---- what rules allow

    def allowed_nodes(self, role: AnyRole, rules: frozenset[int] | None = None) -> BoolArray:
        """Return node -> whether one more pod of the role may be placed there now. rules: the rules that count; None
        for all."""
        asked = self.rules_of(role) if rules is None else sorted(rules.intersection(self.rules_of(role)))
        apart = [rho for rho in asked if self.rule(rho).keeps_apart]
        found = self._nodes_apart(role, apart)
        for rho in sorted(set(asked).difference(apart)):
            domains, outside = self._allowed_domains(rho, role)
            found &= np.append(domains, outside)[self.existing_pods.partitions[rho]]
        return found

    def _nodes_apart(self, role: AnyRole, rules: Iterable[int]) -> BoolArray:
        """Return node -> whether these rules, which keep apart, allow one more pod of the role there: no owner next to
        a selected pod or, of a separation, outside all domains, and no selected pod next to an owner."""
        by_partition: dict[int, list[int]] = {}
        for rho in rules:
            by_partition.setdefault(id(self.existing_pods.partitions[rho]), []).append(rho)
        found: BoolArray = np.ones(self.existing_pods.node_count, dtype=np.bool_)
        owned, selecting = frozenset(role.owned_rules), frozenset(role.selecting_rules)
        for same in by_partition.values():
            pods = [self.totals(rho)[0] for rho in same if rho in owned]
            pods += [self.totals(rho)[1] for rho in same if rho in selecting]
            is_inside = any(self.rule(rho).rule_kind == "separation" for rho in owned.intersection(same))
            free = ~np.logical_or.reduce(pods)
            found &= np.append(free, not is_inside)[self.existing_pods.partitions[same[0]]]
        return found

    def _allowed_domains(self, rho: int, role: AnyRole) -> AllowedDomains:
        if self.rule(rho).quota is not None:
            each = unit(self.rule(rho), role)
            return (self.quota_room(rho) >= each) | (not each), True
        allowed = _ALLOWED_DOMAINS[self.rule(rho).rule_kind]
        return allowed(self, rho, rho in role.owned_rules, rho in role.selecting_rules)

    def quota_room(self, rho: int) -> IntArray:
        """Return domain -> the rest of a quota there; below 0 where running pods exceed it."""
        quota = self.rule(rho).quota
        room: IntArray = (quota.limit if quota else 0) - self.totals(rho)[0]
        return room

    def _quota_pods(self, rho: int, role: AnyRole) -> IntArray:
        """Return domain -> the most new pods of the role under the quota."""
        if not (each := unit(self.rule(rho), role)):
            return np.full(len(self.rule(rho).selected_present), self.existing_pods.node_count << 20)
        pods: IntArray = np.maximum(self.quota_room(rho) // each, 0)
        return pods

    def with_limits(self, limits: Mapping[int, int]) -> PodRuleCounts:
        """Return a copy under other limits of these quotas."""
        other = self.copy()
        other.existing_pods = self.existing_pods.with_limits(limits)
        return other

    def cap_fit_counts(self, role: AnyRole, fit_counts: IntArray) -> IntArray:
        """Return node -> the most pods of the role that it can ever get: pods that fit and that rules which only forbid
        allow."""
        rules = self.rules_of(role)
        apart = [rho for rho in rules if self.rule(rho).keeps_apart]
        fit_counts = np.where(self._nodes_apart(role, apart), fit_counts, 0)
        for rho in sorted(frozenset(role.owned_rules).intersection(role.selecting_rules, apart)):
            is_outside = self.existing_pods.partitions[rho] == NO_DOMAIN
            fit_counts = np.where(is_outside, fit_counts, np.minimum(fit_counts, 1))
        for rho in (rho for rho in rules if self.rule(rho).quota is not None):
            most = np.append(self._quota_pods(rho, role), fit_counts.max(initial=0))
            fit_counts = np.minimum(fit_counts, most[self.existing_pods.partitions[rho]])
        return fit_counts

    def max_new_pods(self, role: AnyRole, h: int, nodes: IntArray) -> int:
        """Return the most new pods of the role that ever come to domain h with these nodes, while none come
        elsewhere."""
        most = self.existing_pods.node_count << 20
        for rho in self.rules_of(role):
            rule = self.rule(rho)
            if rule.quota is None and (rho not in role.owned_rules or rho not in role.selecting_rules):
                continue
            inside, outside, reaches_outside = self.existing_pods.split_domains(rho, h, nodes)
            if rule.quota is not None:
                most = most if reaches_outside else min(most, int(self._quota_pods(rho, role)[inside].sum()))
                continue
            if rule.only_forbids and not reaches_outside:
                selected, owners = self.totals(rho)
                most = min(most, int(((selected + owners)[inside] == 0).sum()))
            if rule.rule_kind == "spread" and len(outside):
                selected = self.selected_counts(rho)
                least = int(selected[outside].min()) if len(selected) >= rule.min_domains else 0
                most = min(most, int(np.maximum(least + rule.max_skew - selected[inside], 0).sum()))
        return most

    def violations(self) -> list[tuple[int, int]]:
        """(rule, domain) wherever new pods break an enforced rule; empty where `allowed_nodes` was obeyed."""
        rules = sorted(self.enforced_rules & self._changes.keys())
        return [(rho, d) for rho in rules for d in _VIOLATIONS[self.rule(rho).rule_kind](self, rho)]


AllowedDomains = tuple[BoolArray, bool]
"""(domain -> whether one more pod may come there, whether it may come outside all domains)."""


def _affinity_domains(x: PodRuleCounts, rho: int, owns: bool, selected: bool) -> AllowedDomains:
    """Return an owner: next to an anchor; else next to new owners without one; else, if it is selected itself, anywhere
    as the first. A selected pod that owns nothing becomes an anchor: first next to owners without one, then
    anywhere."""
    counts = dict(x.domain_counts(rho))
    unanchored = [d for d, count in counts.items() if count.is_unanchored]
    anchored = [d for d, count in counts.items() if count.anchors] if owns else []
    anywhere = not unanchored and (not owns or (selected and not anchored))
    found = np.full(len(x.rule(rho).selected_present), anywhere)
    found[anchored or unanchored] = True
    return found, not owns


def _spread_domains(x: PodRuleCounts, rho: int, owns: bool, selected: bool) -> AllowedDomains:
    """count + [it is selected itself] <= least count + max_skew, for an owner and for a pod that joins new owners."""
    counts = x.selected_counts(rho)
    within = counts + int(selected) <= x.min_selected(rho, counts) + x.rule(rho).max_skew
    if owns:
        return within, False
    return within | (x.count_array(rho, lambda count: count.new_owners) == 0), True


_ALLOWED_DOMAINS = {"affinity": _affinity_domains, "spread": _spread_domains}


def _anti_affinity_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    """Two different pods, an owner and a selected one, at least one of them new."""
    for d, c in x.domain_counts(rho):
        if (c.B and c.selected) or (c.M and c.owners) or (c.S and (c.selected > 1 or c.owners > 1)):
            yield d


def _separation_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    """As of anti-affinity; or a new owner outside all domains."""
    yield from _anti_affinity_violations(x, rho)
    if x.domain_count(rho, NO_DOMAIN).new_owners:
        yield NO_DOMAIN


def _affinity_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    """Yield new owners without an anchor: one is elsewhere, none of them is selected, or they are in several
    domains."""
    counts = dict(x.domain_counts(rho))
    anchored = any(c.anchors for c in counts.values())
    unanchored = [d for d, c in counts.items() if c.is_unanchored]
    if anchored or len(unanchored) > 1:
        yield from unanchored
    else:
        yield from (d for d in unanchored if not counts[d].S)
    if x.domain_count(rho, NO_DOMAIN).new_owners:
        yield NO_DOMAIN


def _spread_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    """Yield new owners in a domain with more than the least count + max_skew."""
    counts = x.selected_counts(rho)
    most = x.min_selected(rho, counts) + x.rule(rho).max_skew
    for d, c in x.domain_counts(rho):
        if c.new_owners and c.selected > most:
            yield d
    if x.domain_count(rho, NO_DOMAIN).new_owners:
        yield NO_DOMAIN


def _quota_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    """Yield new pods in a domain with more than the limit."""
    room = x.quota_room(rho)
    for d, c in x.domain_counts(rho):
        if c.M > 0 and room[d] < 0:
            yield d


_VIOLATIONS = {
    "anti-affinity": _anti_affinity_violations,
    "separation": _separation_violations,
    "quota": _quota_violations,
    "affinity": _affinity_violations,
    "spread": _spread_violations,
}


def initial_rule_counts(problem: Problem) -> PodRuleCounts | None:
    """The counts with existing pods only; None without pod rules, so that nothing is asked."""
    return PodRuleCounts(problem) if problem.pod_rules else None
