"""Kinds for which a reconciler needs RBAC permissions: those of a repository, and those that the shipped permissions
cover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.kubernetes import API_GROUP, SCHEDULER_NAMESPACE
from compiler.run_kinds import PLANNED_RUN_KINDS, PLANNED_SERVICE_KINDS
from compiler.specs.cluster_spec import Specs
from compiler.syntax.documents import Document


@dataclass(frozen=True, slots=True, order=True)
class KindInUse:
    """A kind, and the namespace of its objects where that narrows a right (ConfigMaps only)."""

    group: str
    kind: str
    namespace: str = ""


_PLANNED_KINDS = PLANNED_RUN_KINDS | PLANNED_SERVICE_KINDS
DEFAULT_KINDS = (
    KindInUse("", "ConfigMap", SCHEDULER_NAMESPACE),
    KindInUse("scheduling.k8s.io", "PriorityClass"),
    KindInUse("scheduling.volcano.sh", "NamespaceQueue"),
    KindInUse("scheduling.volcano.sh", "Queue"),
    KindInUse("topology.volcano.sh", "HyperNode"),
    *(KindInUse(group, kind) for kind, _, group in (key.partition(".") for key in sorted(_PLANNED_KINDS))),
)
"""The planned kinds, which the RBAC permissions in `deploy/` cover; a repository with other kinds needs `gangplan
rbac`."""


def kinds_in_use(specs: Specs) -> Iterator[KindInUse]:
    """Yield the kinds of what a repository's plan brings to the cluster."""
    for document in specs.documents:
        if (found := kind_in_use(document)) is not None:
            yield found


def kind_in_use(document: Document) -> KindInUse | None:
    """Return the kind of what the document brings to the cluster, None where that is nothing. The scheduler's
    configuration is a ConfigMap."""
    if document.kind == "SchedulerConfiguration":
        return KindInUse("", "ConfigMap", document.namespace or SCHEDULER_NAMESPACE)
    if (document.group, document.kind) == ("", "ConfigMap"):
        return KindInUse("", "ConfigMap", document.namespace or "default")
    if document.group == API_GROUP or (document.group, document.kind) == ("", "Node"):
        return None
    return KindInUse(document.group, document.kind)
