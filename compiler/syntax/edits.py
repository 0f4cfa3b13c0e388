"""A change of one field of a document, as data."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Any

from compiler.syntax.documents import Document, FieldPath


class Removal(Enum):
    """The value of a field that is to be removed."""

    FIELD = "removed"


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """`value` is at `path` of the document afterwards; with is_key it is the key there. An index one above the last of
    a list appends to it."""

    document: Document
    path: FieldPath
    value: Any
    is_key: bool = False


def with_edits(data: Any, edits: Iterable[FieldEdit]) -> Any:
    """Return a copy of the document's data with the edits. LookupError, TypeError for a path that leads nowhere."""
    found = deepcopy(data)
    for edit in edits:
        apply_edit(found, edit.path, edit)
    return found


def apply_edit(data: Any, path: FieldPath, edit: FieldEdit) -> None:
    """Make the edit in `data`, at this path in it."""
    step, rest = path[0], path[1:]
    if rest:
        if isinstance(data, dict) and step not in data:
            data[step] = {}
        apply_edit(data[step], rest, edit)
        if edit.value is Removal.FIELD and data[step] == {}:
            del data[step]
    elif edit.value is Removal.FIELD:
        del data[step]
    elif edit.is_key:
        pairs = [(edit.value if key == step else key, value) for key, value in data.items()]
        data.clear()
        data.update(pairs)
    elif isinstance(data, list) and step == len(data):
        data.append(deepcopy(edit.value))
    else:
        data[step] = deepcopy(edit.value)
