"""YAML text without anything unusual, to plain data with positions in one pass over libyaml's events.

Most documents hold no alias, no tag, no merge key and no flaw. The data of such a one is put together as its events
come, in two thirds of the time that `compiler.syntax.yaml_reader` takes for a tree of nodes; everything else is left to
it, and so is whatever is said about a text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yaml.cyaml import CParser
from yaml.error import YAMLError
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from compiler.syntax.documents import FieldPath
from compiler.syntax.scalars import SPECIAL_FIRST_CHARACTERS, plain_scalar

Positions = dict[FieldPath, tuple[int, int]]

MAX_DEPTH = 64
MAX_VALUES = 200_000
_MAY_BE_NO_TEXT = SPECIAL_FIRST_CHARACTERS | {"<"}
NextEvent = Callable[[], Any]


class _UnusualError(Exception):
    """The text needs the whole reader."""


def read_in_one_pass(text: str, line: int, column: int) -> tuple[Any, Positions] | None:
    """The mapping or list that the text is, and its positions; None where there is more to it. line, column: position
    of the first character of `text` in the file."""
    try:
        return _read(text, line, column)
    except (YAMLError, _UnusualError):
        return None


def _read(text: str, line: int, column: int) -> tuple[Any, Positions]:
    next_event = CParser(text).get_event
    root, mark = _first_collection(next_event)
    positions: Positions = {(): (line + mark.line, column + mark.column)}
    around: list[tuple[Any, FieldPath]] = [(None, ())]
    here: Any = root  # the innermost open collection
    path: FieldPath = ()  # its place
    key: str | None = None  # of `here`, waiting for its value
    while here is not None:
        event_type = type(event := next_event())
        if event_type is ScalarEvent:
            value = _unquoted_value(event.value) if event.implicit[0] else event.value
        elif event_type is MappingEndEvent or event_type is SequenceEndEvent:
            here, path = around.pop()
            continue
        else:
            value = _empty_collection(event_type)
        if event.anchor is not None or event.tag is not None:
            raise _UnusualError
        mark = event.start_mark
        if type(here) is list:
            place: FieldPath = (*path, len(here))
            positions[place] = line + mark.line, column + mark.column
            here.append(value)
        elif key is not None:
            place = (*path, key)
            here[key] = value
            key = None
        elif type(value) is str and value not in here:
            key = value
            positions[(*path, key)] = line + mark.line, column + mark.column
            continue
        else:
            raise _UnusualError
        if event_type is not ScalarEvent:
            around.append((here, path))
            here, path = value, place
            if len(around) > MAX_DEPTH:
                raise _UnusualError
    if len(positions) > MAX_VALUES or not _ends(next_event):
        raise _UnusualError
    return root, positions


def _first_collection(next_event: NextEvent) -> tuple[Any, Any]:
    """The empty mapping or list with which the text begins, and the mark where."""
    while type(event := next_event()) in (StreamStartEvent, DocumentStartEvent):
        pass
    collection = _empty_collection(type(event))
    if event.anchor is not None or event.tag is not None:
        raise _UnusualError
    return collection, event.start_mark


def _empty_collection(event_type: type) -> Any:
    if event_type is MappingStartEvent:
        return {}
    if event_type is SequenceStartEvent:
        return []
    raise _UnusualError


def _ends(next_event: NextEvent) -> bool:
    """Whether nothing follows the first collection."""
    return type(next_event()) is DocumentEndEvent and type(next_event()) is StreamEndEvent


def _unquoted_value(text: str) -> Any:
    if text and text[0] not in _MAY_BE_NO_TEXT:
        return text
    value, problem = plain_scalar(text)
    if problem is not None or text == "<<":
        raise _UnusualError
    return value
