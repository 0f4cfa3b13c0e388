"""What pods require of one another -> the problem's relations, and which roles carry them or are counted by them.

Rules: Kubernetes' InterPodAffinity and PodTopologySpread, as far as the scheduler's plugin predicates enforces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

from compiler.cluster_state.pods import ForeignPod
from compiler.fields.label_selector import LabelExpression, selector_matches
from compiler.kubernetes import HOSTNAME_LABEL
from compiler.lower.eligibility import NodeMasks, NodeRequirement, node_requirement
from compiler.specs import GangSpec, NodeSpec, PodRuleSpec, PodSpec, RoleSpec, SchedulerSpec, Toleration
from solver.problem import Gang, PodRule

Item = TypeVar("Item")

TOLERATE_ALL = (Toleration(operator="Exists"),)
UNREACHABLE_MIN_DOMAINS = 2**31
"""Domains that no cluster has: the count is then from zero."""


@dataclass(frozen=True, slots=True)
class ResolvedSelector:
    """The pods that a rule is about: in one of the namespaces (None: in any) and matching all rows; selectors that
    match nothing are no Wanted."""

    expressions: tuple[LabelExpression, ...]
    namespaces: tuple[str, ...] | None

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and selector_matches(self.expressions, labels)


@dataclass(frozen=True, slots=True)
class ResolvedRule:
    """A rule with everything settled that makes a difference. wanted: all of them hold; None: no pod at all. nodes: bit
    mask of those that count."""

    rule_kind: str
    topology_key: str
    selectors: tuple[ResolvedSelector, ...] | None
    counted_nodes: int
    max_skew: int = 1
    min_domains: int = 1

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.selectors is not None and all(part.selects(namespace, labels) for part in self.selectors)


@dataclass(frozen=True, slots=True)
class LoweredRules:
    """relations, words: of the problem, index by index. ties: (gang, role) -> (bears, matches). guards: relation ->
    pods of no gang that carry it."""

    pod_rules: tuple[PodRule, ...]
    texts: tuple[str, ...]
    rules_of_role: Mapping[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]]
    owner_pods: tuple[tuple[str, ...], ...]
    subgroup_of_rule: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def gangs_with_rules(self, gangs: Iterable[Gang]) -> tuple[Gang, ...]:
        """The same gangs, their roles in the relations."""
        return tuple(self._gang_with_rules(j, gang) for j, gang in enumerate(gangs))

    def _gang_with_rules(self, j: int, gang: Gang) -> Gang:
        if not any((j, t) in self.rules_of_role for t in range(len(gang.roles))):
            return gang
        ties = [self.rules_of_role.get((j, t), ((), ())) for t in range(len(gang.roles))]
        return replace(
            gang,
            roles=tuple(
                replace(role, owned_rules=b, selecting_rules=m) for role, (b, m) in zip(gang.roles, ties, strict=True)
            ),
        )


def lower_pod_rules(
    gangs: Sequence[GangSpec],
    nodes: Sequence[NodeSpec],
    foreign_pods: Sequence[ForeignPod],
    scheduler: SchedulerSpec | None,
) -> LoweredRules:
    """Of all rules of the gangs' pods, and of the bystanders' rules that keep our pods away. Rules that no pod can
    break are left out."""
    enforced = enforced_rule_kinds(scheduler)
    masks = NodeMasks(nodes)
    bearers: dict[ResolvedRule, list[tuple[int, int]]] = {}
    for j, gang in enumerate(gangs):
        for t, role in enumerate(gang.roles):
            for rule in role.pod.pod_rules:
                for bond in _resolved_rules(rule, role, gang.namespace, masks) if rule.rule_kind in enforced else ():
                    bearers.setdefault(bond, []).append((j, t))
    guards: dict[ResolvedRule, list[ForeignPod]] = {}
    for other in foreign_pods if "anti-affinity" in enforced else ():
        for rule in other.anti_affinity:
            bond = _resolved_rule(rule, other.namespace, other.labels, masks.all_nodes)
            guards.setdefault(bond, []).append(other)
    partitions = _LabelDomains(nodes)
    ours = _LabelIndex(
        (spot, gangs[spot[0]].namespace, gangs[spot[0]].roles[spot[1]].labels) for spot in _gang_roles(gangs)
    )
    others = _LabelIndex(
        (other, other.namespace, other.labels) for other in (foreign_pods if bearers or guards else ())
    )
    made: list[PodRule] = []
    words: list[str] = []
    named: list[tuple[str, ...]] = []
    ties: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for bond in dict.fromkeys([*bearers, *guards]):
        counted = ours.selected_by(bond)
        if bond not in bearers and not counted:
            continue
        domains, number = partitions.domains_of(bond.topology_key, bond.counted_nodes)
        # A pod that is being deleted is no longer counted by a spread (Kubernetes' countPodsMatchSelector).
        present = _domain_counts(
            domains,
            number,
            partitions,
            (other for other in others.selected_by(bond) if bond.rule_kind != "spread" or not other.is_terminating),
        )
        made.append(
            PodRule(
                bond.rule_kind,  # type: ignore[arg-type]
                domains,
                present,
                _domain_counts(domains, number, partitions, guards[bond]) if bond in guards else (),
                bond.max_skew,
                bond.min_domains,
            )
        )
        words.append(rule_text(bond))
        named.append(tuple(dict.fromkeys(f"{other.namespace}/{other.name}" for other in guards.get(bond, ()))))
        for side, spots in enumerate((bearers.get(bond, ()), counted)):
            for spot in dict.fromkeys(spots):
                ties.setdefault(spot, ([], []))[side].append(len(made) - 1)
    return LoweredRules(
        tuple(made), tuple(words), {spot: (tuple(b), tuple(m)) for spot, (b, m) in ties.items()}, tuple(named)
    )


def _gang_roles(gangs: Sequence[GangSpec]) -> Iterator[tuple[int, int]]:
    for j, gang in enumerate(gangs):
        for t in range(len(gang.roles)):
            yield j, t


class _LabelIndex(Generic[Item]):
    """Things with a namespace and labels, found by one label that a rule names before the rest of the rule is tried on
    them."""

    def __init__(self, items: Iterable[tuple[Item, str, Mapping[str, str]]]) -> None:
        self.items = list(items)
        self._indices_by_label: dict[tuple[str, str], list[int]] = {}
        for i, (_, _, labels) in enumerate(self.items):
            for pair in labels.items():
                self._indices_by_label.setdefault(pair, []).append(i)

    def selected_by(self, rule: ResolvedRule) -> list[Item]:
        """Those that the rule counts, in order."""
        named = [
            (row[0], row[2][0])
            for part in rule.selectors or ()
            for row in part.expressions
            if row[1] == "In" and len(row[2]) == 1
        ]
        few = (
            min((self._indices_by_label.get(pair, []) for pair in named), key=len) if named else range(len(self.items))
        )
        return [item for item, namespace, labels in map(self.items.__getitem__, few) if rule.selects(namespace, labels)]


def enforced_rule_kinds(scheduler: SchedulerSpec | None) -> frozenset[str]:
    """The kinds of rule that the scheduler's plugin predicates looks at; all of them where the repository says nothing
    of the scheduler."""
    if scheduler is None:
        return frozenset(("anti-affinity", "affinity", "spread"))
    plugin = next((plugin for tier in scheduler.tiers for plugin in tier if plugin.name == "predicates"), None)
    if plugin is None or not plugin.flags.get("enablePredicate", True):
        return frozenset()
    affinity, spread = (
        plugin.arguments.get(f"predicate.{name}Enable") is not False for name in ("PodAffinity", "PodTopologySpread")
    )
    return frozenset((*(("anti-affinity", "affinity") if affinity else ()), *(("spread",) if spread else ())))


def _resolved_rules(rule: PodRuleSpec, role: RoleSpec, namespace: str, masks: NodeMasks) -> list[ResolvedRule]:
    """One relation for each rule; a spread with a minimum of domains has another, for what its pods see once they are
    pinned to their nodes.

    A pinned pod counts its own node alone (nodeAffinityPolicy Honor), which is fewer domains than the minimum: then at
    most maxSkew on a node.
    """
    inside = masks.all_nodes if rule.rule_kind != "spread" else _counted_nodes(rule, role.pod, masks)
    bond = _resolved_rule(rule, namespace, role.labels, inside)
    if rule.rule_kind != "spread" or rule.min_domains == 1 or not rule.honors_affinity:
        return [bond]
    return [bond, replace(bond, topology_key=HOSTNAME_LABEL, min_domains=UNREACHABLE_MIN_DOMAINS)]


def _resolved_rule(rule: PodRuleSpec, namespace: str, labels: Mapping[str, str], nodes: int) -> ResolvedRule:
    wanted: list[ResolvedSelector] | None = []
    for term in rule.selectors:
        if term.label_expressions is None or wanted is None:
            wanted = None
            continue
        like = [(key, "In", (labels[key],)) for key in term.match_label_keys if key in labels]
        unlike = [(key, "NotIn", (labels[key],)) for key in term.mismatch_label_keys if key in labels]
        namespaces = None if term.namespaces is None else term.namespaces or (namespace,)
        wanted.append(ResolvedSelector((*term.label_expressions, *like, *unlike), namespaces))
    return ResolvedRule(
        rule.rule_kind,
        rule.topology_key,
        None if wanted is None else tuple(wanted),
        nodes,
        rule.max_skew,
        rule.min_domains,
    )


def _counted_nodes(rule: PodRuleSpec, pod: PodSpec, masks: NodeMasks) -> int:
    """The nodes that a spread counts: with the keys of all that the pod spreads over, and those that its policies do
    not leave out."""
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
    """The nodes by the values of a label; every node has a hostname, its name where the label is missing."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self.nodes = nodes
        self._domains: dict[tuple[str, int], tuple[tuple[int | None, ...], int]] = {}

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Node name -> its number."""
        return {node.name: n for n, node in enumerate(self.nodes)}

    def domains_of(self, key: str, inside: int) -> tuple[tuple[int | None, ...], int]:
        """(node -> domain, number of domains), domains numbered by their first node. inside: bit mask of the nodes that
        have one."""
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


def _domain_counts(
    domains: Sequence[int | None], number: int, label_domains: _LabelDomains, pods: Iterable[ForeignPod]
) -> tuple[int, ...]:
    found = [0] * number
    for pod in pods:
        if (d := domains[label_domains.node_index[pod.node]]) is not None:
            found[d] += 1
    return tuple(found)


def rule_text(rule: ResolvedRule) -> str:
    """The rule in a user's words."""
    if rule.rule_kind == "spread":
        if rule.min_domains == UNREACHABLE_MIN_DOMAINS:
            return f"minDomains leaves at most {rule.max_skew} on one node"
        return f"topology spread by {rule.topology_key}, maxSkew {rule.max_skew}" + (
            f", minDomains {rule.min_domains}" if rule.min_domains > 1 else ""
        )
    name = "pod anti-affinity" if rule.rule_kind == "anti-affinity" else "pod affinity"
    rows = dict.fromkeys(row for part in rule.selectors or () for row in part.expressions)
    return f"required {name} by {rule.topology_key}" + (f" to {', '.join(map(_expression_text, rows))}" if rows else "")


def _expression_text(row: LabelExpression) -> str:
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
