"""Volcano's Queue (scheduling.volcano.sh/v1beta1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pydantic import Field

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.models import Bool, Int, LenientModel, Resources, below
from compiler.fields.quantity import integer_amounts
from compiler.kinds.common.jobs import annotation_value
from compiler.kinds.kind import Kind
from compiler.specs.queue_spec import NodeGroupAffinity, QueueSpec
from compiler.syntax.documents import Document, FieldPath

STRICT_ORDER = "strict"
_DEDICATED_DOMAINS = re.compile(r"\s*([1-9]\d{0,6}) of tier (\S+)\s*\Z", re.ASCII)

BAD_HIERARCHY = declare_rule("GP317", "error")


BAD_QUEUE_ORDER = declare_rule("GP380", "error")
BAD_DEDICATED_DOMAINS = declare_rule("GP381", "error")


class GroupAffinity(LenientModel):
    required: list[str] | None = Field(None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[str] | None = Field(None, alias="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(LenientModel):
    node_group_affinity: GroupAffinity | None = None
    node_group_anti_affinity: GroupAffinity | None = None


class Spec(LenientModel):
    weight: Int | None = None
    capability: Resources | None = None
    deserved: Resources | None = None
    guarantee: Resources | None = Field(default=None, validation_alias=below("guarantee.resource"))
    reclaimable: Bool | None = None
    parent: str | None = None
    priority: Int | None = None
    affinity: QueueAffinity | None = None
    allowed_namespaces: list[str] | None = None


class Queue(LenientModel):
    spec: Spec = Field(default_factory=lambda: Spec())

    def node_groups(self) -> Iterator[tuple[FieldPath, str]]:
        """Yield the node groups that its affinity names, each with its path."""
        affinity = self.spec.affinity or QueueAffinity()
        parts = {
            "nodeGroupAffinity": affinity.node_group_affinity,
            "nodeGroupAntiAffinity": affinity.node_group_anti_affinity,
        }
        for key, part in parts.items():
            for rule, names in (("required", part.required), ("preferred", part.preferred)) if part else ():
                for index, name in enumerate(names or ()):
                    yield ("spec", "affinity", key, f"{rule}DuringSchedulingIgnoredDuringExecution", index), name


def specs(document: Document, queue: Queue) -> Iterable[QueueSpec]:
    """As in Volcano's admission, weight 0 becomes 1; without a parent a queue is a child of the root."""
    spec = queue.spec
    yield QueueSpec(
        document=document,
        name=document.name,
        parent=spec.parent if spec.parent and spec.parent != k8s.ROOT_QUEUE else None,
        weight=spec.weight or 1,
        priority=spec.priority or 0,
        guarantee=integer_amounts(spec.guarantee or {}, "up"),
        deserved=integer_amounts(spec.deserved or {}, "up"),
        capability=integer_amounts(spec.capability or {}, "up"),
        reclaimable=spec.reclaimable is not False,
        open=annotation_value(document, k8s.CLOSED_ANNOTATION) != "true",
        hierarchy=hierarchy_weights(document) or (),
        strict_order=annotation_value(document, k8s.ORDER_ANNOTATION) == STRICT_ORDER,
        dedicated_domains=dedicated_domains(document),
        affinity=_node_group_affinity(spec.affinity) if spec.affinity else None,
        allowed_namespaces=tuple(spec.allowed_namespaces or ()),
    )


def _node_group_affinity(affinity: QueueAffinity) -> NodeGroupAffinity:
    near, far = affinity.node_group_affinity, affinity.node_group_anti_affinity
    lists = [names for part in (near, far) for names in ((part.required, part.preferred) if part else (None, None))]
    return NodeGroupAffinity(*(tuple(names or ()) for names in lists))


def dedicated_domains(document: Document) -> tuple[int, str] | None:
    """(number, tier by number or name) of the annotation; None where it is missing or malformed."""
    found = _DEDICATED_DOMAINS.match(str(annotation_value(document, k8s.DEDICATED_DOMAINS_ANNOTATION) or ""))
    return (int(found[1]), found[2]) if found else None


def hierarchy_weights(document: Document) -> tuple[tuple[str, float], ...] | None:
    """(name, weight) pairs of Volcano's hierarchy annotations without the root; None where they do not match. As in
    Volcano's admission, missing root/ and 1/ are added, and a weight below 1 becomes 1."""
    names, weights = (
        str(annotation_value(document, key) or "").split("/")
        for key in (k8s.HIERARCHY_ANNOTATION, k8s.HIERARCHY_WEIGHTS_ANNOTATION)
    )
    try:
        numbers = [float(weight) for weight in weights if weight]
    except ValueError:
        return None
    if names == [""] and not numbers:
        return ()
    if len(names) != len(numbers) or not all(names) or not all(0 < number < 2**31 for number in numbers):
        return None
    pairs = [(name, max(1.0, number)) for name, number in zip(names, numbers, strict=True)]
    return tuple(pairs[1:] if names[0] == k8s.ROOT_QUEUE else pairs)


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    if hierarchy_weights(document) is None:
        message = f"{k8s.HIERARCHY_ANNOTATION} and {k8s.HIERARCHY_WEIGHTS_ANNOTATION} do not belong together"
        help = "write as many weights above 0 as there are names"
        yield document.diagnostic(BAD_HIERARCHY, ("metadata", "annotations", k8s.HIERARCHY_ANNOTATION), message, help)
    if (order := annotation_value(document, k8s.ORDER_ANNOTATION)) not in (None, STRICT_ORDER):
        message = f"{k8s.ORDER_ANNOTATION} is {order!r}"
        help = "write strict, or remove it"
        yield document.diagnostic(BAD_QUEUE_ORDER, ("metadata", "annotations", k8s.ORDER_ANNOTATION), message, help)
    if (text := annotation_value(document, k8s.DEDICATED_DOMAINS_ANNOTATION)) is not None and dedicated_domains(
        document
    ) is None:
        message = f"{k8s.DEDICATED_DOMAINS_ANNOTATION} is {text!r}"
        yield document.diagnostic(
            BAD_DEDICATED_DOMAINS,
            ("metadata", "annotations", k8s.DEDICATED_DOMAINS_ANNOTATION),
            message,
            'write it like "4 of tier 1"',
        )


KIND = Kind("Queue", "scheduling.volcano.sh", ("v1beta1",), Queue, specs, text_diagnostics)
