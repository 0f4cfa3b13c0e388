"""Node classes: which nodes a pod can use; nodes that exactly the same roles can use are of one class.

The sets of nodes are bit masks (bit i is node i), so that 10,000 nodes and 200 distinct requirements cost a few
thousand operations on large integers instead of millions of comparisons. Rules: Kubernetes' nodeSelector, required node
affinity and taints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from compiler.diagnostics.diagnostic import did_you_mean
from compiler.kubernetes import (
    NO_NETWORK_TAINT,
    NOT_READY_TAINT,
    PRESSURE_TAINTS,
    SHUTDOWN_TAINT,
    UNINITIALIZED_TAINT,
    UNREACHABLE_TAINT,
    UNSCHEDULABLE_TAINT,
)
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import NodeSpec, NumaSpec
from compiler.specs.pod_spec import Expression, NodeSelectorTerm, PodSpec, Taint, Toleration

NumaLayout = tuple[tuple[tuple[str, int], ...], ...]
"""The amounts of each NUMA node of a machine."""

NodeRequirement = tuple[
    frozenset[tuple[str, str]],
    tuple[NodeSelectorTerm, ...] | None,
    tuple[Toleration, ...],
    str,
    str,
    frozenset[NumaLayout] | None,
]
"""All that decides which nodes a pod can use: selector, required affinity, tolerations, the node that it names, its
topologyPolicy ("" for none of the two), and the NUMA layouts that it is planned on (None for all)."""

Value = TypeVar("Value")

CORDONED = Taint(UNSCHEDULABLE_TAINT, "", "NoSchedule")
"""A cordoned node refuses pods as if it carried this taint (Kubernetes' NodeUnschedulable)."""


MAX_LABEL_VALUES = 64
"""Values of a label up to which it distinguishes kinds of nodes."""


@dataclass(frozen=True, slots=True)
class NodeClasses:
    """class_by_node: by index. classes_by_requirement: the classes that pods with that requirement can use."""

    class_by_node: tuple[int, ...]
    classes_by_requirement: Mapping[NodeRequirement, frozenset[int]]


TRANSIENT_TAINTS = {
    UNSCHEDULABLE_TAINT: "cordoned",
    NOT_READY_TAINT: "not ready",
    UNREACHABLE_TAINT: "unreachable",
    **dict.fromkeys(PRESSURE_TAINTS, "short of disk, memory or processes"),
    NO_NETWORK_TAINT: "without network",
    UNINITIALIZED_TAINT: "not initialized",
    SHUTDOWN_TAINT: "shut down",
}
"""Taints that Kubernetes itself sets while a node takes no pods, and takes off afterwards -> what the node is then."""


def is_away(node: NodeSpec) -> bool:
    """Return whether the node takes no pods for now."""
    return node.unschedulable or any(taint.key in TRANSIENT_TAINTS for taint in node.taints)


def absences(node: NodeSpec) -> list[str]:
    """Return why a node is away; without Kubernetes' taints what it may be."""
    found = {taint.key for taint in node.taints}
    return [word for key, word in TRANSIENT_TAINTS.items() if key in found] or ["not ready", "cordoned"]


def is_cordoned(node: NodeSpec) -> bool:
    """Return whether the node has to be uncordoned, as far as its taints show."""
    keys = {taint.key for taint in node.taints}
    return UNSCHEDULABLE_TAINT in keys or (node.unschedulable and keys.isdisjoint(TRANSIENT_TAINTS))


def returned_node(node: NodeSpec) -> NodeSpec:
    """Return a node that is away as it will be when it is back, and any other as it is."""
    if not is_away(node):
        return node
    return replace(
        node, unschedulable=False, taints=tuple(taint for taint in node.taints if taint.key not in TRANSIENT_TAINTS)
    )


def with_label_rows(pod: PodSpec, *rows: Expression) -> PodSpec:
    """Return the pod, which asks for nodes whose labels meet these rows as well, whichever of its terms holds."""
    terms = pod.node_affinity if pod.node_affinity is not None else (NodeSelectorTerm(),)
    added = tuple(replace(term, label_expressions=(*term.label_expressions, *rows)) for term in terms)
    return replace(pod, node_affinity=added)


def numa_policy(pod: PodSpec) -> str:
    """Return the topologyPolicy in force for the pod: only Guaranteed pods are subject to one."""
    return pod.topology_policy if pod.guaranteed_qos and pod.topology_policy != "none" else ""


def numa_layout(numa: NumaSpec) -> NumaLayout:
    return tuple(tuple(sorted(slot.items())) for slot in numa.slots)


def node_requirement(pod: PodSpec, layouts: frozenset[NumaLayout] | None = None) -> NodeRequirement:
    return (
        frozenset(pod.node_selector.items()),
        pod.node_affinity,
        pod.tolerations,
        pod.node_name,
        numa_policy(pod),
        layouts,
    )


def classify_nodes(
    nodes: Sequence[NodeSpec], requirements: Iterable[NodeRequirement], numa_aware: bool = False
) -> NodeClasses:
    """Node classes, numbered by their first node. numa_aware: whether topology policies count."""
    index = NodeMasks(nodes, numa_aware)
    masks = {requirement: index.nodes_matching(requirement) for requirement in dict.fromkeys(requirements)}
    distinct = list(dict.fromkeys(masks.values()))
    # The slice: of no nodes no digit, not one "0".
    rows = [format(mask, f"0{len(nodes)}b")[::-1][: len(nodes)] for mask in distinct]
    signatures = list(zip(*rows, strict=True)) if rows else [()] * len(nodes)
    classes = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    column = {mask: c for c, mask in enumerate(distinct)}

    def usable_classes(mask: int) -> frozenset[int]:
        return frozenset(number for signature, number in classes.items() if signature[column[mask]] == "1")

    return NodeClasses(
        tuple(classes[signature] for signature in signatures),
        {requirement: usable_classes(mask) for requirement, mask in masks.items()},
    )


def node_kinds(nodes: Sequence[NodeSpec], classes: NodeClasses) -> tuple[int, ...]:
    """Return each node's number among the kinds of its class: nodes of one kind have the same taints, and the same
    values of the labels that pods select by; a label with very many values, such as a host's name, does not count."""
    asked = sorted({key for requirement in classes.classes_by_requirement for key in _asked_labels(requirement)})
    values = {key: len({node.labels.get(key) for node in nodes}) for key in asked}
    keys = [key for key in asked if values[key] <= MAX_LABEL_VALUES]
    numbers: dict[int, dict[object, int]] = {}
    found = []
    for node, node_class in zip(nodes, classes.class_by_node, strict=False):
        kinds = numbers.setdefault(node_class, {})
        taints = hard_taints(returned_node(node)) if node.taints else None
        found.append(kinds.setdefault((taints, *map(node.labels.get, keys)), len(kinds)))
    return tuple(found)


@dataclass(frozen=True)
class NearKinds:
    """The kinds of nodes that pods cannot use and perhaps mean. kinds: (class, kind) of each node."""

    nodes: Sequence[NodeSpec]
    kinds: Sequence[tuple[int, int]]

    def of(self, pod: PodSpec, open_classes: frozenset[int]) -> tuple[tuple[int, int], ...]:
        """Return kinds of other classes that nothing but taints closes; if no class is open, then kinds that match the
        probable intention of misspelt values, and the others, ascending by the edits that they ask for."""
        if open_classes and not self._has_taints:
            return ()
        tolerant = replace(pod, tolerations=(Toleration(operator="Exists"),))
        near = [kind for kind in self._matching(tolerant) if hard_taints(self._first[kind])]
        if not open_classes and (meant := self._respelt(tolerant)) != tolerant:
            near += self._matching(meant)
        if not open_classes:
            near += sorted(self._first, key=lambda kind: edits_for(self._first[kind], pod))
        return tuple(dict.fromkeys(kind for kind in near if kind[0] not in open_classes))

    def _matching(self, pod: PodSpec) -> list[tuple[int, int]]:
        requirement = node_requirement(pod)
        if requirement not in self._known:
            mask = self._masks.nodes_matching(requirement)
            self._known[requirement] = [kind for n, kind in enumerate(self._first) if mask >> n & 1]
        return self._known[requirement]

    def _respelt(self, pod: PodSpec) -> PodSpec:
        """Return the pod with unmatched label values replaced by similar ones of nodes."""

        def value(key: str, wanted: str) -> str:
            values = {node.labels[key] for node in self._first.values() if key in node.labels}
            return did_you_mean(wanted, values) or wanted

        def row(each: Expression) -> Expression:
            return replace(each, values=tuple(value(each.key, wanted) for wanted in each.values))

        terms = pod.node_affinity and tuple(
            replace(term, label_expressions=tuple(map(row, term.label_expressions))) for term in pod.node_affinity
        )
        selector = {key: value(key, wanted) for key, wanted in pod.node_selector.items()}
        return replace(pod, node_selector=selector, node_affinity=terms)

    @cached_property
    def _has_taints(self) -> bool:
        return any(hard_taints(node) for node in self._first.values())

    @cached_property
    def _known(self) -> dict[NodeRequirement, list[tuple[int, int]]]:
        return {}

    @cached_property
    def _first(self) -> dict[tuple[int, int], NodeSpec]:
        """Kind -> its first node, as it is when it is back."""
        first: dict[tuple[int, int], NodeSpec] = {}
        for node, kind in zip(self.nodes, self.kinds, strict=True):
            if kind not in first:
                first[kind] = returned_node(node)
        return first

    @cached_property
    def _masks(self) -> NodeMasks:
        return NodeMasks(tuple(self._first.values()))


def _asked_labels(requirement: NodeRequirement) -> Iterable[str]:
    yield from (key for key, _ in requirement[0])
    for term in requirement[1] or ():
        yield from (row.key for row in term.label_expressions)


def excluding_numa_policies(nodes: Sequence[NodeSpec], gangs: Sequence[GangSpec]) -> dict[tuple[int, int], str]:
    """(gang, role) -> its topologyPolicy, where that excludes nodes which its selectors and tolerations allow. With the
    plugin numa-aware only."""
    index: NodeMasks | None = None
    excludes: dict[NodeRequirement, bool] = {}
    found = {}
    for j, gang in enumerate(gangs):
        for t, role in enumerate(gang.roles):
            policy, requirement = numa_policy(role.pod), node_requirement(role.pod)
            if not policy:
                continue
            if index is None:
                index = NodeMasks([returned_node(node) for node in nodes], numa_aware=True)
            if requirement not in excludes:
                without_policy = node_requirement(replace(role.pod, topology_policy=""))
                excludes[requirement] = index.nodes_matching(requirement) != index.nodes_matching(without_policy)
            if excludes[requirement]:
                found[j, t] = policy
    return found


class NodeMasks:
    """Bit masks of the nodes by label value, taints and NUMA, each computed at first use."""

    def __init__(self, nodes: Sequence[NodeSpec], numa_aware: bool = False) -> None:
        self.nodes, self.numa_aware = nodes, numa_aware
        self.all_nodes = (1 << len(nodes)) - 1
        self._known_label_masks: dict[str, dict[str, int]] = {}
        self._known_name_masks: dict[str, int] | None = None

    @cached_property
    def _masks_by_taints(self) -> dict[frozenset[Taint], int]:
        return _masks_by_value(map(hard_taints, self.nodes))

    @cached_property
    def _masks_by_policy(self) -> dict[str, int]:
        return _masks_by_value(
            node.numa.topology_policy if node.numa is not None and node.numa.static_cpus else None
            for node in self.nodes
        )

    @cached_property
    def masks_by_layout(self) -> dict[NumaLayout, int]:
        """NUMA layout -> the nodes that have it."""
        return _masks_by_value(None if node.numa is None else numa_layout(node.numa) for node in self.nodes)

    def nodes_matching(self, requirement: NodeRequirement) -> int:
        """The selector and the affinity both hold (terms are alternatives), and every hard taint is tolerated."""
        selector, affinity, tolerations, name, policy, layouts = requirement
        mask = self._name_masks().get(name, 0) if name else self.all_nodes
        # Volcano, plugin numa-aware: the node's policy must be the task's, its CPU manager static.
        if policy and self.numa_aware:
            mask &= self._masks_by_policy.get(policy, 0)
        if layouts is not None:
            mask &= _union(self.masks_by_layout.get(layout, 0) for layout in layouts)
        for key, value in selector:
            mask &= self._label_masks(key).get(value, 0)
        if affinity is not None:
            alternatives = 0
            for term in affinity:
                alternatives |= self._term_mask(term)
            mask &= alternatives
        for taints, carriers in self._masks_by_taints.items():
            if not all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints):
                mask &= ~carriers
        return mask

    def nodes_with_label(self, key: str) -> int:
        """Return the nodes that have the label, with any value."""
        return _union(self._label_masks(key).values())

    def _term_mask(self, term: NodeSelectorTerm) -> int:
        """Return an empty term matches nothing, as in Kubernetes."""
        if not term.label_expressions and not term.field_expressions:
            return 0
        mask = self.all_nodes
        for expression in term.label_expressions:
            mask &= self._expression_mask(expression, self._label_masks(expression.key))
        for expression in term.field_expressions:
            mask &= self._expression_mask(expression, self._name_masks() if expression.key == "metadata.name" else {})
        return mask

    def _expression_mask(self, expression: Expression, by_value: Mapping[str, int]) -> int:
        return _OPERATORS[expression.operator](self.all_nodes, by_value, expression.values)

    def _label_masks(self, key: str) -> Mapping[str, int]:
        if key not in self._known_label_masks:
            self._known_label_masks[key] = _masks_by_value(node.labels.get(key) for node in self.nodes)
        return self._known_label_masks[key]

    def _name_masks(self) -> Mapping[str, int]:
        if self._known_name_masks is None:
            self._known_name_masks = _masks_by_value(node.name for node in self.nodes)
        return self._known_name_masks


def _masks_by_value(values: Iterable[Value | None]) -> dict[Value, int]:
    members: dict[Value, list[int]] = {}
    for i, value in enumerate(values):
        if value is not None:
            members.setdefault(value, []).append(i)
    return {value: _mask_of(indices) for value, indices in members.items()}


def _mask_of(indices: Sequence[int]) -> int:
    """The bits are set in a byte array: shifting one large integer per node would be quadratic."""
    bits = bytearray(indices[-1] // 8 + 1)
    for i in indices:
        bits[i >> 3] |= 1 << (i & 7)
    return int.from_bytes(bits, "little")


def hard_taints(node: NodeSpec) -> frozenset[Taint] | None:
    """Return the taints that keep pods away, that of a cordoned node included; None for none."""
    if not node.taints and not node.unschedulable:
        return None
    taints = frozenset(taint for taint in node.taints if taint.effect != "PreferNoSchedule")
    return (taints | {CORDONED} if node.unschedulable else taints) or None


def edits_for(node: NodeSpec, pod: PodSpec) -> int:
    """Return how many labels of its selector the pod would change, and taints tolerate, to use the node."""
    unmet = sum(node.labels.get(key) != value for key, value in pod.node_selector.items())
    return unmet + len(untolerated_taints(node, pod))


def untolerated_taints(node: NodeSpec, pod: PodSpec) -> tuple[Taint, ...]:
    """Return the hard taints of the node that the pod does not tolerate, in order of their text."""
    taints = hard_taints(node) or ()
    found = (taint for taint in taints if not any(tolerates(other, taint) for other in pod.tolerations))
    return tuple(sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect)))


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key (with Exists) or effect means every key or effect."""
    return (
        (not toleration.effect or toleration.effect == taint.effect)
        and (not toleration.key or toleration.key == taint.key)
        and (toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value))
    )


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _integer_comparison(compare: Callable[[int, int], bool]) -> Callable[[int, Mapping[str, int], Sequence[str]], int]:
    """Return the operator Gt or Lt, which compares integers; another label never matches."""

    def operator(everything: int, by_value: Mapping[str, int], values: Sequence[str]) -> int:
        limit = _parse_integer(values[0]) if values else None
        if limit is None:
            return 0
        numbered = ((_parse_integer(value), mask) for value, mask in by_value.items())
        integers = ((number, mask) for number, mask in numbered if number is not None)
        return _union(mask for number, mask in integers if compare(number, limit))

    return operator


def _card_comparison(wanted: bool) -> Callable[[int, Mapping[str, int], Sequence[str]], int]:
    """Like and Unlike: whether one of the cards that the label lists has one of the values in its name, or none."""

    def operator(everything: int, by_value: Mapping[str, int], values: Sequence[str]) -> int:
        parts = [value.upper() for value in values]
        refusing = (
            mask
            for listed, mask in by_value.items()
            if not any(any(part in card for part in parts) == wanted for card in listed.upper().split(","))
        )
        return everything & ~_union(refusing)

    return operator


def _parse_integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


_OPERATORS: Mapping[str, Callable[[int, Mapping[str, int], Sequence[str]], int]] = {
    "In": lambda everything, by_value, values: _union(by_value.get(v, 0) for v in values),
    "NotIn": lambda everything, by_value, values: everything & ~_union(by_value.get(v, 0) for v in values),
    "Exists": lambda everything, by_value, values: _union(by_value.values()),
    "DoesNotExist": lambda everything, by_value, values: everything & ~_union(by_value.values()),
    "Gt": _integer_comparison(lambda number, limit: number > limit),
    "Lt": _integer_comparison(lambda number, limit: number < limit),
    "Like": _card_comparison(True),
    "Unlike": _card_comparison(False),
}
