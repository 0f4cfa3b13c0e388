"""A kind of objects: its name, versions and model, and how a document becomes specs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.syntax.documents import Document

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its name, API group and versions, and the pydantic model of the whole document.

    specs: the document as specs or drafts. text_diagnostics: findings that the model does not make. is_foreign: of
    an operator, so that other versions pass. runs_once: an object ends and is not made again, which of kinds that are
    known `compiler.run_kinds` says. unbound_reason: why the plan's nodes bind no pods of an object, else empty.
    partial_specs: what can be read of a document with errors, for checks only.
    is_written: false for what people never write as an object.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    model: type[BaseModel]
    specs: Callable[[Document, Any], Iterable[object]]
    text_diagnostics: Callable[[Document], Iterator[Diagnostic]] | None = None
    is_foreign: bool = False
    partial_specs: Callable[[Document], Iterable[object]] | None = None
    is_written: bool = True
    runs_once: bool = False
    unbound_reason: str = ""

    @property
    def key(self) -> str:
        return f"{self.name}.{self.group}"

    @property
    def namespaced(self) -> bool:
        return self.key not in CLUSTER_WIDE_KINDS

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


CLUSTER_WIDE_KINDS = frozenset(
    (
        "Cluster.gangplan.dev",
        "ClusterTrainingRuntime.trainer.kubeflow.org",
        "HyperNode.topology.volcano.sh",
        "Node.",
        "NodePool.gangplan.dev",
        "Numatopology.nodeinfo.volcano.sh",
        "PriorityClass.scheduling.k8s.io",
        "Queue.scheduling.volcano.sh",
        "SchedulerFile.gangplan.dev",
    )
)
"""Kinds whose objects have no namespace."""
