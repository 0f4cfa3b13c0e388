"""Kubernetes' Node, as `kubectl get nodes -o yaml` prints it."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from compiler.fields.models import Bool, LenientModel, Resources, below
from compiler.fields.quantity import integer_amounts
from compiler.kinds.common.jobs import Metadata
from compiler.kinds.common.pods import TaintModel
from compiler.kinds.kind import Kind
from compiler.specs.node_spec import NodeSpec
from compiler.syntax.documents import Document
from compiler.volcano.shared_devices import card_labels, shared_devices_of


class Condition(LenientModel):
    type: str
    status: str


class Node(LenientModel):
    metadata: Metadata
    taints: list[TaintModel] = Field([], validation_alias=below("spec.taints"))
    unschedulable: Bool = Field(False, validation_alias=below("spec.unschedulable"))
    capacity: Resources | None = Field(None, validation_alias=below("status.capacity"))
    allocatable: Resources | None = Field(None, validation_alias=below("status.allocatable"))
    conditions: list[Condition] = Field([], validation_alias=below("status.conditions"))


def specs(document: Document, node: Node) -> Iterable[NodeSpec]:
    """A node is unschedulable when it is cordoned or not ready."""
    resources = node.capacity if node.allocatable is None else node.allocatable
    ready = all(condition.status == "True" for condition in node.conditions if condition.type == "Ready")
    labels = {key: str(value) for key, value in (node.metadata.labels or {}).items()}
    taints = tuple(taint.to_spec() for taint in node.taints)
    allocatable = integer_amounts(resources or {}, "down")
    annotations = {key: str(value) for key, value in (node.metadata.annotations or {}).items()}
    yield NodeSpec(
        document,
        document.name,
        {**labels, **card_labels(annotations)},
        taints,
        allocatable,
        node.unschedulable or not ready,
        shared_devices=shared_devices_of(annotations, integer_amounts(node.capacity or resources or {}, "down")),
    )


KIND = Kind("Node", "", ("v1",), Node, specs)
