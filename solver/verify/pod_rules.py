"""The verifier's rules about pod rules, written from Kubernetes' text (InterPodAffinity and PodTopologySpread).

The words of `solver.verify` hold. A pod *owns* a rule that its role owns, and is *selected* by one that selects its
role. Pods that the plan evicts count as staying, except where they block new ones: these wait for their end, and
nothing else is certain by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from solver.problem import PodRule, RuleKind
from solver.verify.checked_plan import CheckedPlan, Findings, PodCounts, at


@dataclass(frozen=True, slots=True)
class _PodGroup:
    """So many pods of one role of one gang on one node; is_new: the plan puts them there."""

    gang: int
    role: int
    pods: int
    is_new: bool
    owns_rule: bool
    is_selected: bool

    @property
    def is_new_owner(self) -> bool:
        return self.is_new and self.owns_rule


def _pods_by_domain(x: CheckedPlan, rho: int) -> dict[int | None, list[_PodGroup]]:
    """Return domain (None: none) -> the gangs' pods there that own the rule or are selected by it."""
    found: dict[int | None, list[_PodGroup]] = defaultdict(list)
    staying = x.remaining_pods if x.problem.pod_rules[rho].rule_kind == "anti-affinity" else x.running_pods
    for g, gang in enumerate(x.problem.gangs):
        for new, counts in ((False, staying[g]), (True, x.new_pods[g])):
            for (t, node), pods in sorted(counts.items()):
                owns, selected = rho in gang.roles[t].owned_rules, rho in gang.roles[t].selecting_rules
                if owns or selected:
                    found[x.problem.pod_rules[rho].domains[node]].append(_PodGroup(g, t, pods, new, owns, selected))
    return found


def _rules_of_kind(
    x: CheckedPlan, rule_kind: RuleKind
) -> Iterator[tuple[int, PodRule, dict[int | None, list[_PodGroup]]]]:
    """Yield each rule of this kind with its index and its pods by domain."""
    for rho, rule in enumerate(x.problem.pod_rules):
        if rule.rule_kind == rule_kind:
            yield rho, rule, _pods_by_domain(x, rho)


def _new_owners(groups: Mapping[int | None, list[_PodGroup]]) -> dict[int | None, list[_PodGroup]]:
    """Return the new owners of each domain that has any."""
    owners = {d: [p for p in group if p.is_new_owner] for d, group in groups.items()}
    return {d: group for d, group in owners.items() if group}


def anti_affinity(x: CheckedPlan) -> Findings:
    """Required anti-affinity, both ways: no domain holds an owner and another pod that the rule selects, unless both
    were there before. Nodes outside all domains are free."""
    for rho, rule, groups in _rules_of_kind(x, "anti-affinity"):
        for d, group in groups.items():
            if d is None:
                continue
            owners = rule.owners_present[d] if rule.owners_present else 0
            for one in group:
                against_one = group if one.is_new else [p for p in group if p.is_new]
                others = sum(p.pods for p in against_one if p.is_selected)
                others -= one.is_selected and one.is_new
                against = one.owns_rule and (others or (one.is_new and rule.selected_present[d]))
                if against or (one.is_selected and one.is_new and owners):
                    fault = f"role {one.role} is in domain {d} of rule {rho} with a pod that may not be there"
                    yield at(one.gang), fault


def separation(x: CheckedPlan) -> Findings:
    """A new owner is in a domain, and in none with another pod that the rule selects, whether that one runs, is evicted
    or is new. An owner that runs asks for nothing any more."""
    for rho, rule, groups in _rules_of_kind(x, "separation"):
        for d, owners in _new_owners(groups).items():
            there = 0 if d is None else rule.selected_present[d] + sum(p.pods for p in groups[d] if p.is_selected)
            for owner in owners:
                if d is None or there - owner.is_selected > 0:
                    fault = f"role {owner.role} is in domain {d} of rule {rho} with pods that it is separated from"
                    yield at(owner.gang), fault


def quota(x: CheckedPlan) -> Findings:
    """In a node group that gets pods of a queue, the queue holds at most its limit: pods of no gang, those that run or
    are evicted, and new ones."""
    for rule in x.problem.pod_rules:
        if (limit := rule.quota) is None:
            continue
        held, first = list(rule.selected_present), dict[int, int]()
        for g, gang in enumerate(x.problem.gangs):
            for is_new, counts in ((False, x.running_pods[g]), (True, x.new_pods[g])):
                for (t, node), pods in sorted(counts.items()):
                    d = rule.domains[node]
                    if d is not None and gang.queue == limit.queue:
                        held[d] += pods * gang.roles[t].request[limit.resource]
                        if is_new and gang.roles[t].request[limit.resource]:
                            first.setdefault(d, g)
        for d, g in first.items():
            if held[d] > limit.limit:
                group = x.problem.node_groups[limit.node_group]
                yield at(g), f"its queue then holds {held[d]} of {limit.limit} in node group {group}"


def is_in_the_way(x: CheckedPlan, g: int, pods: PodCounts) -> bool:
    """Return whether an anti-affinity keeps some new pod apart from these pods of gang g."""
    roles = x.problem.gangs[g].roles
    for rho, rule, groups in _rules_of_kind(x, "anti-affinity"):
        for t, node in pods:
            d = rule.domains[node]
            new = [p for p in groups.get(d, ()) if p.is_new] if d is not None else []
            owns, selected = rho in roles[t].owned_rules, rho in roles[t].selecting_rules
            if any((owns and p.is_selected) or (selected and p.owns_rule) for p in new):
                return True
    return False


def affinity(x: CheckedPlan) -> Findings:
    """Required affinity: each new owner is in a domain with a selected pod that does not depend on it: one of no gang,
    one that runs, or a new one that is not an owner.

    Only where there is no such pod in any domain may all new owners be in one domain with one of them selected: it is
    admitted first, since it matches its own rule.
    """
    for rho, rule, groups in _rules_of_kind(x, "affinity"):
        safe = {d for d, pods in enumerate(rule.selected_present) if pods}
        for d, group in groups.items():
            if d is not None and any(p.is_selected and not p.is_new_owner for p in group):
                safe.add(d)
        asking = _new_owners(groups)
        one_domain = not safe and len(asking) == 1 and None not in asking
        first = one_domain and any(p.is_selected for group in asking.values() for p in group)
        for d, group in asking.items():
            if d is None or (d not in safe and not first):
                fault = f"role {group[0].role} is in domain {d} of rule {rho} without the pods it needs"
                yield at(group[0].gang), fault


def topology_spread(x: CheckedPlan) -> Findings:
    """Topology spread that forbids: in a domain with new owners, selected pods - fewest <= max_skew, the fewest over
    all domains, 0 with less than min_domains. No owner outside all domains."""
    for rho, rule, groups in _rules_of_kind(x, "spread"):
        count = list(rule.selected_present)
        for d, group in groups.items():
            if d is not None:
                count[d] += sum(p.pods for p in group if p.is_selected)
        fewest = min(count, default=0) if len(count) >= rule.min_domains else 0
        for d, (first, *_) in _new_owners(groups).items():
            if d is None or count[d] - fewest > rule.max_skew:
                yield at(first.gang), f"role {first.role} is in domain {d} of rule {rho}, which holds too many"


POD_RULES = (anti_affinity, separation, affinity, topology_spread, quota)
