"""Kubernetes' PriorityClass (scheduling.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from compiler.fields.models import Bool, Int, LenientModel
from compiler.kinds.kind import Kind
from compiler.specs.queue_spec import PriorityClassSpec
from compiler.syntax.documents import Document


class PriorityClass(LenientModel):
    value: Int
    global_default: Bool | None = None
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
