"""Who is where, as far as relations ask: pods counted per relation and domain, with undo, beside `Room`.

One more pod at a time, it asks what a scheduler that knows no future would ask, and what the pods placed so far need of
it; so any order of placements that it allows ends in a state that `Relation` allows. Letters of docs/model.md: B pods
that only carry a relation, M pods that are only counted by it, S pods that are both; all three new.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from solver.problem import Gang, PodRule, Problem

NO_DOMAIN = -1
"""Stands for the nodes outside a relation's partition."""

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
NewCounts = tuple[int, int, int]
"""New pods in one domain: B, M, S."""


class RuleSubject(Protocol):
    """What a role says of relations (`Role`, `ShapeRole`)."""

    @property
    def owned_rules(self) -> tuple[int, ...]: ...

    @property
    def selecting_rules(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class DomainCount:
    """The pods of one relation in one domain. matched, bearing: that stand there whatever is planned. B, M, S: new
    ones."""

    existing_selected: int = 0
    existing_owners: int = 0
    B: int = 0
    M: int = 0
    S: int = 0

    @property
    def selected(self) -> int:
        return self.existing_selected + self.M + self.S

    @property
    def anchors(self) -> int:
        """Counted pods beside which others may come for sure."""
        return self.existing_selected + self.M


class ExistingPods:
    """What the pods that are there already mean for each relation. Shared by all `Neighbours` of a problem; nothing in
    it changes but what it remembers.

    only: on a cluster that holds nothing but the running pods of this gang.
    """

    def __init__(self, problem: Problem, only: Gang | None = None) -> None:
        self.pod_rules = problem.pod_rules
        self.node_count = len(problem.nodes)
        self.partitions = _node_partitions(problem.pod_rules)
        self.selected: list[dict[int, int]] = [{} for _ in self.pod_rules]
        self.owners: list[dict[int, int]] = [{} for _ in self.pod_rules]
        self._split_cache: dict[tuple[int, int], tuple[IntArray, IntArray, bool]] = {}
        if only is None:
            self._count_foreign_pods(problem)
        for gang in problem.gangs if only is None else (only,):
            self._count_gang(gang)

    def split_domains(self, rho: int, h: int, nodes: IntArray) -> tuple[IntArray, IntArray, bool]:
        """(domains of the relation that these nodes are in, the other ones, whether a node is in none). h: names the
        nodes."""
        key = (id(self.partitions[rho]), h)
        if key not in self._split_cache:
            inside = np.unique(self.partitions[rho][nodes])
            domains = inside[inside != NO_DOMAIN]
            self._split_cache[key] = (
                domains,
                np.setdiff1d(np.arange(len(self.pod_rules[rho].selected_present)), domains),
                len(domains) < len(inside),
            )
        return self._split_cache[key]

    def _count_foreign_pods(self, problem: Problem) -> None:
        """The pods of no gang."""
        for rho, relation in enumerate(problem.pod_rules):
            self.selected[rho] = {d: pods for d, pods in enumerate(relation.selected_present) if pods}
            self.owners[rho] = {d: pods for d, pods in enumerate(relation.owners_present) if pods}

    def _count_gang(self, gang: Gang) -> None:
        """The gang's running pods."""
        for p in gang.running:
            for counts, relations in (
                (self.selected, gang.roles[p.role].selecting_rules),
                (self.owners, gang.roles[p.role].owned_rules),
            ):
                for rho in relations:
                    d = int(self.partitions[rho][p.node])
                    counts[rho][d] = counts[rho].get(d, 0) + p.pods

    def without_pods(self, removed: Iterable[tuple[RuleSubject, int, int]]) -> ExistingPods:
        """The same without some of these pods: (role, node, number)."""
        other = copy.copy(self)
        other.selected, other.owners = (
            [dict(counts) for counts in self.selected],
            [dict(counts) for counts in self.owners],
        )
        for role, node, pods in removed:
            for counts, relations in ((other.selected, role.selecting_rules), (other.owners, role.owned_rules)):
                for rho in relations:
                    d = int(self.partitions[rho][node])
                    counts[rho][d] -= pods
                    if not counts[rho][d]:
                        del counts[rho][d]
        return other


def _node_partitions(relations: tuple[PodRule, ...]) -> list[IntArray]:
    """Relation -> node -> domain, NOWHERE for None; relations of one partition share the array."""
    known: dict[tuple[int | None, ...], IntArray] = {}
    found = []
    for relation in relations:
        if relation.domains not in known:
            known[relation.domains] = np.array(
                [NO_DOMAIN if d is None else d for d in relation.domains], dtype=np.int64
            )
        found.append(known[relation.domains])
    return found


class PodRuleCounts:
    """The standing pods and those that were placed since. enforced: the relations that are minded; all of them unless
    said otherwise."""

    def __init__(
        self, problem: Problem, existing_pods: ExistingPods | None = None, enforced: frozenset[int] | None = None
    ) -> None:
        self.existing_pods = existing_pods or ExistingPods(problem)
        self.enforced_rules = frozenset(range(len(problem.pod_rules))) if enforced is None else enforced
        self._new: dict[int, dict[int, NewCounts]] = {}
        self._log: list[tuple[int, int, int, NewCounts]] = []

    def copy(self) -> PodRuleCounts:
        """The same, to be changed apart from this one. It cannot undo what was placed before."""
        other = object.__new__(PodRuleCounts)
        other.existing_pods, other.enforced_rules = self.existing_pods, self.enforced_rules
        other._new = {rho: dict(domains) for rho, domains in self._new.items()}
        other._log = []
        return other

    def without_pods(self, removed: Iterable[tuple[RuleSubject, int, int]]) -> PodRuleCounts:
        """The same pods but some that stood there before: (role, node, number). Those that were placed since are taken
        back by `add`."""
        other = self.copy()
        other.existing_pods = self.existing_pods.without_pods(removed)
        return other

    def restrict_to(self, enforced: frozenset[int]) -> PodRuleCounts:
        """The same pods; only some relations are minded."""
        other = self.copy()
        other.enforced_rules = self.enforced_rules & enforced
        return other

    def rules_of(self, role: RuleSubject) -> list[int]:
        """Those that the role carries or is counted by, ascending."""
        return sorted(self.enforced_rules.intersection((*role.owned_rules, *role.selecting_rules)))

    def domain_count(self, rho: int, d: int) -> DomainCount:
        return DomainCount(
            self.existing_pods.selected[rho].get(d, 0),
            self.existing_pods.owners[rho].get(d, 0),
            *self._new.get(rho, {}).get(d, (0, 0, 0)),
        )

    def occupied_domains(self, rho: int) -> list[int]:
        """The domains that hold any of the relation's pods, NOWHERE left out."""
        return sorted(
            {*self.existing_pods.selected[rho], *self.existing_pods.owners[rho], *self._new.get(rho, {})} - {NO_DOMAIN}
        )

    def domain_counts(self, rho: int) -> Iterator[tuple[int, DomainCount]]:
        for d in self.occupied_domains(rho):
            yield d, self.domain_count(rho, d)

    def selected_counts(self, rho: int) -> IntArray:
        """Domain -> pods that the relation counts."""
        return self._count_array(rho, lambda crowd: crowd.selected)

    def min_selected(self, rho: int, selected: IntArray) -> int:
        """The count from which the skew of an even relation is measured."""
        enough = len(selected) >= self.existing_pods.pod_rules[rho].min_domains
        return int(selected.min()) if enough and len(selected) else 0

    def _count_array(self, rho: int, figure: Callable[[DomainCount], int]) -> IntArray:
        found = np.zeros(len(self.existing_pods.pod_rules[rho].selected_present), dtype=np.int64)
        for d, crowd in self.domain_counts(rho):
            found[d] = figure(crowd)
        return found

    def add_pods(self, role: RuleSubject, node: int, pods: int, stamp: int) -> None:
        """`pods` more of the role (less, where negative) on a node. stamp: a number that does not fall from call to
        call, for `undo`."""
        for rho in sorted({*role.owned_rules, *role.selecting_rules}):
            bears, matches = rho in role.owned_rules, rho in role.selecting_rules
            one: NewCounts = (int(bears and not matches), int(matches and not bears), int(bears and matches))
            change = (one[0] * pods, one[1] * pods, one[2] * pods)
            d = int(self.existing_pods.partitions[rho][node])
            self._change_counts(rho, d, change)
            self._log.append((stamp, rho, d, change))

    def _change_counts(self, rho: int, d: int, change: NewCounts) -> None:
        inside = self._new.setdefault(rho, {})
        b, m, s = inside.get(d, (0, 0, 0))
        after = (b + change[0], m + change[1], s + change[2])
        if any(after):
            inside[d] = after
        else:
            inside.pop(d, None)

    def undo(self, stamp: int) -> None:
        """Take back everything added with this stamp or a later one."""
        while self._log and self._log[-1][0] >= stamp:
            _, rho, d, (b, m, s) = self._log.pop()
            self._change_counts(rho, d, (-b, -m, -s))

    def allowed_nodes(self, role: RuleSubject, rules: frozenset[int] | None = None) -> BoolArray:
        """Node -> whether one more pod of the role may come there now. among: mind only these relations."""
        relations = [rho for rho in self.rules_of(role) if rules is None or rho in rules]
        found: BoolArray = np.ones(self.existing_pods.node_count, dtype=np.bool_)
        for rho in relations:
            domains, outside = _ALLOWED_DOMAINS[self.existing_pods.pod_rules[rho].rule_kind](
                self, rho, rho in role.owned_rules, rho in role.selecting_rules
            )
            found &= np.append(domains, outside)[self.existing_pods.partitions[rho]]
        return found

    def cap_fit_counts(self, role: RuleSubject, fit_counts: IntArray) -> IntArray:
        """No more pods of the role than this ever come to each node: its slots, less what `apart` forbids whatever
        comes later."""
        for rho in self.rules_of(role):
            if self.existing_pods.pod_rules[rho].rule_kind != "anti-affinity":
                continue
            bears, matches = rho in role.owned_rules, rho in role.selecting_rules
            domains, _ = _anti_affinity_domains(self, rho, bears, matches)
            fit_counts = np.where(np.append(domains, True)[self.existing_pods.partitions[rho]], fit_counts, 0)
            if bears and matches:
                fit_counts = np.where(
                    self.existing_pods.partitions[rho] == NO_DOMAIN, fit_counts, np.minimum(fit_counts, 1)
                )
        return fit_counts

    def max_new_pods(self, role: RuleSubject, h: int, nodes: IntArray) -> int:
        """No more new pods of the role than this ever come under domain h, which has these nodes, as long as no others
        come elsewhere."""
        found = len(self.existing_pods.partitions[0]) << 20
        for rho in self.rules_of(role):
            relation, bears, matches = (
                self.existing_pods.pod_rules[rho],
                rho in role.owned_rules,
                rho in role.selecting_rules,
            )
            inside, outside, free = self.existing_pods.split_domains(rho, h, nodes)
            if relation.rule_kind == "anti-affinity" and bears and matches and not free:
                domains, _ = _anti_affinity_domains(self, rho, bears, matches)
                found = min(found, int(domains[inside].sum()))
            if relation.rule_kind == "spread" and bears and matches and len(outside):
                counted = self.selected_counts(rho)
                floor = int(counted[outside].min()) if len(counted) >= relation.min_domains else 0
                found = min(found, int(np.maximum(floor + relation.max_skew - counted[inside], 0).sum()))
        return found

    def violations(self) -> list[tuple[int, int]]:
        """(relation, domain) wherever the new pods break an enforced relation; empty for every state that `open_to` led
        to."""
        return [
            (rho, d)
            for rho in sorted(self.enforced_rules & self._new.keys())
            for d in _VIOLATIONS[self.existing_pods.pod_rules[rho].rule_kind](self, rho)
        ]


AllowedDomains = tuple[BoolArray, bool]
"""Domain -> whether one more pod may come there; and whether it may come outside all domains."""


def _anti_affinity_domains(x: PodRuleCounts, rho: int, bears: bool, matches: bool) -> AllowedDomains:
    """Beside a counted pod none that carries the rule, and beside one that carries it none that it counts."""
    found = np.ones(len(x.existing_pods.pod_rules[rho].selected_present), dtype=np.bool_)
    for d, crowd in x.domain_counts(rho):
        found[d] = not ((bears and crowd.selected) or (matches and crowd.existing_owners + crowd.B + crowd.S))
    return found, True


def _affinity_domains(x: PodRuleCounts, rho: int, bears: bool, matches: bool) -> AllowedDomains:
    """One that carries the rule: beside an anchor; else where others did without one; else, if it is counted itself, as
    the first of all, anywhere.

    One that is only counted, and would be an anchor: anywhere, but first of all where others did without.
    """
    crowds = dict(x.domain_counts(rho))
    bold = [d for d, crowd in crowds.items() if crowd.S + crowd.B and not crowd.anchors]
    if not bears:
        found = np.full(len(x.existing_pods.pod_rules[rho].selected_present), not bold)
        found[bold] = True
        return found, True
    anchored = [d for d, crowd in crowds.items() if crowd.anchors]
    found = np.full(len(x.existing_pods.pod_rules[rho].selected_present), matches and not anchored and not bold)
    found[anchored or bold] = True
    return found, False


def _spread_domains(x: PodRuleCounts, rho: int, bears: bool, matches: bool) -> AllowedDomains:
    """counted + [it is counted itself] <= floor + skew, for a pod that carries the rule and for one that joins new pods
    that do."""
    counted = x.selected_counts(rho)
    within = counted + int(matches) <= x.min_selected(rho, counted) + x.existing_pods.pod_rules[rho].max_skew
    if bears:
        return within, False
    bound = x._count_array(rho, lambda crowd: crowd.B + crowd.S) > 0
    return within | ~bound, True


_ALLOWED_DOMAINS: Mapping[str, Callable[[PodRuleCounts, int, bool, bool], AllowedDomains]] = {
    "anti-affinity": _anti_affinity_domains,
    "affinity": _affinity_domains,
    "spread": _spread_domains,
}


def _anti_affinity_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    """Two different pods, one of which carries the rule and the other is counted, at least one of them new."""
    for d, c in x.domain_counts(rho):
        bearing = c.existing_owners + c.B + c.S
        if (c.B and c.selected) or (c.M and bearing) or (c.S and (c.selected > 1 or bearing > 1)):
            yield d


def _affinity_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    """New pods that carry the rule without an anchor, where there is one elsewhere, none of them is counted, or they
    are in several domains."""
    crowds = dict(x.domain_counts(rho))
    anchored = any(c.anchors for c in crowds.values())
    bold = [d for d, c in crowds.items() if c.B + c.S and not c.anchors]
    yield from (d for d in bold if anchored or len(bold) > 1 or not crowds[d].S)
    if _owners_outside(x, rho):
        yield NO_DOMAIN


def _spread_violations(x: PodRuleCounts, rho: int) -> Iterator[int]:
    counted = x.selected_counts(rho)
    most = x.min_selected(rho, counted) + x.existing_pods.pod_rules[rho].max_skew
    yield from (d for d, c in x.domain_counts(rho) if c.B + c.S and c.selected > most)
    if _owners_outside(x, rho):
        yield NO_DOMAIN


def _owners_outside(x: PodRuleCounts, rho: int) -> int:
    """New pods that carry the rule on nodes outside the partition."""
    b, _, s = x._new.get(rho, {}).get(NO_DOMAIN, (0, 0, 0))
    return b + s


_VIOLATIONS: Mapping[str, Callable[[PodRuleCounts, int], Iterator[int]]] = {
    "anti-affinity": _anti_affinity_violations,
    "affinity": _affinity_violations,
    "spread": _spread_violations,
}


def initial_rule_counts(problem: Problem) -> PodRuleCounts | None:
    """The neighbours of a problem with relations; None where there are none, so that nothing is asked."""
    return PodRuleCounts(problem) if problem.pod_rules else None
