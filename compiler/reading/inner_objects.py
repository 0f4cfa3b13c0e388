"""Objects that a controller will create from parts of another object: they are checked like objects of their own.

No webhook checks templates, so their faults would show only when the controller creates the object.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from pydantic import ValidationError

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.kinds.kind import Kind, kinds
from compiler.reading.shape import document_flaws, flaw_diagnostics
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.parse import parse_embedded_text
from compiler.syntax.paths import found_paths, parse_path, value_at

Form = Literal["spec", "template", "object", "text"]


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an object inside another. form: only its spec; metadata and spec; all of it; all of it as YAML text.
    kind: "Kind.group", where the form lacks it."""

    path: str
    form: Form
    kind: str = ""


_PLACES: Mapping[str, tuple[_Place, ...]] = {
    kind: tuple(_Place(**row) for row in rows)
    for kind, rows in tomllib.loads((files("compiler.reading") / "inner_objects.toml").read_text("utf-8")).items()
}
"""Kind.group -> what its controller makes objects of."""

_CREATING = ("create", "apply", "replace")
"""Actions of a Workflow's resource template with which its manifest is a whole object."""
_PARAMETER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_UNKNOWN = "\ue000"
"""Replaces each character of a parameter, so that columns stay; no manifest contains it."""


@dataclass(frozen=True, slots=True)
class InnerDocument(Document):
    """An object inside the document `outer`: its findings are the outer one's, at its lines."""

    outer: Document | None = None

    @property
    def written(self) -> Document:
        """Return the document that a file holds."""
        return self.outer or self

    @property
    def display_name(self) -> str:
        return self.written.display_name


@dataclass(frozen=True, slots=True)
class InnerObject:
    """An object of a known kind inside another. model: None if its shape has faults, which are in `problems`, or if
    parameters replace parts of it."""

    document: InnerDocument
    kind: Kind
    model: Any
    problems: list[Diagnostic]


def inner_objects(document: Document) -> Iterator[InnerObject]:
    """Yield each object inside the document that is of a known kind."""
    for place in _PLACES.get(f"{document.kind}.{document.group}", ()):
        for path in found_paths(document.data, parse_path(place.path)):
            inner = _inner_document(document, place, path)
            kind = kinds().get(f"{inner.kind}.{inner.group}") if inner is not None else None
            if inner is not None and kind is not None and inner.api_version == kind.api_version:
                flaws = document_flaws(inner, kind)
                shape = [flaw for flaw in flaws.shape if not _is_parameter(inner, flaw.path)]
                found = [*shape, *(flaw for flaw in flaws.values if not _is_parameter(inner, flaw.path))]
                is_reported = place.form in ("spec", "template")  # by the schema around it
                problems = [] if is_reported else list(flaw_diagnostics(inner, found))
                yield InnerObject(inner, kind, None if shape else _model(inner, kind), problems)


def _model(document: Document, kind: Kind) -> Any:
    """Return the model of the object; None if a parameter replaces a field that it reads."""
    try:
        return kind.read(document)
    except ValidationError:
        return None


def _is_parameter(document: Document, path: FieldPath) -> bool:
    """Return whether the value at `path`, or what holds it, is filled in later."""
    values = (value_at(document.data, path[:length]) for length in range(1, len(path) + 1))
    return any(isinstance(value, str) and (_UNKNOWN in value or "${" in value) for value in values)


def _inner_document(document: Document, place: _Place, path: FieldPath) -> InnerDocument | None:
    found, positions = value_at(document.data, path), document.positions
    if place.form == "text":
        found, positions = _from_text(document, path, found)
    if not isinstance(found, dict):
        return None
    data = {"spec": found} if place.form == "spec" else found
    if place.kind:
        kind = kinds()[place.kind]
        data = {**data, "apiVersion": kind.api_version, "kind": kind.name}
    return InnerDocument(
        document.file,
        document.line,
        document.text,
        {**data, "metadata": _metadata(document, data.get("metadata"))},
        _moved(positions, path, ("spec",) if place.form == "spec" else ()),
        document.item_path,
        document,
    )


def _metadata(document: Document, written: Any) -> dict[str, Any]:
    """Return the metadata of the object; its name is the outer one's where the controller gives it one."""
    own = {key: value for key, value in written.items() if key != "generateName"} if isinstance(written, dict) else {}
    name = own.get("name")
    is_known = isinstance(name, str) and _UNKNOWN not in name
    names = {"name": name if is_known else document.name, "namespace": own.get("namespace") or document.namespace}
    return {**own, **names}


def _moved(
    positions: Mapping[FieldPath, tuple[int, int]], path: FieldPath, before: FieldPath
) -> dict[FieldPath, tuple[int, int]]:
    """Return the positions of the inner object; before: the path in it of the value at `path`."""
    found: dict[FieldPath, tuple[int, int]] = {(): positions[path]} if path in positions else {}
    for at, position in positions.items():
        if at[: len(path)] == path:
            found[(*before, *at[len(path) :])] = position
    return found


def _from_text(document: Document, path: FieldPath, text: Any) -> tuple[Any, Mapping[FieldPath, tuple[int, int]]]:
    if not isinstance(text, str) or value_at(document.data, (*path[:-1], "action")) not in _CREATING:
        return None, {}
    masked = _PARAMETER.sub(lambda match: re.sub(r"[^\n]", _UNKNOWN, match.group()), text)
    data, positions, _ = parse_embedded_text(document, path, masked)
    return data, positions
