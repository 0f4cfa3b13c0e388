"""Queues as a tree, with the two that Volcano creates by itself; hypernodes dedicated to them; limits on node groups,
and the node groups of the plugin nodegroup that are closed to them, or preferred by them.

These limits are pod rules, one for each queue, group and resource. Source: nodegroup.go of Volcano's master: what a
queue's own pods hold on the nodes of a group, with the new pod, stays within the limit; neither the queues above it nor
those below are asked.

The policy of the problem is which plugins of the scheduler decide between queues, and how nodes are filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.cluster_state.observed import ObservedState
from compiler.fields.quantity import named_amount
from compiler.kubernetes import DEFAULT_QUEUE, NODE_GROUP_LABEL, ROOT_QUEUE
from compiler.lower.origins import Origins
from compiler.lower.resources import limits, vector
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec, Specs
from compiler.specs.hypernode_tree import tier_of
from compiler.specs.namespace_queues import lacks_cluster_queues, queues_not_ready
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.volcano.node_groups import (
    LIMITS_SINCE,
    affinity_owner,
    group_limits,
    may_use,
    node_group_plugin,
    preference_ranks,
)
from solver.problem import Gang, GroupQuota, PodRule, Policy, Problem, Queue, QuotaOrder, Role, Vector


def lower_queues(
    specs: Specs, observed: ObservedState, names: Sequence[str]
) -> tuple[tuple[Queue, ...], tuple[QueueSpec | None, ...]]:
    """Return the declared queues in order, then `root` and the default queue if undeclared, each with its spec.

    Volcano creates both at its start; a queue without a parent is below the root. Queues that the cluster has closed
    are closed whatever their documents declare, and so are NamespaceQueues that do not become ready, or below such. In
    the repository of a tenant the queues of the cluster that jobs name count as undeclared. Weights of a hierarchy are
    counted in thousandths.
    """
    declared = [spec.name for spec in specs.queues]
    elsewhere = (gang.queue for gang in specs.gangs if gang.queue) if lacks_cluster_queues(specs.queues) else ()
    created = dict.fromkeys((ROOT_QUEUE, DEFAULT_QUEUE, specs.cluster.default_queue, *elsewhere))
    implied = [name for name in created if name not in declared]
    index = {name: q for q, name in enumerate([*declared, *implied])}

    def used(name: str) -> Vector:
        # Lighter pods may leave more of their role's requests than others use: a queue uses no less than 0.
        return tuple(max(0, amount) for amount in vector(observed.foreign.queue_used.get(name, {}), names))

    not_ready = queues_not_ready(specs.queues)
    local = {spec.name: spec for spec in specs.queues if spec.namespace}

    def is_open(spec: QueueSpec) -> bool:
        is_shut = not spec.open or spec.name in not_ready or spec.name in observed.closed_queues
        above = local.get(spec.parent or "") if spec.namespace else None
        return not is_shut and (above is None or is_open(above))

    queues = [
        Queue(
            spec.name,
            None if spec.name == ROOT_QUEUE else index.get(spec.parent or ROOT_QUEUE, index[ROOT_QUEUE]),
            spec.weight,
            spec.priority,
            limits(spec.guarantee, names),
            limits(spec.deserved, names),
            limits(spec.capability, names),
            used(spec.name),
            is_open(spec),
            _hierarchy_path(spec, specs.queues),
            spec.reclaimable,
            spec.strict_order,
        )
        for spec in specs.queues
    ]
    unset = (None,) * len(names)
    for name in implied:
        parent = None if name == ROOT_QUEUE else index[ROOT_QUEUE]
        accepts = name not in observed.closed_queues
        queues.append(Queue(name, parent, 1, 0, unset, unset, unset, used(name), accepts))
    return tuple(queues), (*specs.queues, *(None for _ in implied))


def _hierarchy_path(spec: QueueSpec, specs: Sequence[QueueSpec]) -> tuple[tuple[str, int], ...]:
    """As declared; among queues with a hierarchy, one without is a child of the root with its own weight."""
    if not any(other.hierarchy for other in specs):
        return ()
    return tuple((name, round(1000 * weight)) for name, weight in spec.hierarchy or ((spec.name, spec.weight),))


def with_group_limits(
    problem: Problem, origins: Origins, specs: Specs, observed: ObservedState
) -> tuple[Problem, Origins]:
    """Return the problem with the limits, and the origins with their names. Limits that no pod can reach are left
    out."""
    if node_group_plugin(specs.scheduler) is None or specs.cluster.volcano.minor < LIMITS_SINCE:
        return problem, origins
    texts = []
    for quota in list(_quotas(problem, origins.queues)):
        domains = tuple(0 if node.node_group == quota.node_group else None for node in problem.nodes)
        held = sum(_held_by_others(problem, quota, observed))
        rule = PodRule("quota", domains, (max(0, held),) if 0 in domains else (), quota=quota)
        problem = _with_rule(problem, rule, quota)
        queue, group = problem.queues[quota.queue].name, problem.node_groups[quota.node_group]
        amount = named_amount(problem.resources[quota.resource], quota.limit)
        texts.append(f"queue {queue} may hold {amount} in node group {group}")
    if not texts:
        return problem, origins
    return problem, replace(origins, rules=origins.rules.followed_by(texts))


def _quotas(problem: Problem, queue_specs: Sequence[QueueSpec | None]) -> Iterator[GroupQuota]:
    index = {name: r for r, name in enumerate(problem.resources)}
    for q, spec in enumerate(queue_specs):
        for group, amounts in (group_limits(spec) if spec else {}).items():
            for name, limit in amounts.items():
                if group in problem.node_groups[1:] and name in index:
                    quota = GroupQuota(q, problem.node_groups.index(group), index[name], limit)
                    if _may_bind(problem, quota):
                        yield quota


def _may_bind(problem: Problem, quota: GroupQuota) -> bool:
    """Return whether some pod asks for the resource, and the group has more of it than the limit."""
    inside = (node for node in problem.nodes if node.node_group == quota.node_group)
    asked = any(_counts(gang, role, quota) for gang in problem.gangs for role in gang.roles)
    return asked and sum(node.capacity[quota.resource] for node in inside) > quota.limit


def _counts(gang: Gang, role: Role, quota: GroupQuota) -> bool:
    return gang.queue == quota.queue and role.request[quota.resource] > 0


def _held_by_others(problem: Problem, quota: GroupQuota, observed: ObservedState) -> Iterator[int]:
    """Yield the amounts held on each node of the group by pods of the queue outside of gangs."""
    for n, node in enumerate(problem.nodes):
        if node.node_group == quota.node_group:
            held = observed.foreign.held_in_limited_queues.get((problem.queues[quota.queue].name, n), {})
            yield vector(held, problem.resources)[quota.resource]


def _with_rule(problem: Problem, rule: PodRule, quota: GroupQuota) -> Problem:
    rho = len(problem.pod_rules)

    def counted(gang: Gang, role: Role) -> Role:
        rules = (*role.selecting_rules, rho)
        return replace(role, selecting_rules=rules) if _counts(gang, role, quota) else role

    gangs = (
        replace(gang, roles=tuple(counted(gang, role) for role in gang.roles)) if gang.queue == quota.queue else gang
        for gang in problem.gangs
    )
    return replace(problem, gangs=tuple(gangs), pod_rules=(*problem.pod_rules, rule))


HypernodeSet = set[int]


def with_dedicated_domains(problem: Problem, specs: Specs, hypernode_specs: Sequence[HyperNodeSpec]) -> Problem:
    """Return the problem with `Queue.dedicated_domains` chosen, queue by queue; domains do not overlap.

    Preferred are domains with most running pods of the queue and its descendants, then with fewest pods of others that
    it could not have evicted, then with fewest pods of others, then with most nodes: so the choice is stable from plan
    to plan. Fewer than the queue asks for are chosen where there are no more.
    """
    requests = {q: spec.dedicated_domains for q, spec in enumerate(specs.queues) if spec.dedicated_domains}
    if not requests:
        return problem
    ancestors = [_hypernode_and_ancestors(problem, h) for h in range(len(problem.hypernodes))]
    sizes = _node_counts(problem, ancestors)
    taken: HypernodeSet = set()
    queues = list(problem.queues)
    for q, (count, tier_or_name) in requests.items():
        tier = tier_of(tier_or_name, hypernode_specs)
        mine, others, firm = _running_pod_counts(problem, ancestors, _queue_and_descendants(problem, q))
        of_tier = (h for h, node in enumerate(problem.hypernodes) if node.tier == tier)
        free = [h for h in of_tier if not _overlaps(h, taken, ancestors)]
        chosen = sorted(free, key=lambda h: (-mine[h], firm[h], others[h], -sizes[h], h))[:count]
        taken.update(chosen)
        queues[q] = replace(queues[q], dedicated_domains=tuple(chosen))
    return replace(problem, queues=tuple(queues))


def _overlaps(h: int, taken: HypernodeSet, ancestors: Sequence[HypernodeSet]) -> bool:
    """Return whether hypernode h lies inside one that is taken, or the other way round."""
    return not taken.isdisjoint(ancestors[h]) or any(h in ancestors[other] for other in taken)


def _hypernode_and_ancestors(problem: Problem, h: int | None) -> HypernodeSet:
    """Return the hypernode and those it lies in."""
    found = set()
    while h is not None:
        found.add(h)
        h = problem.hypernodes[h].parent
    return found


def _queue_and_descendants(problem: Problem, q: int) -> set[int]:
    """Return the queue and those below it."""
    found, size = {q}, 0
    while len(found) > size:
        size = len(found)
        found |= {c for c, queue in enumerate(problem.queues) if queue.parent in found}
    return found


def _running_pod_counts(
    problem: Problem, ancestors: Sequence[HypernodeSet], queues: set[int]
) -> tuple[list[int], list[int], list[int]]:
    """Running pods under each hypernode: of gangs in these queues, of others, and of those others whom the queues could
    not have evicted."""
    mine, others, firm = ([0] * len(ancestors) for _ in range(3))
    for gang in problem.gangs:
        may_go_whole = gang.eviction.evictable and not gang.eviction.protected
        goes = problem.reclaim_enabled and may_go_whole and problem.queues[gang.queue].reclaimable
        counts = [mine] if gang.queue in queues else [others] if goes else [others, firm]
        for place in gang.running:
            leaf = problem.nodes[place.node].leaf
            for h in ancestors[leaf] if leaf is not None else ():
                for count in counts:
                    count[h] += place.pods
    return mine, others, firm


def _node_counts(problem: Problem, ancestors: Sequence[HypernodeSet]) -> list[int]:
    """Nodes that offer anything, under each hypernode."""
    size = [0] * len(ancestors)
    for node in problem.nodes:
        for h in ancestors[node.leaf] if node.leaf is not None and any(node.free) else ():
            size[h] += 1
    return size


UNGROUPED = "(none)"
"""The name of the nodes without a group; no label can have it."""


def with_node_groups(
    problem: Problem,
    queue_specs: Sequence[QueueSpec | None],
    nodes: Sequence[NodeSpec],
    scheduler: SchedulerSpec | None,
) -> tuple[Problem, tuple[int, ...]]:
    """Return the problem with the closed and the preferred node groups of its queues, none without the plugin; and for
    each queue the one whose affinity it has."""
    own = tuple(range(len(problem.queues)))
    if (plugin := node_group_plugin(scheduler)) is None:
        return problem, own
    group_by_node = [node.labels.get(NODE_GROUP_LABEL) for node in nodes]
    groups = [None, *sorted({group for group in group_by_node if group is not None})]
    index_by_name = {queue.name: q for q, queue in enumerate(problem.queues)}
    declared = [spec for spec in queue_specs if spec is not None]
    owners = tuple(index_by_name[affinity_owner(plugin, queue.name, declared)] for queue in problem.queues)
    queues = []
    for queue, owner in zip(problem.queues, owners, strict=True):
        spec = queue_specs[owner]
        affinity = None if spec is None else spec.affinity
        closed = tuple(g for g, group in enumerate(groups) if not may_use(plugin, affinity, group))
        ranks = preference_ranks(plugin, affinity, groups)
        queues.append(replace(queue, closed_node_groups=closed, node_group_ranks=ranks))
    index = {group: g for g, group in enumerate(groups)}
    labelled = zip(problem.nodes, group_by_node, strict=True)
    grouped = replace(
        problem,
        nodes=tuple(replace(node, node_group=index[group]) for node, group in labelled),
        queues=tuple(queues),
        node_groups=(UNGROUPED, *(group for group in groups if group is not None)),
    )
    return grouped, owners


DEFAULT_POLICY = Policy(proportion=True, drf=True)
"""Without a scheduler's configuration in the repository: what Volcano's chart installs
(installer/helm/chart/volcano/config/volcano-scheduler.conf)."""


def lower_policy(scheduler: SchedulerSpec | None, order: QuotaOrder) -> Policy:
    """Return the policy. A plugin whose relevant function is disabled decides nothing. For a plugin that is listed
    twice the first counts.

    overcommit is not among them: it decides which waiting jobs get pods at all, not which start
    (docs/develop/decisions/0005-queues.md).
    """
    if scheduler is None:
        return replace(DEFAULT_POLICY, order=order)
    plugins = {plugin.name: plugin for tier in reversed(scheduler.tiers) for plugin in reversed(tier)}
    capacity, proportion = (_divides(scheduler, plugins.get(name)) for name in ("capacity", "proportion"))
    return Policy(
        capacity=capacity,
        capacity_hierarchy=capacity and _is_hierarchical(plugins["capacity"]),
        proportion=proportion,
        drf=_is_enabled(plugins.get("drf"), "enableJobOrder"),
        drf_hierarchy=_is_enabled(plugins.get("drf"), "enableQueueOrder") and _is_hierarchical(plugins["drf"]),
        spread_pods=_spreads_pods(plugins) and not _packs_nodes(plugins),
        ancestor_reclaim_levels=_ancestor_reclaim_levels(plugins.get("capacity")),
        order=order,
    )


def _divides(scheduler: SchedulerSpec, plugin: PluginSpec | None) -> bool:
    """Return whether a plugin limits queues (enabledAllocatable), or has excess usage reclaimed, since it votes on an
    action that reclaims."""
    reclaims = _is_enabled(plugin, "enableReclaimable") and "reclaim" in scheduler.actions
    return reclaims or _is_enabled(plugin, "enabledAllocatable")


def _ancestor_reclaim_levels(capacity: PluginSpec | None) -> int:
    """`ancestorReclaimLevel`; it needs the hierarchy, and anything but a whole number above 0 is 0 to Volcano."""
    levels = (
        capacity.arguments.get("ancestorReclaimLevel", 0) if capacity is not None and _is_hierarchical(capacity) else 0
    )
    return max(0, levels) if type(levels) is int else 0


def _spreads_pods(plugins: Mapping[str, PluginSpec]) -> bool:
    """Return whether the configuration explicitly prefers the least loaded node. The default of nodeorder
    (leastrequested.weight 1) is not explicit: it is the score of one plugin among many."""
    order = _scoring_arguments(plugins.get("nodeorder"))
    least, most = (_argument_number(order.get(f"{which}requested.weight", 0)) for which in ("least", "most"))
    return least > most or "LeastAllocated" in _fit_strategies(plugins)


def _packs_nodes(plugins: Mapping[str, PluginSpec]) -> bool:
    """Return whether it prefers full nodes: binpack, MetaX's gpu-aware with a loss weight, or MostAllocated of a
    device."""
    fit = plugins.get("binpack")
    binpack = (
        fit is not None
        and fit.flags.get("enableNodeOrder", True)
        and _argument_number(fit.arguments.get("binpack.weight", 1)) > 0
    )
    aware = _argument_number(_scoring_arguments(plugins.get("gpu-aware")).get("loss.weight", 0)) > 0
    return binpack or aware or "MostAllocated" in _fit_strategies(plugins)


def _fit_strategies(plugins: Mapping[str, PluginSpec]) -> set[str]:
    """Return the types by which resource-strategy-fit scores the devices that it names."""
    rows = _scoring_arguments(plugins.get("resource-strategy-fit")).get("resources", {})
    if not isinstance(rows, Mapping):
        return set()
    devices = (row for name, row in rows.items() if "/" in name)
    return {str(row.get("type")) for row in devices if isinstance(row, Mapping)}


def _scoring_arguments(plugin: PluginSpec | None) -> Mapping[str, Any]:
    """Return the arguments of a plugin that scores nodes; none of one that does not."""
    return plugin.arguments if plugin is not None and plugin.flags.get("enableNodeOrder", True) else {}


def _argument_number(value: object) -> float:
    """Return the argument as a number; 0 if it is not a number, which the check of arguments reports."""
    try:
        return float(str(value))
    except ValueError:
        return 0.0


def _is_enabled(plugin: PluginSpec | None, flag: str) -> bool:
    return plugin is not None and plugin.flags.get(flag, True)


def _is_hierarchical(plugin: PluginSpec) -> bool:
    return plugin.flags.get("enableHierarchy", False)
