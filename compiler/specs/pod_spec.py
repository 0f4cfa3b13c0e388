"""A pod's demands on its node: selectors, taints, spread and affinity, requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from compiler.kubernetes import HOSTNAME_LABEL

Amounts = Mapping[str, int]
_NAMES_OF_NODES = frozenset((HOSTNAME_LABEL, "metadata.name"))


@dataclass(frozen=True, slots=True)
class Expression:
    """One row of a node selector term: `key operator values`; Gt and Lt have one value.

    Like, Unlike: not Kubernetes', but Volcano's, of the cards of a node, which a label lists with commas: one of them
    has one of the values in its name, or none, case aside. A node without the label is not known to differ.
    """

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like", "Unlike"]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """A term of which all expressions, on labels and on fields (metadata.name), must hold."""

    label_expressions: tuple[Expression, ...] = ()
    field_expressions: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: str = ""


TOLERATE_ALL = (Toleration(operator="Exists"),)


@dataclass(frozen=True, slots=True)
class PodSelector:
    """The pods that a pod rule selects.

    label_expressions: rows (label, operator, values) that all hold; None selects no pod, as in Kubernetes. namespaces:
    () is the pod's own, None is all. match_label_keys, mismatch_label_keys: labels of the pod's own value, or another.
    """

    label_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] | None
    namespaces: tuple[str, ...] | None = ()
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


UNREACHABLE_MIN_DOMAINS = 2**31
"""More domains than there can be: then at most max_skew pods of a spread rule are in one."""


@dataclass(frozen=True, slots=True)
class PodRuleSpec:
    """A required rule about other pods, in the domains that the values of node label `topology_key` form.

    rule_kind: affinity to the pods that match all selectors, anti-affinity, topology spread (DoNotSchedule), or a port
    of the node, which keeps apart like an anti-affinity.
    max_skew, min_domains, honors_affinity, honors_taints: of a topology spread constraint; with the last two, nodes
    that the pod's own affinity or tolerations exclude do not count.
    """

    rule_kind: Literal["anti-affinity", "affinity", "spread", "host-port"]
    topology_key: str
    selectors: tuple[PodSelector, ...]
    max_skew: int = 1
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class VgpuRequest:
    """One container's request for Volcano's virtual GPUs: `number` different devices, with `memory` MiB (if 0,
    `percentage` percent of the memory) and `cores` percent of each."""

    number: int
    memory: int
    percentage: int
    cores: int


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The demands of one pod on a node.

    requests: by Kubernetes' rule for containers, init containers, sidecars and overhead; "pods" is 1. node_affinity:
    the required terms, of which one must hold; None for no requirement. scheduler_name: empty where the pod names none.
    node_name: spec.nodeName, which bypasses every scheduler. guaranteed_qos: QoS class Guaranteed. vgpu_requests: one
    for each container with virtual GPUs. topology_policy: of a Volcano task, "" for none. never_preempts:
    preemptionPolicy Never. has_unplanned_needs: volumes with a claim, or devices claimed by DRA, which only the
    scheduler knows about. host_ports: ports of its node that it takes, as in `host_ports`. several_containers: it has
    more than one, init containers among them.
    """

    requests: Amounts
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduler_name: str = ""
    node_name: str = ""
    pod_rules: tuple[PodRuleSpec, ...] = ()
    guaranteed_qos: bool = False
    vgpu_requests: tuple[VgpuRequest, ...] = ()
    topology_policy: str = ""
    never_preempts: bool = False
    priority_class: str = ""
    has_unplanned_needs: bool = False
    host_ports: tuple[str, ...] = ()
    several_containers: bool = False

    @property
    def names_nodes(self) -> bool:
        """Return whether only nodes of given names match it."""
        rows = ((*term.label_expressions, *term.field_expressions) for term in self.node_affinity or ())
        terms = [{row.key for row in term if row.operator == "In"} & _NAMES_OF_NODES for term in rows]
        return bool(self.node_name) or HOSTNAME_LABEL in self.node_selector or (bool(terms) and all(terms))
