"""Kubernetes' Node, as `kubectl get nodes -o yaml` prints it."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.fields.models import Bool, LenientModel, Resources
from compiler.fields.quantity import integer_amounts
from compiler.kinds.common.jobs import Metadata
from compiler.kinds.common.pods import TaintModel
from compiler.kinds.kind import Kind
from compiler.specs.node_spec import NodeSpec
from compiler.syntax.documents import Document
from compiler.volcano.shared_devices import card_labels, shared_devices_of


class Spec(LenientModel):
    taints: list[TaintModel] | None = None
    unschedulable: Bool | None = None


class Condition(LenientModel):
    type: str
    status: str


class Status(LenientModel):
    capacity: Resources | None = None
    allocatable: Resources | None = None
    conditions: list[Condition] | None = None


class Node(LenientModel):
    metadata: Metadata
    spec: Spec | None = None
    status: Status | None = None


def specs(document: Document, node: Node) -> Iterable[NodeSpec]:
    """A node is unschedulable when it is cordoned or not ready."""
    status, spec = node.status or Status(), node.spec or Spec()
    resources = status.capacity if status.allocatable is None else status.allocatable
    ready = all(condition.status == "True" for condition in status.conditions or () if condition.type == "Ready")
    labels = {key: str(value) for key, value in (node.metadata.labels or {}).items()}
    taints = tuple(taint.to_spec() for taint in spec.taints or ())
    allocatable = integer_amounts(resources or {}, "down")
    annotations = {key: str(value) for key, value in (node.metadata.annotations or {}).items()}
    yield NodeSpec(
        document,
        document.name,
        {**labels, **card_labels(annotations)},
        taints,
        allocatable,
        bool(spec.unschedulable) or not ready,
        shared_devices=shared_devices_of(annotations, integer_amounts(status.capacity or resources or {}, "down")),
    )


KIND = Kind("Node", "", ("v1",), Node, specs)
