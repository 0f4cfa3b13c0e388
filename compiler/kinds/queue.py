"""Volcano's Queue (scheduling.volcano.sh/v1beta1), and the NamespaceQueue of 1.16, which the owners of a namespace
keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import Field

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.models import Bool, Int, LenientModel, Resources, below
from compiler.fields.quantity import integer_amounts
from compiler.kinds.common.jobs import annotation_value
from compiler.kinds.kind import Kind
from compiler.specs.namespace_queues import CLUSTER_PREFIX, parent_name, queue_name
from compiler.specs.queue_spec import NodeGroupAffinity, QueueSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import mapping, texts

STRICT_ORDER = "strict"
_DEDICATED_DOMAINS = re.compile(r"\s*([1-9]\d{0,6}) of tier (\S+)\s*\Z", re.ASCII)

BAD_HIERARCHY = declare_rule("GP317", "error")
BAD_QUEUE_ORDER = declare_rule("GP380", "error")
BAD_DEDICATED_DOMAINS = declare_rule("GP381", "error")


_AFFINITIES = ("nodeGroupAffinity", "nodeGroupAntiAffinity")
_RULES = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


class AmountsSpec(LenientModel):
    """The fields that queues of the cluster and of a namespace share."""

    capability: Resources | None = None
    deserved: Resources | None = None
    guarantee: Resources | None = Field(default=None, validation_alias=below("guarantee.resource"))
    reclaimable: Bool | None = None
    parent: str | None = None
    priority: Int | None = None


class Spec(AmountsSpec):
    weight: Int | None = None
    affinity: Any = None
    allowed_namespaces: list[str] | None = None


class Queue(LenientModel):
    spec: Spec = Field(default_factory=lambda: Spec())

    def node_groups(self) -> Iterator[tuple[FieldPath, str]]:
        """Yield the node groups that its affinity names, each with its path."""
        for key in _AFFINITIES:
            for rule in _RULES:
                for index, name in texts(mapping(self.spec.affinity, key), rule):
                    yield ("spec", "affinity", key, rule, index), name


class NamespaceQueueSpec(AmountsSpec):
    parent: str | None = f"{CLUSTER_PREFIX}{k8s.DEFAULT_QUEUE}"
    state: str | None = None
    desired_state: str | None = None


class NamespaceQueue(LenientModel):
    spec: NamespaceQueueSpec = Field(default_factory=lambda: NamespaceQueueSpec())


def _queue_spec(document: Document, spec: AmountsSpec, name: str, parent: str | None, **more: Any) -> QueueSpec:
    return QueueSpec(
        document=document,
        name=name,
        parent=parent,
        priority=spec.priority or 0,
        guarantee=integer_amounts(spec.guarantee or {}, "up"),
        deserved=integer_amounts(spec.deserved or {}, "up"),
        capability=integer_amounts(spec.capability or {}, "up"),
        reclaimable=spec.reclaimable is not False,
        **more,
    )


def specs(document: Document, queue: Queue) -> Iterable[QueueSpec]:
    """As in Volcano's admission, weight 0 becomes 1; without a parent a queue is a child of the root."""
    spec = queue.spec
    groups = [[name for path, name in queue.node_groups() if path[2:4] == (k, r)] for k in _AFFINITIES for r in _RULES]
    yield _queue_spec(
        document,
        spec,
        document.name,
        spec.parent if spec.parent and spec.parent != k8s.ROOT_QUEUE else None,
        weight=spec.weight or 1,
        open=annotation_value(document, k8s.CLOSED_ANNOTATION) != "true",
        hierarchy=hierarchy_weights(document) or (),
        strict_order=annotation_value(document, k8s.ORDER_ANNOTATION) == STRICT_ORDER,
        dedicated_domains=dedicated_domains(document),
        affinity=None if spec.affinity is None else NodeGroupAffinity(*map(tuple, groups)),
        allowed_namespaces=tuple(spec.allowed_namespaces or ()),
    )


def _namespace_specs(document: Document, queue: NamespaceQueue) -> Iterable[QueueSpec]:
    """Volcano names it NAMESPACE/NAME. A parent without cluster/ is a NamespaceQueue of the same namespace."""
    namespace = document.namespace or "default"
    name, parent = queue_name(namespace, document.name), parent_name(namespace, queue.spec.parent)
    yield _queue_spec(document, queue.spec, name, parent, weight=1, namespace=namespace)


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


KINDS = (
    Kind("NamespaceQueue", "scheduling.volcano.sh", ("v1beta1",), NamespaceQueue, _namespace_specs),
    Kind("Queue", "scheduling.volcano.sh", ("v1beta1",), Queue, specs, text_diagnostics),
)
