"""The verifier's rules about single gangs: the decision, its pods and where they are."""

from __future__ import annotations

from collections.abc import Iterator

from solver.problem import Gang
from solver.verify.checked_plan import CheckedPlan, Findings, PodCounts, at, is_sorted


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
        if not is_sorted(decision.placements):
            yield ("decisions", i, "placements"), "not sorted by (role, node), or a pair occurs twice"


def actions(x: CheckedPlan) -> Findings:
    """keep exactly when pods run and they alone meet the minima of the gang, its roles and (as totals) its subgroups,
    unless the gang is evicted; a waiting gang has no new pods; an admitted one meets all these minima."""
    for g, decision in sorted(x.decisions.items()):
        if decision.action == "evict":
            continue
        kept = bool(x.running_pods[g]) and x.meets_minima(g, x.running_pods[g])
        if kept != (decision.action == "keep"):
            negation = "" if kept else "do not "
            yield at(g, "action"), f"is {decision.action}, but its running pods {negation}meet its minima"
        if decision.action == "wait" and x.new_pods[g]:
            yield at(g), "waits, yet gets new pods"
        if decision.action != "wait" and not x.meets_minima(g, x.placed_pods[g]):
            yield at(g), "is admitted below a minimum of the gang, a role or a subgroup"


def running_pods_stay(x: CheckedPlan) -> Findings:
    """Running pods never move: on each node each role has at least as many pods as run there and are not evicted."""
    for g in sorted(x.decisions):
        if x.placed_pods[g] is x.remaining_pods[g]:
            continue
        for (role, node), pods in sorted(x.remaining_pods[g].items()):
            if x.placed_pods[g].get((role, node), 0) < pods:
                yield at(g), f"{pods} running pods of role {role} on node {node} do not all stay"


def replicas(x: CheckedPlan) -> Findings:
    """No role gets pods beyond its replicas; one that already runs more of them gets none."""
    for g, gang, _ in x.admitted_gangs():
        run, placed = x.pods_per_role(g, x.running_pods[g]), x.pods_per_role(g, x.placed_pods[g])
        for t, role in enumerate(gang.roles):
            if placed[t] > max(role.replicas, run[t]):
                yield at(g), f"role {t} has {placed[t]} pods, more than its {role.replicas} replicas"


def domains(x: CheckedPlan) -> Findings:
    """`domains` are the leaves of the placed nodes: sorted, each once; nodes outside the topology add nothing."""
    for g, decision in sorted(x.decisions.items()):
        leaves = {x.problem.nodes[node].leaf for _, node in x.placed_pods[g]} - {None}
        if list(decision.domains) != sorted(leaf for leaf in leaves if leaf is not None):
            yield at(g, "domains"), "are not the leaves of the placed nodes in order"


def eligibility(x: CheckedPlan) -> Findings:
    """A new pod's node is of a class that its role may use."""
    for g, new in enumerate(x.new_pods):
        for role, node in new:
            node_class = x.problem.nodes[node].node_class
            if node_class not in x.problem.gangs[g].roles[role].node_classes:
                yield at(g), f"role {role} may not use node {node}: its class is {node_class}"


def node_groups(x: CheckedPlan) -> Findings:
    """A new pod's node is in no node group that is closed to the gang's queue."""
    for g, new in enumerate(x.new_pods):
        for role, node in new:
            if x.is_closed(g, node):
                yield at(g), f"role {role} may not use node {node}: its node group is closed to the gang's queue"


def topology(x: CheckedPlan) -> Findings:
    """Hard topology of tier d: all pods of a gang that grows, running ones included, share one maximal domain of tier
    <= d.

    A node without such a domain cannot be used. Nothing is required when d is above every hypernode's tier.
    """
    for g, gang, _ in x.admitted_gangs():
        if x.new_pods[g] and (fault := topology_fault(x, gang, x.placed_pods[g])):
            yield at(g), fault


def topology_fault(x: CheckedPlan, gang: Gang, pods: PodCounts) -> str:
    if gang.topology is None or not x.is_binding(gang.topology):
        return ""
    used = {x.domain(node, gang.topology.tier) for _, node in pods}
    whole = len(used) == 1 and None not in used
    return "" if whole else f"not inside one domain of tier {gang.topology.tier} or lower"


def subgroups(x: CheckedPlan) -> Findings:
    """Of a gang that grows, each subgroup has complete parts only: its pods are a multiple of its size, and with a hard
    topology of tier d they are so inside each maximal domain of tier <= d, with none outside such domains."""
    for g, gang, _ in x.admitted_gangs():
        for fault in subgroup_faults(x, gang, x.placed_pods[g]) if x.new_pods[g] else ():
            yield at(g), fault


def subgroup_faults(x: CheckedPlan, gang: Gang, counts: PodCounts) -> Iterator[str]:
    for k, subgroup in enumerate(gang.subgroups):
        pods = x.subgroup_pods_by_domain(subgroup, counts)
        if pods[None] or any(amount % subgroup.size for amount in pods.values()):
            yield f"subgroup {k} has a part that is not whole inside its domain"


GANG_RULES = (decisions, actions, running_pods_stay, replicas, domains, eligibility, node_groups, topology, subgroups)
