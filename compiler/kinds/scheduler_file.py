"""The scheduler's configuration as other tools keep it: a bare volcano-scheduler.conf, or the text in the values of
Volcano's Helm chart. Those tools create the ConfigMap, so gangplan reads and checks it, and emits none.

Such a document is not an object of a cluster; `wrapped_configurations` gives it the form of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import LenientModel
from compiler.kinds.kind import Kind
from compiler.kubernetes import API_GROUP, SCHEDULER_NAMESPACE
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.parse import parse_embedded_text
from compiler.volcano import scheduler_conf

KIND_NAME = "SchedulerFile"
HELM_KEY = "scheduler_config_override"
"""custom.scheduler_config_override of Volcano's chart, at any depth: in a chart above it, in a HelmRelease."""
VALUES_KEY = "values"
"""Of an Argo CD Application's helm: the chart's values as one text."""
MAX_DEPTH = 8


class SchedulerFile(LenientModel):
    metadata: dict[str, Any]


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
    data = {"apiVersion": KIND.api_version, "kind": KIND_NAME, "metadata": {"name": name}, "conf": document.data}
    positions = {("conf", *at): position for at, position in document.positions.items()}
    return replace(document, data=data, positions=positions, item_path=(*document.item_path, *path))


def _read(document: Document) -> tuple[list[SchedulerSpec], list[Diagnostic]]:
    base: FieldPath = ("conf",)
    data, raw = document.data.get("conf"), document.text
    problems: list[Diagnostic] = []
    for path in _override_paths(data) if not scheduler_conf.looks_like_conf(data) else ():
        if document.item_path[-len(path) :] == path:
            base, raw = ("conf", *path), document.value_at("conf", *path)
            data, positions, problems = parse_embedded_text(document, base, raw)
            document = replace(document, positions={**positions, **document.positions})
            break
    if any(problem.severity == "error" for problem in problems):
        return [], problems
    spec, wrong = scheduler_conf.read_scheduler_conf(
        document, data, base, raw=raw, name=document.name, namespace=SCHEDULER_NAMESPACE
    )
    return [replace(spec, is_emitted=False)], [*problems, *wrong]


def specs(document: Document, model: SchedulerFile | None) -> Iterable[SchedulerSpec]:
    return _read(document)[0]


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from _read(document)[1]


KIND = Kind(
    KIND_NAME, API_GROUP, ("v1alpha1",), SchedulerFile, specs, text_diagnostics, reads_alone=True, is_written=False
)
