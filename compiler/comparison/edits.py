"""Jobs of which the specification differs between two revisions: their pods are another run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.fields.validation import dotted_path
from compiler.specs import JobKey, Specs
from compiler.syntax.documents import FieldPath
from compiler.syntax.runs import run_digest

_MAX_FIELDS, _MAX_TEXT = 2, 40
_OUTSIDE = ("metadata", "status", "apiVersion")
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Edit:
    """text: what differs, a field or two with their values where they are short. path: of the first of them."""

    text: str
    path: FieldPath = ()


def edited_jobs(base: Specs, head: Specs) -> dict[JobKey, Edit]:
    """The jobs of which the specification differs."""
    before = {gang.key: gang.document.data for gang in base.gangs}
    after = {gang.key: gang.document.data for gang in head.gangs if gang.key in before}
    return {key: _edit(before[key], data) for key, data in after.items() if run_digest(before[key]) != run_digest(data)}


def _edit(before: Mapping[str, Any], after: Mapping[str, Any]) -> Edit:
    old, new = _specification(before), _specification(after)
    places = list(_differences(old, new, ()))
    said = [_difference_text(*place) for place in places[:_MAX_FIELDS]]
    if len(places) > _MAX_FIELDS:
        said.append(f"{len(places) - _MAX_FIELDS} more")
    return Edit(", ".join(said), places[0][0]) if said else Edit("another run is asked for")


def _specification(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in _OUTSIDE}


def _differences(before: Any, after: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _differences(before.get(key, _NOTHING), after.get(key, _NOTHING), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, number))
    elif before != after:
        yield path, before, after


def _difference_text(path: FieldPath, before: Any, after: Any) -> str:
    where = dotted_path(path)
    if before is _NOTHING or after is _NOTHING:
        return f"{where} is {'new' if before is _NOTHING else 'gone'}"
    values = [str(each) for each in (before, after)]
    is_short = all(len(each) <= _MAX_TEXT and "\n" not in each for each in values)
    is_plain = not any(isinstance(each, dict | list) for each in (before, after))
    return f"{where} {' -> '.join(values)}" if is_short and is_plain else f"{where} differs"
