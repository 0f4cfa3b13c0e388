"""Nodes by name and hostname: which of them a pod may be given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from compiler.kubernetes import HOSTNAME_LABEL, assigned_node, is_ready_node, labels_of, name_of
from compiler.specs.eligibility import CORDONED, tolerates
from compiler.specs.pod_spec import Taint, Toleration
from reconciler.cluster.objects import Object

NodeFacts = tuple[str, str | None, bool, frozenset[Taint]]
"""Facts about a node: its name, its hostname label, whether it is ready, and the taints that keep pods away."""


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """hostname_of: node name -> its hostname label, of nodes that a selector can name. leaf_of: node name -> the
    hypernode that holds it. unready: nodes that get nothing new, whatever a pod tolerates. taints_of: node name -> the
    taints that keep pods away, that of a cordoned node included. names: of all nodes."""

    hostname_of: Mapping[str, str]
    node_of_hostname: Mapping[str, str]
    leaf_of: Mapping[str, str]
    unready: frozenset[str] = frozenset()
    taints_of: Mapping[str, frozenset[Taint]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    @classmethod
    def from_facts(cls, facts: Sequence[NodeFacts], leaf_of: Mapping[str, str]) -> NodeIndex:
        """Nodes whose hostname label is missing or shared with another cannot be named by a selector: left out."""
        names: dict[str, list[str]] = {}
        for name, hostname, _, _ in facts:
            if hostname:
                names.setdefault(hostname, []).append(name)
        unique = {hostname: named[0] for hostname, named in names.items() if len(named) == 1}
        hostname_of = {name: hostname for hostname, name in unique.items()}
        unready = frozenset(name for name, _, is_ready, _ in facts if not is_ready)
        taints = {name: found for name, _, _, found in facts if found}
        return cls(hostname_of, unique, leaf_of, unready, taints, frozenset(name for name, _, _, _ in facts))

    def node_of(self, pod: Object) -> str | None:
        """Return the node of a pod that is bound, or that was given one and waits for the scheduler."""
        return assigned_node(pod, self.node_of_hostname)

    def pods_by_node(self, pods: Iterable[Object]) -> dict[str, list[Object]]:
        """Return node -> the pods that are bound to it, or were given it and wait for the scheduler."""
        found: dict[str, list[Object]] = {}
        for pod in pods:
            if (node := self.node_of(pod)) is not None:
                found.setdefault(node, []).append(pod)
        return found

    def leaf_of_node(self, node: str) -> str:
        return self.leaf_of.get(node, "")

    def accepts(self, node: str, pod: Object) -> bool:
        """Return whether the node is ready, and the pod tolerates its taints."""
        if node in self.unready:
            return False
        if not (taints := self.taints_of.get(node)):
            return True
        tolerations = [_toleration(row) for row in pod["spec"].get("tolerations") or ()]
        return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def facts_of_node(node: Object) -> NodeFacts:
    return name_of(node), labels_of(node).get(HOSTNAME_LABEL), is_ready_node(node), frozenset(_hard_taints(node))


def _hard_taints(node: Object) -> Iterator[Taint]:
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield CORDONED
    for taint in spec.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute"):
            yield Taint(taint["key"], taint.get("value") or "", taint["effect"])


def _toleration(row: Mapping[str, Any]) -> Toleration:
    operator: Literal["Exists", "Equal"] = "Exists" if row.get("operator") == "Exists" else "Equal"
    return Toleration(row.get("key") or "", operator, row.get("value") or "", row.get("effect") or "")
