"""The verifier's rules about relations between pods, from Kubernetes' text (InterPodAffinity and PodTopologySpread), in
words of their own.

The words of `solver.verify` hold. A pod *carries* a relation that its role bears, and is *counted* by one that its role
matches. Pods that the plan evicts are taken to stay where they are: they are still there when the new pods are looked
at.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from solver.problem import Bond, Relation
from solver.verify.ledger import Findings, Ledger


@dataclass(frozen=True, slots=True)
class _Pods:
    """So many pods of one role of one gang on one node; new: the plan puts them there."""

    gang: int
    role: int
    pods: int
    new: bool
    carries: bool
    counted: bool


def _inside(x: Ledger, rho: int) -> dict[int | None, list[_Pods]]:
    """Domain (None: none) -> the pods of gangs there that the relation has to do with."""
    found: dict[int | None, list[_Pods]] = defaultdict(list)
    for g, gang in enumerate(x.problem.gangs):
        for new, counts in ((False, x.running[g]), (True, x.new[g])):
            for (t, node), pods in sorted(counts.items()):
                carries, counted = rho in gang.roles[t].bears, rho in gang.roles[t].matches
                if carries or counted:
                    found[x.problem.relations[rho].domains[node]].append(_Pods(g, t, pods, new, carries, counted))
    return found


def _of(x: Ledger, kind: Bond) -> list[tuple[int, Relation]]:
    return [(rho, relation) for rho, relation in enumerate(x.problem.relations) if relation.kind == kind]


def apart(x: Ledger) -> Findings:
    """Required anti-affinity, both ways: in no domain are there two pods, one of which carries the rule while the other
    is counted, unless both were there before. Pods of other owners count too; nodes outside all domains are free."""
    for rho, relation in _of(x, "apart"):
        for d, group in _inside(x, rho).items():
            if d is None:
                continue
            guards = relation.guards[d] if relation.guards else 0
            for one in group:
                others = sum(p.pods for p in group if p.counted and (one.new or p.new)) - (one.counted and one.new)
                against = one.carries and (others or (one.new and relation.present[d]))
                if against or (one.counted and one.new and guards):
                    yield (
                        ("decisions", one.gang, "placements"),
                        f"role {one.role} is in domain {d} of relation {rho} with a pod that may not be there",
                    )


def together(x: Ledger) -> Findings:
    """Required affinity: each new pod that carries the rule is in a domain with a counted pod that need not wait for
    it: one of another owner, one that runs, or a new one that does not carry the rule. Only where there is no such pod
    in any domain may they all be in one domain with one of them counted: it is let in first, since it matches its own
    rule."""
    for rho, relation in _of(x, "together"):
        groups = _inside(x, rho)
        safe = {d for d, pods in enumerate(relation.present) if pods}
        safe |= {
            d
            for d, group in groups.items()
            if d is not None and any(p.counted and not (p.new and p.carries) for p in group)
        }
        asking = {
            d: [p for p in group if p.new and p.carries]
            for d, group in groups.items()
            if any(p.new and p.carries for p in group)
        }
        first = (
            not safe
            and len(asking) == 1
            and None not in asking
            and any(p.counted for group in asking.values() for p in group)
        )
        for d, group in asking.items():
            if d is None or (d not in safe and not first):
                yield (
                    ("decisions", group[0].gang, "placements"),
                    f"role {group[0].role} is in domain {d} of relation {rho} without the pods it needs",
                )


def even(x: Ledger) -> Findings:
    """Topology spread that forbids: in a domain that got new pods that carry the rule, counted pods - fewest <=
    skew; the fewest over all domains, 0 where there are less domains than asked for. None of these pods outside all
    domains."""
    for rho, relation in _of(x, "even"):
        groups = _inside(x, rho)
        count = [pods + sum(p.pods for p in groups.get(d, ()) if p.counted) for d, pods in enumerate(relation.present)]
        fewest = min(count, default=0) if len(count) >= relation.least_domains else 0
        for d, group in groups.items():
            asking = [p for p in group if p.new and p.carries]
            if asking and (d is None or count[d] - fewest > relation.skew):
                yield (
                    ("decisions", asking[0].gang, "placements"),
                    f"role {asking[0].role} is in domain {d} of relation {rho}, which holds too many",
                )


RELATION_RULES = (apart, together, even)
