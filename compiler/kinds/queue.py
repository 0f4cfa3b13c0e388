"""Volcano's Queue (scheduling.volcano.sh/v1beta1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from compiler.documents import Document
from compiler.jobs import Natural, Root
from compiler.kinds import Kind
from compiler.pods import WholeResources
from compiler.quantity import amounts
from compiler.shape import Bool, Int, Name, Shape
from compiler.specs import QueueSpec


class Guarantee(Shape):
    resource: WholeResources | None = None


class GroupAffinity(Shape):
    required: list[str] | None = Field(None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[str] | None = Field(None, alias="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(Shape):
    node_group_affinity: GroupAffinity | None = None
    node_group_anti_affinity: GroupAffinity | None = None


class Spec(Shape):
    weight: Annotated[Int, Field(ge=0, le=65535)] | None = None
    capability: WholeResources | None = None
    deserved: WholeResources | None = None
    guarantee: Guarantee | None = None
    reclaimable: Bool | None = None
    parent: Name | None = None
    priority: Natural | None = None
    dequeue_strategy: Literal["fifo", "traverse"] | None = None
    affinity: QueueAffinity | None = None
    extend_clusters: list[Any] | None = None
    type: str | None = None


class Queue(Root):
    spec: Spec = Field(default_factory=lambda: Spec())


def specs(document: Document, queue: Queue) -> Iterable[QueueSpec]:
    """Admission turns weight 0 into 1; a queue without a parent, or with parent "root", hangs under the root."""
    spec = queue.spec
    guarantee = spec.guarantee.resource if spec.guarantee else None
    yield QueueSpec(
        document=document,
        name=document.name,
        parent=spec.parent if spec.parent and spec.parent != "root" else None,
        weight=spec.weight or 1,
        priority=spec.priority or 0,
        guarantee=amounts(guarantee or {}, "up"),
        deserved=amounts(spec.deserved or {}, "up"),
        capability=amounts(spec.capability or {}, "up"),
        reclaimable=spec.reclaimable is not False,
    )


KIND = Kind("Queue", "scheduling.volcano.sh", ("v1beta1",), Queue, specs, namespaced=False)
