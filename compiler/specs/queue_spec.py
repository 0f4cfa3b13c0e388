"""Queues and priority classes."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.specs.pod_spec import Amounts
from compiler.syntax.documents import Document


@dataclass(frozen=True, slots=True)
class NodeGroupAffinity:
    """A queue's spec.affinity: the node groups that it requires, prefers, and of anti-affinity."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue as its document describes it.

    open: whether jobs may start, unless the cluster closes it. hierarchy: Volcano's annotations as (name, weight)
    pairs without the root. strict_order: jobs start in their order only. dedicated_domains: (number, tier by number or
    name) of the hypernodes kept for the queue. namespace: of a NamespaceQueue, whose name is NAMESPACE/NAME; empty for
    a Queue of the cluster. allowed_namespaces: those whose NamespaceQueues may have it as parent; * is all.
    """

    document: Document
    name: str
    parent: str | None
    weight: int
    priority: int
    guarantee: Amounts
    deserved: Amounts
    capability: Amounts
    reclaimable: bool = True
    open: bool = True
    hierarchy: tuple[tuple[str, float], ...] = ()
    strict_order: bool = False
    dedicated_domains: tuple[int, str] | None = None
    affinity: NodeGroupAffinity | None = None
    namespace: str = ""
    allowed_namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PriorityClassSpec:
    """A Kubernetes PriorityClass."""

    document: Document
    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
