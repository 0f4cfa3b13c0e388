"""ConfigMap, of which only the key volcano-scheduler.conf is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from compiler.diagnostics import Diagnostic
from compiler.fields.models import LenientModel
from compiler.kinds import Kind
from compiler.kinds.common.jobs import Metadata
from compiler.specs import SchedulerSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.parse import parse_embedded_text
from compiler.volcano import scheduler_conf
from compiler.volcano.scheduler_conf import CONF_KEY

_BLOCK_SCALAR = re.compile(r"[^#]*:[ \t]+\|([1-9]?)[-+]?([1-9]?)[ \t]*(#.*)?\r?$")


class ConfigMap(LenientModel):
    metadata: Metadata
    data: dict[str, str] | None = None


def specs(document: Document, model: ConfigMap) -> Iterable[SchedulerSpec]:
    spec, _ = _read_conf(document)
    return (spec,) if spec is not None else ()


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from _read_conf(document)[1]


def _read_conf(document: Document) -> tuple[SchedulerSpec | None, list[Diagnostic]]:
    data = document.data.get("data")
    text = data.get(CONF_KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        return None, []
    line, column = _text_start(document, text)
    base: FieldPath = ("data", CONF_KEY)
    inner, positions, problems = parse_embedded_text(document.file, line, column, text, base)
    if any(problem.severity == "error" for problem in problems):
        return None, [replace(problem, object=document.display_name) for problem in problems]
    with_positions = replace(document, positions={**positions, **document.positions})
    spec, wrong = scheduler_conf.read_scheduler_conf(
        with_positions, inner, base, raw=text, name=document.name, namespace=document.namespace or "default"
    )
    return spec, [*(replace(problem, object=document.display_name) for problem in problems), *wrong]


def _text_start(document: Document, text: str) -> tuple[int, int]:
    """The position of the first character of the block scalar; for text in another style, that of the key."""
    key = document.position("data", CONF_KEY)
    lines = document.text.split("\n")
    row = key.line - document.line
    if not 0 <= row < len(lines) or not _BLOCK_SCALAR.match(lines[row]):
        return key.line, key.column
    first = next((line for line in lines[row + 1 :] if line.strip()), "")
    lead = len(text.lstrip("\n")) - len(text.lstrip("\n").lstrip(" "))
    return key.line + 1, len(first) - len(first.lstrip(" ")) - lead + 1


KIND = Kind("ConfigMap", "", ("v1",), ConfigMap, specs, text_diagnostics)
