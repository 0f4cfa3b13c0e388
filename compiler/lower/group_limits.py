"""Limits of queues on node groups as the problem's pod rules, one for each queue, group and resource.

Source: nodegroup.go of Volcano's master: what a queue's own pods hold on the nodes of a group, with the new pod, stays
within the limit; neither the queues above it nor those below are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from compiler.cluster_state.observed import ObservedState
from compiler.fields.amounts import named_amount
from compiler.lower.origins import Origins
from compiler.lower.resources import vector
from compiler.specs.cluster_spec import Specs
from compiler.specs.queue_spec import QueueSpec
from compiler.volcano.node_groups import LIMITS_SINCE, group_limits, node_group_plugin
from solver.problem import Gang, GroupQuota, PodRule, Problem, Role


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
