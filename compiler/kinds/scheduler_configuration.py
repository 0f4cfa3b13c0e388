"""gangplan's SchedulerConfiguration: volcano-scheduler.conf with types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal

from pydantic import ConfigDict, Field

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import OwnModel
from compiler.kinds.common.jobs import OwnObject
from compiler.kinds.kind import Kind
from compiler.kubernetes import SCHEDULER_NAMESPACE
from compiler.openapi.models import model_schema
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.syntax.documents import Document
from compiler.volcano import scheduler_conf


class Plugin(OwnModel):
    """Flags (enable...: true or false) are next to name; which exist is a check's matter."""

    model_config = ConfigDict(extra="allow")

    name: str
    arguments: dict[str, Any] | None = None


class Tier(OwnModel):
    plugins: list[Plugin]


class Configuration(OwnModel):
    name: str = Field(description="The action that the arguments are for.")
    arguments: dict[str, Any] | None = None


class CustomPlugin(OwnModel):
    name: str
    arguments: dict[str, Literal["int", "float", "bool", "string"]] | None = Field(
        None, description="Argument -> type."
    )


class Spec(OwnModel):
    actions: list[str] = Field(min_length=1, description="In the order in which they run.")
    tiers: list[Tier] = Field(description="Plugins by rank: the first tier with an answer decides.")
    configurations: list[Configuration] | None = Field(None, description="Arguments of actions.")
    metrics: dict[str, str] | None = Field(None, description="Where usage of nodes is read, for the plugin usage.")
    custom_plugins: list[CustomPlugin] | None = Field(
        None, description="Plugins of a vendor's build, with the types of their arguments."
    )


class SchedulerConfiguration(OwnObject):
    """metadata.name and namespace are the ConfigMap's; the namespace is volcano-system unless given."""

    spec: Spec


def specs(document: Document, model: SchedulerConfiguration | None) -> Iterable[SchedulerSpec]:
    """Nothing where the spec is not a mapping: every rule would only repeat that all is missing."""
    return (_read_conf(document)[0],) if isinstance(document.data.get("spec"), dict) else ()


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    """Flags that are neither true nor false, which the open model accepts."""
    spec = document.data.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("actions"), list):
        yield from (problem for problem in _read_conf(document)[1] if "is not true or false" in problem.message)


def _read_conf(document: Document) -> tuple[SchedulerSpec, list[Diagnostic]]:
    return scheduler_conf.read_scheduler_conf(
        document,
        document.data.get("spec"),
        ("spec",),
        raw=None,
        name=document.name,
        namespace=document.namespace or SCHEDULER_NAMESPACE,
    )


KIND = Kind(
    "SchedulerConfiguration",
    "gangplan.dev",
    ("v1alpha1",),
    SchedulerConfiguration,
    specs,
    text_diagnostics,
    schema=partial(model_schema, SchedulerConfiguration),
    reads_alone=True,
)
