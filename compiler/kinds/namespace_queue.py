"""Volcano 1.16's NamespaceQueue (scheduling.volcano.sh/v1beta1): a queue that the owners of a namespace keep."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from compiler.fields.models import Bool, Int, LenientModel, Resources, below
from compiler.fields.quantity import integer_amounts
from compiler.kinds.kind import Kind
from compiler.kubernetes import DEFAULT_QUEUE
from compiler.specs.namespace_queues import CLUSTER_PREFIX, parent_name, queue_name
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import Document


class Spec(LenientModel):
    parent: str = f"{CLUSTER_PREFIX}{DEFAULT_QUEUE}"
    capability: Resources | None = None
    deserved: Resources | None = None
    guarantee: Resources | None = Field(default=None, validation_alias=below("guarantee.resource"))
    priority: Int | None = None
    reclaimable: Bool | None = None
    state: str | None = None
    desired_state: str | None = None


class NamespaceQueue(LenientModel):
    spec: Spec = Field(default_factory=lambda: Spec())


def specs(document: Document, queue: NamespaceQueue) -> Iterable[QueueSpec]:
    """Volcano names it NAMESPACE/NAME. A parent without cluster/ is a NamespaceQueue of the same namespace."""
    spec, namespace = queue.spec, document.namespace or "default"
    yield QueueSpec(
        document=document,
        name=queue_name(namespace, document.name),
        parent=parent_name(namespace, spec.parent),
        weight=1,
        priority=spec.priority or 0,
        guarantee=integer_amounts(spec.guarantee or {}, "up"),
        deserved=integer_amounts(spec.deserved or {}, "up"),
        capability=integer_amounts(spec.capability or {}, "up"),
        reclaimable=spec.reclaimable is not False,
        namespace=namespace,
    )


KIND = Kind("NamespaceQueue", "scheduling.volcano.sh", ("v1beta1",), NamespaceQueue, specs)
