"""Pod affinity, anti-affinity, topology spread and host ports as the problem's pod rules, with the roles that own or
are selected.

Sources: Kubernetes' InterPodAffinity, PodTopologySpread and NodePorts, as far as Volcano's plugin predicates enforces
them. Pods with one port of a node keep apart as by an anti-affinity to a label of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from compiler.cluster_state.pods import ForeignPod
from compiler.fields.label_selector import LabelExpression, selector_matches
from compiler.kubernetes import HOSTNAME_LABEL
from compiler.lower.origins import RuleOrigins
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.eligibility import NodeMasks, NodeRequirement, node_requirement
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import TOLERATE_ALL, UNREACHABLE_MIN_DOMAINS, PodRuleSpec, PodSelector, PodSpec
from solver.problem import Gang, PodRule, RuleKind, Topology

Item = TypeVar("Item")
NO_TOPOLOGY = Topology("soft", 1)
_KINDS_BY_SWITCH = {
    "PodAffinity": ("anti-affinity", "affinity"),
    "PodTopologySpread": ("spread",),
    "NodePorts": ("host-port",),
}
"""Argument predicate.SWITCHEnable -> the rule kinds that it turns on."""
_FIELD_OF_KIND = {"spread": "topologySpreadConstraints", "host-port": "containers"}


@dataclass(frozen=True, slots=True)
class ResolvedSelector:
    """Selects the pods in one of the namespaces (None: in any) that match all expressions."""

    expressions: tuple[LabelExpression, ...]
    namespaces: tuple[str, ...] | None

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and selector_matches(self.expressions, labels)


@dataclass(frozen=True, slots=True)
class ResolvedRule:
    """A rule with its selectors resolved for its owner; equal ones are one pod rule of the problem.

    selectors: all of them select a pod; None selects none. counted_nodes: bit mask."""

    rule_kind: RuleKind | Literal["host-port"]
    topology_key: str
    selectors: tuple[ResolvedSelector, ...] | None
    counted_nodes: int
    max_skew: int = 1
    min_domains: int = 1

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.selectors is not None and all(selector.selects(namespace, labels) for selector in self.selectors)


@dataclass(frozen=True, slots=True)
class LoweredRules:
    """pod_rules: of the problem, index by index. rules_of_role: (gang, role) -> (owned, selecting)."""

    pod_rules: tuple[PodRule, ...]
    rules_of_role: Mapping[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]]
    origins: RuleOrigins

    def gangs_with_rules(self, gangs: Iterable[Gang]) -> tuple[Gang, ...]:
        """Return the same gangs, with the rules of their roles."""
        return tuple(self._gang_with_rules(j, gang) for j, gang in enumerate(gangs))

    def _gang_with_rules(self, j: int, gang: Gang) -> Gang:
        if not any((j, t) in self.rules_of_role for t in range(len(gang.roles))):
            return gang
        roles = []
        for t, role in enumerate(gang.roles):
            owned, selecting = self.rules_of_role.get((j, t), ((), ()))
            roles.append(replace(role, owned_rules=owned, selecting_rules=selecting))
        return self._confined(replace(gang, roles=tuple(roles)))

    def _confined(self, gang: Gang) -> Gang:
        """Return the gang, in one domain of each tier by which it is separated from others: Volcano looks for it in
        one."""
        owned = (self.pod_rules[rho] for role in gang.roles for rho in role.owned_rules)
        tiers = [rule.tier for rule in owned if rule.rule_kind == "separation"]
        if not tiers:
            return gang
        written = gang.topology or NO_TOPOLOGY
        limits = [tier for tier in tiers if tier is not None] + [written.tier] * written.is_hard
        confined = Topology("hard", min(limits)) if limits else gang.topology
        return replace(gang, topology=confined, topology_without_rules=written)


def lower_pod_rules(
    gangs: Sequence[GangSpec],
    nodes: Sequence[NodeSpec],
    foreign_pods: Sequence[ForeignPod],
    scheduler: SchedulerSpec | None,
) -> LoweredRules:
    """Return the rules of the gangs' pods, and the anti-affinity of foreign pods. Rules that no pod can break are left
    out."""
    enforced, masks = enforced_rule_kinds(scheduler), NodeMasks(nodes)
    owner_roles = _rules_of_gangs(gangs, enforced, masks)
    all_roles = [role for gang in gangs for role in gang.roles]
    ports = {port for role in all_roles for port in role.pod.host_ports}
    owner_pods = _rules_of_foreign_pods(foreign_pods, enforced, ports, masks)
    domains = _LabelDomains(nodes)
    gang_roles = _LabelIndex(
        ((j, t), gang.namespace, _labels(role.labels, role.pod.host_ports))
        for j, gang in enumerate(gangs)
        for t, role in enumerate(gang.roles)
    )
    others = _LabelIndex(
        (pod, pod.namespace, _labels(pod.labels, pod.host_ports))
        for pod in (foreign_pods if owner_roles or owner_pods else ())
    )
    pod_rules: list[PodRule] = []
    texts: list[str] = []
    fields: list[str] = []
    names_of_owners: list[tuple[str, ...]] = []
    owned: dict[tuple[int, int], list[int]] = {}
    selecting: dict[tuple[int, int], list[int]] = {}
    for rule in dict.fromkeys([*owner_roles, *owner_pods]):
        selected_roles = gang_roles.selected_by(rule)
        if rule not in owner_roles and not selected_roles:
            continue
        selected_pods, owners = others.selected_by(rule), owner_pods.get(rule, [])
        is_of_gangs = rule.rule_kind == "host-port" and not (selected_pods or owners)
        if is_of_gangs and _never_meet([gangs[j].roles[t] for j, t in selected_roles], nodes):
            continue
        for rules, roles in ((owned, owner_roles.get(rule, ())), (selecting, selected_roles)):
            for gang_role in dict.fromkeys(roles):
                rules.setdefault(gang_role, []).append(len(pod_rules))
        pod_rules.append(_lowered_rule(rule, domains, selected_pods, owners))
        texts.append(rule_text(rule))
        fields.append(_FIELD_OF_KIND.get(rule.rule_kind, "affinity"))
        names_of_owners.append(tuple(dict.fromkeys(f"{pod.namespace}/{pod.name}" for pod in owners)))
    rules_of_role = {
        gang_role: (tuple(owned.get(gang_role, ())), tuple(selecting.get(gang_role, ())))
        for gang_role in dict.fromkeys([*owned, *selecting])
    }
    origins = RuleOrigins(tuple(texts), tuple(fields), tuple(names_of_owners))
    return LoweredRules(tuple(pod_rules), rules_of_role, origins)


def _rules_of_gangs(
    gangs: Sequence[GangSpec], enforced: frozenset[str], masks: NodeMasks
) -> dict[ResolvedRule, list[tuple[int, int]]]:
    """Rule -> the (gang, role) pairs that own it."""
    owners: dict[ResolvedRule, list[tuple[int, int]]] = {}
    for j, gang in enumerate(gangs):
        for t, role in enumerate(gang.roles):
            for rule in (*role.pod.pod_rules, *_port_rules(role.pod.host_ports)):
                resolved = _resolved_rules(rule, role, gang.namespace, masks) if rule.rule_kind in enforced else ()
                for one in resolved:
                    owners.setdefault(one, []).append((j, t))
    return owners


def _rules_of_foreign_pods(
    pods: Sequence[ForeignPod], enforced: frozenset[str], ports: Set[str], masks: NodeMasks
) -> dict[ResolvedRule, list[ForeignPod]]:
    """Rule that keeps apart -> the foreign pods that own it. ports: those that gangs take."""
    owners: dict[ResolvedRule, list[ForeignPod]] = {}
    for pod in pods:
        taken = () if ports.isdisjoint(pod.host_ports) else pod.host_ports
        for rule in (*pod.anti_affinity, *_port_rules(taken)):
            if rule.rule_kind in enforced:
                owners.setdefault(_resolved_rule(rule, pod.namespace, pod.labels, masks.all_nodes), []).append(pod)
    return owners


def _port_rules(ports: Sequence[str]) -> list[PodRuleSpec]:
    """Return one rule for each port that a pod takes. On one address it excludes pods on that address, and those that
    take the port on all exclude it."""
    narrow = {port.partition("@")[0] for port in ports if "@" in port}
    selectors = (PodSelector(((port, "In", ("",)),), None) for port in ports if port not in narrow)
    return [PodRuleSpec("host-port", HOSTNAME_LABEL, (selector,)) for selector in selectors]


def _labels(labels: Mapping[str, str], ports: Sequence[str]) -> Mapping[str, str]:
    """Return the labels that rules select by, with the ports. No label of Kubernetes has such a name."""
    return {**labels, **dict.fromkeys(ports, "")} if ports else labels


def _never_meet(roles: Sequence[RoleSpec], nodes: Sequence[NodeSpec]) -> bool:
    """Return whether no node has room for two of their pods, so that their ports never meet."""
    if sum(role.replicas for role in roles) < 2:
        return True
    least = {name: min(role.pod.requests.get(name, 0) for role in roles) for name in roles[0].pod.requests}
    largest = {name: max((node.allocatable.get(name, 0) for node in nodes), default=0) for name in least}
    return any(largest[name] < 2 * amount for name, amount in least.items() if name != "pods")


def _lowered_rule(
    rule: ResolvedRule, label_domains: _LabelDomains, selected: Sequence[ForeignPod], owners: Sequence[ForeignPod]
) -> PodRule:
    domains, number = label_domains.domains_of(rule.topology_key, rule.counted_nodes)
    # A pod that is being deleted is no longer counted by a spread (Kubernetes' countPodsMatchSelector).
    counted = [pod for pod in selected if not pod.is_terminating] if rule.rule_kind == "spread" else selected
    return PodRule(
        "anti-affinity" if rule.rule_kind == "host-port" else rule.rule_kind,
        domains,
        _domain_counts(domains, number, counted),
        _domain_counts(domains, number, owners) if owners else (),
        rule.max_skew,
        rule.min_domains,
    )


class _LabelIndex(Generic[Item]):
    """Items with a namespace and labels, found by one label that a rule names before the whole rule is tried."""

    def __init__(self, items: Iterable[tuple[Item, str, Mapping[str, str]]]) -> None:
        self.items = list(items)
        self._indices_by_label: dict[tuple[str, str], list[int]] = {}
        for i, (_, _, labels) in enumerate(self.items):
            for pair in labels.items():
                self._indices_by_label.setdefault(pair, []).append(i)

    def selected_by(self, rule: ResolvedRule) -> list[Item]:
        """Return the items that the rule selects, in order."""
        candidates: Sequence[int] = range(len(self.items))
        for selector in rule.selectors or ():
            for key, operator, values in selector.expressions:
                if operator == "In" and len(values) == 1:
                    candidates = min(candidates, self._indices_by_label.get((key, values[0]), ()), key=len)
        found = (self.items[i] for i in candidates)
        return [item for item, namespace, labels in found if rule.selects(namespace, labels)]


def enforced_rule_kinds(scheduler: SchedulerSpec | None) -> frozenset[str]:
    """Return the rule kinds that the scheduler's plugin predicates checks; all of them if the repository declares no
    scheduler."""
    arguments: Mapping[str, object] = {}
    if scheduler is not None:
        plugin = scheduler.plugin("predicates")
        if plugin is None or not plugin.flags.get("enablePredicate", True):
            return frozenset()
        arguments = plugin.arguments
    kinds = (found for name, found in _KINDS_BY_SWITCH.items() if arguments.get(f"predicate.{name}Enable") is not False)
    return frozenset(kind for found in kinds for kind in found)


def _resolved_rules(rule: PodRuleSpec, role: RoleSpec, namespace: str, masks: NodeMasks) -> list[ResolvedRule]:
    """One resolved rule; for a spread with minDomains a second one, for what its pods see once pinned to nodes.

    A pinned pod counts its own node alone (nodeAffinityPolicy Honor), which is fewer domains than the minimum: then at
    most maxSkew on a node.
    """
    counted = masks.all_nodes if rule.rule_kind != "spread" else _counted_nodes(rule, role.pod, masks)
    resolved = _resolved_rule(rule, namespace, role.labels, counted)
    if rule.rule_kind != "spread" or rule.min_domains == 1 or not rule.honors_affinity:
        return [resolved]
    return [resolved, replace(resolved, topology_key=HOSTNAME_LABEL, min_domains=UNREACHABLE_MIN_DOMAINS)]


def _resolved_rule(rule: PodRuleSpec, namespace: str, labels: Mapping[str, str], nodes: int) -> ResolvedRule:
    selectors: list[ResolvedSelector] = []
    for term in rule.selectors:
        if term.label_expressions is None:
            continue
        like = [(key, "In", (labels[key],)) for key in term.match_label_keys if key in labels]
        unlike = [(key, "NotIn", (labels[key],)) for key in term.mismatch_label_keys if key in labels]
        namespaces = None if term.namespaces is None else term.namespaces or (namespace,)
        selectors.append(ResolvedSelector((*term.label_expressions, *like, *unlike), namespaces))
    selects_none = any(term.label_expressions is None for term in rule.selectors)
    return ResolvedRule(
        rule.rule_kind,
        rule.topology_key,
        None if selects_none else tuple(selectors),
        nodes,
        rule.max_skew,
        rule.min_domains,
    )


def _counted_nodes(rule: PodRuleSpec, pod: PodSpec, masks: NodeMasks) -> int:
    """Return the nodes that a spread counts: those with the keys of all the pod's spreads, less those that its policies
    leave out."""
    selector, affinity, tolerations, name, *_ = node_requirement(pod)
    wanted: NodeRequirement = (
        selector if rule.honors_affinity else frozenset(),
        affinity if rule.honors_affinity else None,
        tolerations if rule.honors_taints else TOLERATE_ALL,
        name,
        "",
        None,
    )
    mask = masks.nodes_matching(wanted)
    for other in pod.pod_rules:
        if other.rule_kind == "spread" and other.topology_key != HOSTNAME_LABEL:
            mask &= masks.nodes_with_label(other.topology_key)
    return mask


class _LabelDomains:
    """Divides the nodes by the values of a label; a missing hostname label counts as the node's name."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self.nodes = nodes
        self._domains: dict[tuple[str, int], tuple[tuple[int | None, ...], int]] = {}

    def domains_of(self, key: str, inside: int) -> tuple[tuple[int | None, ...], int]:
        """(node -> domain, number of domains), domains numbered by their first node. inside: bit mask of the nodes that
        are in one."""
        if (key, inside) not in self._domains:
            bits = format(inside, f"0{len(self.nodes)}b")[::-1]
            values = [
                node.labels.get(key, node.name if key == HOSTNAME_LABEL else None) if bits[n] == "1" else None
                for n, node in enumerate(self.nodes)
            ]
            number = {value: d for d, value in enumerate(dict.fromkeys(value for value in values if value is not None))}
            self._domains[key, inside] = (
                tuple(None if value is None else number[value] for value in values),
                len(number),
            )
        return self._domains[key, inside]


def _domain_counts(domains: Sequence[int | None], number: int, pods: Iterable[ForeignPod]) -> tuple[int, ...]:
    found = [0] * number
    for pod in pods:
        if (d := domains[pod.node]) is not None:
            found[d] += 1
    return tuple(found)


def rule_text(rule: ResolvedRule) -> str:
    """Return the rule in a user's words."""
    if rule.rule_kind == "spread":
        if rule.min_domains == UNREACHABLE_MIN_DOMAINS:
            if rule.topology_key != HOSTNAME_LABEL:
                return f"at most {rule.max_skew} in one domain of {rule.topology_key}"
            return f"minDomains leaves at most {rule.max_skew} on one node"
        return f"topology spread by {rule.topology_key}, maxSkew {rule.max_skew}" + (
            f", minDomains {rule.min_domains}" if rule.min_domains > 1 else ""
        )
    name = "pod anti-affinity" if rule.rule_kind == "anti-affinity" else "pod affinity"
    rows = dict.fromkeys(row for part in rule.selectors or () for row in part.expressions)
    if rule.rule_kind == "host-port":
        return f"one pod on a node with host port {', '.join(port for port, *_ in rows)}"
    return f"required {name} by {rule.topology_key}" + (f" to {', '.join(map(expression_text, rows))}" if rows else "")


def expression_text(row: LabelExpression) -> str:
    """Return the row of a selector as kubectl writes it."""
    key, operator, values = row
    match operator:
        case "In":
            return f"{key}={'|'.join(values)}"
        case "NotIn":
            return f"{key}!={'|'.join(values)}"
        case "Exists":
            return key
        case _:
            return f"!{key}"
