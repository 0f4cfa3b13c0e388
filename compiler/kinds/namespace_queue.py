"""Volcano 1.16's NamespaceQueue (scheduling.volcano.sh/v1beta1): a queue that the owners of a namespace keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from compiler.fields.models import Bool, StrictModel
from compiler.fields.quantity import integer_amounts
from compiler.kinds.common.jobs import Natural, ObjectModel
from compiler.kinds.common.pods import ResourceAmounts
from compiler.kinds.kind import Kind
from compiler.kinds.queue import Guarantee
from compiler.kubernetes import DEFAULT_QUEUE
from compiler.specs.namespace_queues import CLUSTER_PREFIX, parent_name, queue_name
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import Document

ParentName = Annotated[str, Field(min_length=1, max_length=261)]


class Spec(StrictModel):
    parent: ParentName = f"{CLUSTER_PREFIX}{DEFAULT_QUEUE}"
    capability: ResourceAmounts | None = None
    deserved: ResourceAmounts | None = None
    guarantee: Guarantee | None = None
    priority: Natural | None = None
    reclaimable: Bool | None = None
    dequeue_strategy: Literal["fifo", "traverse"] | None = None
    state: Literal["Open", "Closed"] | None = None
    desired_state: Literal["Open", "Closed"] | None = None


class NamespaceQueue(ObjectModel):
    spec: Spec = Field(default_factory=lambda: Spec())


def specs(document: Document, queue: NamespaceQueue) -> Iterable[QueueSpec]:
    """Volcano names it NAMESPACE/NAME. A parent without cluster/ is a NamespaceQueue of the same namespace."""
    spec, namespace = queue.spec, document.namespace or "default"
    guarantee = spec.guarantee.resource if spec.guarantee else None
    yield QueueSpec(
        document=document,
        name=queue_name(namespace, document.name),
        parent=parent_name(namespace, spec.parent),
        weight=1,
        priority=spec.priority or 0,
        guarantee=integer_amounts(guarantee or {}, "up"),
        deserved=integer_amounts(spec.deserved or {}, "up"),
        capability=integer_amounts(spec.capability or {}, "up"),
        reclaimable=spec.reclaimable is not False,
        namespace=namespace,
    )


KIND = Kind("NamespaceQueue", "scheduling.volcano.sh", ("v1beta1",), NamespaceQueue, specs)
