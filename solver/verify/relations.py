"""The verifier's rules about relations between pods, from Kubernetes' text (InterPodAffinity and PodTopologySpread), in
words of their own.

The words of `solver.verify` hold. A pod *carries* a relation that its role bears, and is *counted* by one that its role
matches. Pods that the plan evicts are taken to stay where they are: they are still there when the new pods are looked
at.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from solver.problem import PodRule, RuleKind
from solver.verify.ledger import CheckedPlan, Findings


@dataclass(frozen=True, slots=True)
class _PodGroup:
    """So many pods of one role of one gang on one node; new: the plan puts them there."""

    gang: int
    role: int
    pods: int
    is_new: bool
    owns_rule: bool
    is_selected: bool


def _pods_by_domain(x: CheckedPlan, rho: int) -> dict[int | None, list[_PodGroup]]:
    """Domain (None: none) -> the pods of gangs there that the relation has to do with."""
    found: dict[int | None, list[_PodGroup]] = defaultdict(list)
    for g, gang in enumerate(x.problem.gangs):
        for new, counts in ((False, x.running_pods[g]), (True, x.new_pods[g])):
            for (t, node), pods in sorted(counts.items()):
                carries, counted = rho in gang.roles[t].owned_rules, rho in gang.roles[t].selecting_rules
                if carries or counted:
                    found[x.problem.pod_rules[rho].domains[node]].append(_PodGroup(g, t, pods, new, carries, counted))
    return found


def _rules_of_kind(x: CheckedPlan, rule_kind: RuleKind) -> list[tuple[int, PodRule]]:
    return [(rho, relation) for rho, relation in enumerate(x.problem.pod_rules) if relation.rule_kind == rule_kind]


def anti_affinity(x: CheckedPlan) -> Findings:
    """Required anti-affinity, both ways: in no domain are there two pods, one of which carries the rule while the other
    is counted, unless both were there before. Pods of other owners count too; nodes outside all domains are free."""
    for rho, relation in _rules_of_kind(x, "anti-affinity"):
        for d, group in _pods_by_domain(x, rho).items():
            if d is None:
                continue
            guards = relation.owners_present[d] if relation.owners_present else 0
            for one in group:
                others = sum(p.pods for p in group if p.is_selected and (one.is_new or p.is_new)) - (
                    one.is_selected and one.is_new
                )
                against = one.owns_rule and (others or (one.is_new and relation.selected_present[d]))
                if against or (one.is_selected and one.is_new and guards):
                    yield (
                        ("decisions", one.gang, "placements"),
                        f"role {one.role} is in domain {d} of relation {rho} with a pod that may not be there",
                    )


def affinity(x: CheckedPlan) -> Findings:
    """Required affinity: each new pod that carries the rule is in a domain with a counted pod that need not wait for
    it: one of another owner, one that runs, or a new one that does not carry the rule. Only where there is no such pod
    in any domain may they all be in one domain with one of them counted: it is let in first, since it matches its own
    rule."""
    for rho, relation in _rules_of_kind(x, "affinity"):
        groups = _pods_by_domain(x, rho)
        safe = {d for d, pods in enumerate(relation.selected_present) if pods}
        safe |= {
            d
            for d, group in groups.items()
            if d is not None and any(p.is_selected and not (p.is_new and p.owns_rule) for p in group)
        }
        asking = {
            d: [p for p in group if p.is_new and p.owns_rule]
            for d, group in groups.items()
            if any(p.is_new and p.owns_rule for p in group)
        }
        first = (
            not safe
            and len(asking) == 1
            and None not in asking
            and any(p.is_selected for group in asking.values() for p in group)
        )
        for d, group in asking.items():
            if d is None or (d not in safe and not first):
                yield (
                    ("decisions", group[0].gang, "placements"),
                    f"role {group[0].role} is in domain {d} of relation {rho} without the pods it needs",
                )


def topology_spread(x: CheckedPlan) -> Findings:
    """Topology spread that forbids: in a domain that got new pods that carry the rule, counted pods - fewest <=
    skew; the fewest over all domains, 0 where there are less domains than asked for. None of these pods outside all
    domains."""
    for rho, relation in _rules_of_kind(x, "spread"):
        groups = _pods_by_domain(x, rho)
        count = [
            pods + sum(p.pods for p in groups.get(d, ()) if p.is_selected)
            for d, pods in enumerate(relation.selected_present)
        ]
        fewest = min(count, default=0) if len(count) >= relation.min_domains else 0
        for d, group in groups.items():
            asking = [p for p in group if p.is_new and p.owns_rule]
            if asking and (d is None or count[d] - fewest > relation.max_skew):
                yield (
                    ("decisions", asking[0].gang, "placements"),
                    f"role {asking[0].role} is in domain {d} of relation {rho}, which holds too many",
                )


AFFINITY_RULES = (anti_affinity, affinity, topology_spread)
