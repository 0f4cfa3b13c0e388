"""Exclusive placement of JobSet and LeaderWorkerSet: each unit of a job (a child Job, a group) has all its pods in one
domain of a node label, and no other unit there.

Their webhooks write it as required pod affinity and anti-affinity (jobset pod_mutating_webhook.go, lws pod_webhook.go).
A job of one unit, or of units of one pod, is planned by the same rules. With several units each is a subgroup with a
hard topology, if the domains of the label are those of a tier. Other jobs are not bound: their room is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from compiler.kubernetes import DEFAULT_PODS_PER_NODE
from compiler.specs.eligibility import with_label_rows
from compiler.specs.gang_spec import ExclusiveUnits, GangSpec, RoleSpec, SubgroupSpec, TopologySpec
from compiler.specs.hypernode_tree import nodes_by_hypernode
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.specs.pod_spec import UNREACHABLE_MIN_DOMAINS, Expression, PodRuleSpec, PodSelector, PodSpec
from compiler.specs.services import unbound


@dataclass(frozen=True, slots=True)
class ExclusiveDomains:
    """The nodes of the cluster by label, and its hypernodes."""

    nodes: Sequence[NodeSpec]
    hypernodes: Sequence[HyperNodeSpec]

    def by_value(self, key: str) -> dict[str, list[NodeSpec]]:
        found: dict[str, list[NodeSpec]] = {}
        for node in self.nodes:
            if key in node.labels:
                found.setdefault(node.labels[key], []).append(node)
        return found

    def tier_of(self, key: str) -> int | None:
        """Return the tier whose hypernodes are the domains of the label, node by node."""
        wanted = {frozenset(node.name for node in nodes) for nodes in self.by_value(key).values()}
        members = nodes_by_hypernode(self.hypernodes)
        for tier in sorted({each.tier for each in self.hypernodes}):
            if wanted == {members[each.name] for each in self.hypernodes if each.tier == tier}:
                return tier
        return None

    def most_pods(self, key: str, roles: Iterable[RoleSpec]) -> int:
        """Return the most pods, of any of the roles, that an empty domain of the label holds."""
        domains, pods = self.by_value(key).values(), [role.pod for role in roles]
        return max((sum(max(_room(node, pod) for pod in pods) for node in nodes) for nodes in domains), default=0)


def _room(node: NodeSpec, pod: PodSpec) -> int:
    offered = {"pods": DEFAULT_PODS_PER_NODE, **node.allocatable}
    return min((offered.get(name, 0) // amount for name, amount in pod.requests.items() if amount), default=0)


def with_exclusive_topology(gang: GangSpec, domains: ExclusiveDomains) -> GangSpec:
    """Return the job with the rules of its units; unbound where they cannot be planned."""
    for units in gang.exclusive:
        gang = _with_units(gang, units, domains)
    return gang


def fits_no_domain(gang: GangSpec, units: ExclusiveUnits, domains: ExclusiveDomains) -> bool:
    """Return whether no domain of the declared nodes, even empty, holds a unit."""
    roles = [role for role in gang.roles if role.name in units.roles]
    return bool(domains.nodes) and domains.most_pods(units.key, roles) < units.size


def is_planned(gang: GangSpec, units: ExclusiveUnits, domains: ExclusiveDomains) -> bool:
    """Return whether rules of the model express the units' demands."""
    number = _number(gang, units)
    if units.obstacle:
        return False
    return number <= 1 or units.size == 1 or (len(units.roles) == 1 and domains.tier_of(units.key) is not None)


def _number(gang: GangSpec, units: ExclusiveUnits) -> int:
    return -(-sum(role.replicas for role in gang.roles if role.name in units.roles) // max(1, units.size))


def _with_units(gang: GangSpec, units: ExclusiveUnits, domains: ExclusiveDomains) -> GangSpec:
    if fits_no_domain(gang, units, domains):
        return _with_node_row(gang, units, f"{units.key} with room for {units.size} pods together")
    gang = _with_node_row(gang, units, units.key)
    if not is_planned(gang, units, domains):
        return unbound(gang)
    if units.size > 1 and _number(gang, units) > 1:
        tier = domains.tier_of(units.key)
        minimum = sum(role.minimum for role in gang.roles if role.name in units.roles) // units.size
        topology = TopologySpec("hard", tier)
        unit = SubgroupSpec(units.roles[0], units.roles, units.size, minimum, topology, units.path)
        gang = replace(gang, subgroups=(*gang.subgroups, unit))
    return _with_rules(gang, units)


def _with_node_row(gang: GangSpec, units: ExclusiveUnits, key: str) -> GangSpec:
    """The pods of the units ask for nodes with the label."""
    row = Expression(key, "Exists")
    return _with_pods(gang, units, lambda pod: with_label_rows(pod, row))


def _with_rules(gang: GangSpec, units: ExclusiveUnits) -> GangSpec:
    """Return the gang with anti-affinity to other units, also between units of one pod each. Within the job, a single
    unit keeps together, and with several (which are subgroups) a domain holds no more pods than one unit has."""
    is_unit, name = (units.unit_label, "Exists", ()), (gang.document.name,)
    is_single, own = units.size == 1, PodSelector(((units.job_label, "In", name),))
    others = PodSelector((is_unit,) if is_single else (is_unit, (units.job_label, "NotIn", name)), namespaces=None)
    rules = [PodRuleSpec("anti-affinity", units.key, (others,))]
    if not is_single and _number(gang, units) > 1:
        cap = PodRuleSpec("spread", units.key, (own,), units.size, UNREACHABLE_MIN_DOMAINS, honors_affinity=False)
        rules.append(cap)
    elif not is_single:
        rules.append(PodRuleSpec("affinity", units.key, (own,)))
    return _with_pods(gang, units, lambda pod: replace(pod, pod_rules=(*pod.pod_rules, *rules)))


def _with_pods(gang: GangSpec, units: ExclusiveUnits, amended: Callable[[PodSpec], PodSpec]) -> GangSpec:
    roles = (replace(role, pod=amended(role.pod)) if role.name in units.roles else role for role in gang.roles)
    return replace(gang, roles=tuple(roles))
