"""ConfigMap, of which only the text of a scheduler configuration is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import LenientModel
from compiler.kinds.common.jobs import Metadata
from compiler.kinds.kind import Kind
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.syntax.documents import Document
from compiler.syntax.parse import parse_embedded_text
from compiler.volcano import scheduler_conf


class ConfigMap(LenientModel):
    metadata: Metadata
    data: dict[str, str] | None = None


def specs(document: Document, model: ConfigMap | None) -> Iterable[SchedulerSpec]:
    return _read_texts(document)[0]


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from _read_texts(document)[1]


def _read_texts(document: Document) -> tuple[list[SchedulerSpec], list[Diagnostic]]:
    texts = document.data.get("data")
    specs: list[SchedulerSpec] = []
    problems: list[Diagnostic] = []
    if not isinstance(texts, dict):
        return specs, problems
    for key in scheduler_conf.conf_text_keys(texts):
        data, positions, found = parse_embedded_text(document, ("data", key), texts[key])
        problems += found
        if any(problem.severity == "error" for problem in found):
            continue
        with_positions = replace(document, positions={**positions, **document.positions})
        spec, wrong = scheduler_conf.read_scheduler_conf(
            with_positions,
            data,
            ("data", key),
            raw=texts[key],
            name=document.name,
            namespace=document.namespace or "default",
        )
        specs.append(spec)
        problems += wrong
    return specs, problems


KIND = Kind("ConfigMap", "", ("v1",), ConfigMap, specs, text_diagnostics, reads_alone=True)
