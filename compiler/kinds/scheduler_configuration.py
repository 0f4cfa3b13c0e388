"""The scheduler's configuration: gangplan's SchedulerConfiguration, which is volcano-scheduler.conf with types; the
text in a ConfigMap; and as other tools keep it: a bare volcano-scheduler.conf, or the text in the values of Volcano's
Helm chart.

Other tools create the ConfigMap themselves, so gangplan reads and checks their files, and emits none. Such a document
is not an object of a cluster; `wrapped_configurations` gives it the form of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import ConfigDict, Field

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import OwnModel
from compiler.kinds.common.jobs import OwnObject
from compiler.kinds.kind import Kind
from compiler.kubernetes import API_GROUP, SCHEDULER_NAMESPACE
from compiler.openapi.schemas import model_schema
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.parse import parse_embedded_text
from compiler.validation.judge import mapping
from compiler.volcano import scheduler_conf

KIND_NAME = "SchedulerFile"
HELM_KEY = "scheduler_config_override"
"""custom.scheduler_config_override of Volcano's chart, at any depth: in a chart above it, in a HelmRelease."""
VALUES_KEY = "values"
"""Of an Argo CD Application's helm: the chart's values as one text."""
MAX_DEPTH = 8

Read = tuple[list[SchedulerSpec], list[Diagnostic]]


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


def _read_typed(document: Document) -> Read:
    """Nothing where the spec is not a mapping: every rule would only repeat that all is missing. Of the problems only
    flags that are neither true nor false, which the open model accepts."""
    data = document.data.get("spec")
    if not isinstance(data, dict):
        return [], []
    namespace = document.namespace or SCHEDULER_NAMESPACE
    spec, problems = scheduler_conf.read_scheduler_conf(
        document, data, ("spec",), raw=None, name=document.name, namespace=namespace
    )
    found = problems if isinstance(data.get("actions"), list) else []
    return [spec], [problem for problem in found if "is not true or false" in problem.message]


def _read_text(document: Document, path: FieldPath, text: str, namespace: str) -> Read:
    """Read the text at `path` of the document."""
    data, positions, problems = parse_embedded_text(document, path, text)
    if any(problem.severity == "error" for problem in problems):
        return [], problems
    document = replace(document, positions={**positions, **document.positions})
    spec, wrong = scheduler_conf.read_scheduler_conf(
        document, data, path, raw=text, name=document.name, namespace=namespace
    )
    return [spec], [*problems, *wrong]


def _read_config_map(document: Document) -> Read:
    texts, specs, problems = mapping(document.data, "data"), list[SchedulerSpec](), list[Diagnostic]()
    for key in scheduler_conf.conf_text_keys(texts):
        found, wrong = _read_text(document, ("data", key), texts[key], document.namespace or "default")
        specs += found
        problems += wrong
    return specs, problems


def wrapped_configurations(document: Document) -> list[Document]:
    """Return the scheduler configurations that a document holds: itself, or texts of Helm's key inside it."""
    if scheduler_conf.looks_like_conf(document.data):
        return [_as_object(document, (), document.file)]
    if not isinstance(document.data, dict) or HELM_KEY not in document.text:
        return []
    document = _with_values(document)
    paths = _override_paths(document.data)
    return [_as_object(document, path, f"{document.file}:{'.'.join(map(str, path))}") for path in paths]


def _with_values(document: Document) -> Document:
    """Return the document with texts of a chart's values read in their places."""
    positions = dict(document.positions)

    def read(value: Any, path: FieldPath) -> Any:
        if path and path[-1] == VALUES_KEY and isinstance(value, str) and HELM_KEY in value:
            data, inside, _ = parse_embedded_text(document, path, value)
            positions.update(inside)
            return data
        if isinstance(value, dict):
            return {key: read(part, (*path, key)) for key, part in value.items()}
        return [read(part, (*path, at)) for at, part in enumerate(value)] if isinstance(value, list) else value

    return replace(document, data=read(document.data, ()), positions=positions)


def _override_paths(data: object, path: FieldPath = ()) -> Iterator[FieldPath]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items if len(path) < MAX_DEPTH else ():
        if key == HELM_KEY and isinstance(value, str) and value.strip():
            yield (*path, key)
        else:
            yield from _override_paths(value, (*path, key))


def _as_object(document: Document, path: FieldPath, name: str) -> Document:
    """Return the document as an object of this kind, with its content below `conf`."""
    data = {"apiVersion": f"{API_GROUP}/v1alpha1", "kind": KIND_NAME, "metadata": {"name": name}, "conf": document.data}
    positions = {("conf", *at): position for at, position in document.positions.items()}
    return replace(document, data=data, positions=positions, item_path=(*document.item_path, *path))


def _read_file(document: Document) -> Read:
    data = document.data.get("conf")
    paths = _override_paths(data) if not scheduler_conf.looks_like_conf(data) else ()
    inside = next((path for path in paths if document.item_path[-len(path) :] == path), None)
    if inside is None:
        spec, problems = scheduler_conf.read_scheduler_conf(
            document, data, ("conf",), raw=document.text, name=document.name, namespace=SCHEDULER_NAMESPACE
        )
        specs = [spec]
    else:
        at = ("conf", *inside)
        specs, problems = _read_text(document, at, document.value_at(*at), SCHEDULER_NAMESPACE)
    return [replace(spec, is_emitted=False) for spec in specs], problems


def _kind(name: str, group: str, version: str, read: Callable[[Document], Read], **more: Any) -> Kind:
    def specs(document: Document, model: Any) -> list[SchedulerSpec]:
        return read(document)[0]

    def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
        yield from read(document)[1]

    kind = Kind(name, group, (version,), None, specs, text_diagnostics, reads_alone=True)
    return replace(kind, **more)


KINDS = (
    _kind("ConfigMap", "", "v1", _read_config_map),
    _kind(
        "SchedulerConfiguration",
        API_GROUP,
        "v1alpha1",
        _read_typed,
        model=SchedulerConfiguration,
        schema=partial(model_schema, SchedulerConfiguration),
    ),
    _kind(KIND_NAME, API_GROUP, "v1alpha1", _read_file, is_written=False),
)
