"""The verifier's rules about single gangs: the decision, its pods and where they are."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from solver.verify.checked_plan import CheckedPlan, Findings


def decisions(x: CheckedPlan) -> Findings:
    """One decision for each gang, in order; placements name roles and nodes that exist, hold at least one pod, are
    sorted by (role, node) and merged."""
    order = [decision.gang for decision in x.plan.decisions]
    if order != list(range(len(x.problem.gangs))):
        yield ("decisions",), f"there must be one decision for each of the {len(x.problem.gangs)} gangs, in order"
    for i, decision in enumerate(x.plan.decisions):
        if decision.action not in ("start", "keep", "wait", "evict"):
            yield ("decisions", i, "action"), f"{decision.action!r} is none of start, keep, wait, evict"
        if not 0 <= decision.gang < len(x.problem.gangs):
            continue
        for k, place in enumerate(decision.placements):
            if not x.is_valid_placement(decision.gang, place):
                yield ("decisions", i, "placements", k), f"no such role or node, or no pods: {place}"
        keys = [(place.role, place.node) for place in decision.placements]
        if any(first >= second for first, second in pairwise(keys)):
            yield ("decisions", i, "placements"), "not sorted by (role, node), or a pair occurs twice"


def actions(x: CheckedPlan) -> Findings:
    """keep exactly when pods run and they alone meet the minima of the gang, its roles and (as totals) its subgroups,
    unless the gang is evicted; a waiting gang has no new pods; an admitted one meets all these minima."""
    for g, decision in sorted(x.decisions.items()):
        if decision.action == "evict":
            continue
        kept = bool(x.running_pods[g]) and x.meets_minima(g, x.running_pods[g])
        if kept != (decision.action == "keep"):
            message = f"is {decision.action}, but its running pods {'' if kept else 'do not '}meet its minima"
            yield ("decisions", g, "action"), message
        if decision.action == "wait" and x.new_pods[g]:
            yield ("decisions", g, "placements"), "waits, yet gets new pods"
        if decision.action != "wait" and not x.meets_minima(g, x.placed_pods[g]):
            yield ("decisions", g, "placements"), "is admitted below a minimum of the gang, a role or a subgroup"


def running_pods_stay(x: CheckedPlan) -> Findings:
    """Running pods never move: on each node each role has at least as many pods as run there and are not evicted."""
    for g in sorted(x.decisions):
        for (role, node), pods in sorted(x.remaining_pods[g].items()):
            if x.placed_pods[g].get((role, node), 0) < pods:
                message = f"{pods} running pods of role {role} on node {node} do not all stay"
                yield ("decisions", g, "placements"), message


def replicas(x: CheckedPlan) -> Findings:
    """No role gets pods beyond its replicas; one that already runs more of them gets none."""
    for g, gang, _ in x.admitted_gangs():
        run, placed = x.pods_per_role(g, x.running_pods[g]), x.pods_per_role(g, x.placed_pods[g])
        for t, role in enumerate(gang.roles):
            if placed[t] > max(role.replicas, run[t]):
                message = f"role {t} has {placed[t]} pods, more than its {role.replicas} replicas"
                yield ("decisions", g, "placements"), message


def domains(x: CheckedPlan) -> Findings:
    """`domains` are the leaves of the placed nodes: sorted, each once; nodes outside the topology add nothing."""
    for g, decision in sorted(x.decisions.items()):
        leaves = {x.problem.nodes[node].leaf for _, node in x.placed_pods[g]} - {None}
        if list(decision.domains) != sorted(leaf for leaf in leaves if leaf is not None):
            yield ("decisions", g, "domains"), "are not the leaves of the placed nodes in order"


def eligibility(x: CheckedPlan) -> Findings:
    """A new pod's node is of a class that its role may use."""
    for g, new in enumerate(x.new_pods):
        for role, node in new:
            if x.problem.nodes[node].node_class not in x.problem.gangs[g].roles[role].node_classes:
                message = f"role {role} may not use node {node}: its class is {x.problem.nodes[node].node_class}"
                yield ("decisions", g, "placements"), message


def topology(x: CheckedPlan) -> Findings:
    """Hard topology of tier d: all pods of a gang that grows, running ones included, share one maximal domain of tier
    <= d.

    A node without such a domain cannot be used. Nothing is required when d is above every hypernode's tier.
    """
    for g, gang, _ in x.admitted_gangs():
        if gang.topology is None or not x.is_binding(gang.topology) or not x.new_pods[g]:
            continue
        used = {x.domain(node, gang.topology.tier) for _, node in x.placed_pods[g]}
        if len(used) != 1 or None in used:
            yield ("decisions", g, "placements"), f"not inside one domain of tier {gang.topology.tier} or lower"


def subgroups(x: CheckedPlan) -> Findings:
    """Of a gang that grows, each subgroup has complete parts only: its pods are a multiple of its size, and with a hard
    topology of tier d they are so inside each maximal domain of tier <= d, with none outside such domains."""
    for g, gang, _ in x.admitted_gangs():
        if not x.new_pods[g]:
            continue
        for k, part in enumerate(gang.subgroups):
            pods: Counter[int | None] = Counter()
            for (role, node), amount in x.placed_pods[g].items():
                if role in part.roles:
                    pods[x.domain(node, part.topology.tier) if x.is_binding(part.topology) else 0] += amount
            if pods[None] or any(amount % part.size for amount in pods.values()):
                yield ("decisions", g, "placements"), f"subgroup {k} has a part that is not whole inside its domain"
