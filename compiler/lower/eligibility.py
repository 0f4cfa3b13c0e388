"""Which nodes are open to which pods, settled before the solver: nodes open to exactly the same roles are of one
*kind*.

The sets of nodes are bit masks (bit i is node i), so that 10,000 nodes and 200 distinct requirements cost a few
thousand operations on large integers instead of millions of comparisons. Rules: Kubernetes' nodeSelector, required node
affinity and taints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from compiler.specs import Expression, GangSpec, NodeSpec, NumaSpec, PodSpec, Taint, Term, Toleration

Layout = tuple[tuple[tuple[str, int], ...], ...]
"""How a node is divided into NUMA cells: what each of them has."""

Requirement = tuple[
    frozenset[tuple[str, str]], tuple[Term, ...] | None, tuple[Toleration, ...], str, str, frozenset[Layout] | None
]
"""All that decides which nodes are open to a pod: selector, required affinity, tolerations, the one node it names, the
policy of its NUMA cells ("" for neither), and the layouts of cells that it is planned on (None for all)."""

Value = TypeVar("Value")

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""A cordoned node refuses pods as if it carried this taint (Kubernetes' NodeUnschedulable)."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """of_node: the kind of each node. of_requirement: the kinds that are open to pods with that requirement."""

    of_node: tuple[int, ...]
    of_requirement: Mapping[Requirement, frozenset[int]]


AWAY = frozenset({"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that Kubernetes itself sets while a node is cordoned or not ready, and takes off afterwards."""


def returned(node: NodeSpec) -> NodeSpec:
    """A cordoned or lost node as it is once it is back."""
    return replace(node, unschedulable=False, taints=tuple(taint for taint in node.taints if taint.key not in AWAY))


def policy(pod: PodSpec) -> str:
    """The topologyPolicy that binds the pod: only Guaranteed pods are bound by any."""
    return pod.topology_policy if pod.guaranteed and pod.topology_policy != "none" else ""


def layout(numa: NumaSpec) -> Layout:
    return tuple(tuple(sorted(cell.items())) for cell in numa.cells)


def requirement(pod: PodSpec, layouts: frozenset[Layout] | None = None) -> Requirement:
    return frozenset(pod.node_selector.items()), pod.affinity, pod.tolerations, pod.node_name, policy(pod), layouts


def eligibility(nodes: Sequence[NodeSpec], wanted: Iterable[Requirement], numa_aware: bool = False) -> Eligibility:
    """Divide the nodes into kinds, numbered by their first node. numa_aware: whether policies of NUMA cells count."""
    index = NodeMasks(nodes, numa_aware)
    masks = {one: index.matching(one) for one in dict.fromkeys(wanted)}
    distinct = list(dict.fromkeys(masks.values()))
    rows = [
        format(mask, f"0{len(nodes)}b")[::-1][: len(nodes)] for mask in distinct
    ]  # of no nodes no digit, not one "0"
    signatures = list(zip(*rows, strict=True)) if rows else [()] * len(nodes)
    kinds = {signature: kind for kind, signature in enumerate(dict.fromkeys(signatures))}
    column = {mask: c for c, mask in enumerate(distinct)}
    return Eligibility(
        tuple(kinds[s] for s in signatures),
        {one: frozenset(kind for s, kind in kinds.items() if s[column[mask]] == "1") for one, mask in masks.items()},
    )


def barring(nodes: Sequence[NodeSpec], gangs: Sequence[GangSpec]) -> dict[tuple[int, int], str]:
    """(gang, role) -> its topologyPolicy, where that closes nodes which its selectors and tolerations leave open. With
    numa-aware only."""
    bound = [(j, t, role.pod) for j, gang in enumerate(gangs) for t, role in enumerate(gang.roles) if policy(role.pod)]
    if not bound:
        return {}
    index = NodeMasks([returned(node) for node in nodes], numa_aware=True)
    barred: dict[Requirement, bool] = {}
    for _, _, pod in bound:
        wanted = requirement(pod)
        if wanted not in barred:
            barred[wanted] = index.matching(wanted) != index.matching(requirement(replace(pod, topology_policy="")))
    return {(j, t): policy(pod) for j, t, pod in bound if barred[requirement(pod)]}


class NodeMasks:
    """Masks of the nodes by label value and by set of taints, each made when first asked for."""

    def __init__(self, nodes: Sequence[NodeSpec], numa_aware: bool = False) -> None:
        self.nodes, self.numa_aware = nodes, numa_aware
        self.all = (1 << len(nodes)) - 1
        self._labels: dict[str, dict[str, int]] = {}
        self._names: dict[str, int] | None = None

    @cached_property
    def _tainted(self) -> dict[frozenset[Taint], int]:
        return _masks(map(_hard_taints, self.nodes))

    @cached_property
    def _policies(self) -> dict[str, int]:
        return _masks(node.numa.policy if node.numa is not None and node.numa.static else None for node in self.nodes)

    @cached_property
    def layouts(self) -> dict[Layout, int]:
        """The nodes by their NUMA cells."""
        return _masks(None if node.numa is None else layout(node.numa) for node in self.nodes)

    def matching(self, wanted: Requirement) -> int:
        """The selector and the affinity both hold (terms are alternatives), and every hard taint is tolerated."""
        selector, affinity, tolerations, name, policy, layouts = wanted
        mask = self._name().get(name, 0) if name else self.all
        if (
            policy and self.numa_aware
        ):  # Volcano, plugin numa-aware: the node's policy is the task's, its CPU manager static
            mask &= self._policies.get(policy, 0)
        if layouts is not None:
            mask &= _union(self.layouts.get(cells, 0) for cells in layouts)
        for key, value in selector:
            mask &= self._label(key).get(value, 0)
        if affinity is not None:
            alternatives = 0
            for term in affinity:
                alternatives |= self._term(term)
            mask &= alternatives
        for taints, carriers in self._tainted.items():
            if not all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints):
                mask &= ~carriers
        return mask

    def labelled(self, key: str) -> int:
        """The nodes that have the label, whatever its value."""
        return _union(self._label(key).values())

    def _term(self, term: Term) -> int:
        """An empty term matches nothing, as in Kubernetes."""
        if not term.labels and not term.fields:
            return 0
        mask = self.all
        for expression in term.labels:
            mask &= self._expression(expression, self._label(expression.key))
        for expression in term.fields:
            mask &= self._expression(expression, self._name() if expression.key == "metadata.name" else {})
        return mask

    def _expression(self, expression: Expression, by_value: Mapping[str, int]) -> int:
        return _OPERATORS[expression.operator](self.all, by_value, expression.values)

    def _label(self, key: str) -> Mapping[str, int]:
        if key not in self._labels:
            self._labels[key] = _masks(node.labels.get(key) for node in self.nodes)
        return self._labels[key]

    def _name(self) -> Mapping[str, int]:
        if self._names is None:
            self._names = _masks(node.name for node in self.nodes)
        return self._names


def _masks(values: Iterable[Value | None]) -> dict[Value, int]:
    members: dict[Value, list[int]] = {}
    for i, value in enumerate(values):
        if value is not None:
            members.setdefault(value, []).append(i)
    return {value: _mask(indices) for value, indices in members.items()}


def _mask(indices: Sequence[int]) -> int:
    """The bits are set in a byte array: shifting one large integer per node would be quadratic."""
    bits = bytearray(indices[-1] // 8 + 1)
    for i in indices:
        bits[i >> 3] |= 1 << (i & 7)
    return int.from_bytes(bits, "little")


def _hard_taints(node: NodeSpec) -> frozenset[Taint] | None:
    if not node.taints and not node.unschedulable:
        return None
    taints = frozenset(taint for taint in node.taints if taint.effect != "PreferNoSchedule")
    return (taints | {UNSCHEDULABLE} if node.unschedulable else taints) or None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
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


def _compare(holds: Callable[[int, int], bool]) -> Callable[[int, Mapping[str, int], Sequence[str]], int]:
    """Gt and Lt compare integers; a label that is none never matches."""

    def operator(everything: int, by_value: Mapping[str, int], values: Sequence[str]) -> int:
        limit = _integer(values[0]) if values else None
        if limit is None:
            return 0
        return _union(
            mask for value, mask in by_value.items() if (number := _integer(value)) is not None and holds(number, limit)
        )

    return operator


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


_OPERATORS: Mapping[str, Callable[[int, Mapping[str, int], Sequence[str]], int]] = {
    "In": lambda everything, by_value, values: _union(by_value.get(v, 0) for v in values),
    "NotIn": lambda everything, by_value, values: everything & ~_union(by_value.get(v, 0) for v in values),
    "Exists": lambda everything, by_value, values: _union(by_value.values()),
    "DoesNotExist": lambda everything, by_value, values: everything & ~_union(by_value.values()),
    "Gt": _compare(lambda number, limit: number > limit),
    "Lt": _compare(lambda number, limit: number < limit),
}
