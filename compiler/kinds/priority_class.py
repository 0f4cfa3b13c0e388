"""Kubernetes' PriorityClass (scheduling.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from compiler.fields.models import Bool, Int
from compiler.kinds.common.jobs import ObjectModel
from compiler.kinds.kind import Kind
from compiler.specs.queue_spec import PriorityClassSpec
from compiler.syntax.documents import Document


class PriorityClass(ObjectModel):
    value: Annotated[Int, Field(ge=-(2**31), le=10**9)]
    global_default: Bool | None = None
    description: str | None = None
    preemption_policy: Literal["PreemptLowerPriority", "Never"] | None = None


def specs(document: Document, found: PriorityClass) -> Iterable[PriorityClassSpec]:
    yield PriorityClassSpec(
        document,
        document.name,
        found.value,
        bool(found.global_default),
        found.preemption_policy or "PreemptLowerPriority",
    )


KIND = Kind("PriorityClass", "scheduling.k8s.io", ("v1",), PriorityClass, specs)
