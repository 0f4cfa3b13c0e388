"""A user's document with a few additions, and otherwise unchanged text.

Three ways, the most faithful first; each result is parsed again and used only if its content is exactly the wanted one:
1. splice: the new lines are put into the text at the marks; not one byte of the rest changes; 2. round trip:
ruamel.yaml keeps order, comments and quotes, but may touch blank lines and indentation (list items, anchors, more than
scalars
   into flow style);
3. dump: the plain data in our own style.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from compiler.emit.block import to_yaml, yaml_lines
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.edits import FieldEdit, apply_edit
from compiler.syntax.parse import parse_file

_MAX_LINE_WIDTH = 1 << 20
_GENERATE_NAME = re.compile(r"""(["']?)generateName\1\s*:\s*(["']?)[\w.-]+\2""")
_INDENTED_LIST = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*\1 +- ", re.MULTILINE)


def rewrite(document: Document, target: Mapping[str, Any]) -> str:
    """Return the document's text, changed as little as possible to the content `target`; ends in one newline. Nothing
    may have been removed."""
    if document.has_generated_name:
        document = _with_written_name(document)
    changes = _edits_between(document, document.data, target)
    if not changes and not document.item_path:
        return _with_final_newline(document.text)
    for attempt in (_spliced_text, _round_trip_text):
        text = attempt(document, changes)
        if text is not None and _parses_to(text, target):
            return _with_final_newline(text)
    return to_yaml(target)


def _with_written_name(document: Document) -> Document:
    """Return the document with metadata.name in place of generateName in its text; unchanged if that is impossible
    within its line."""
    lines, at = document.text.splitlines(keepends=True), document.position("metadata", "generateName")
    row, column = at.line - document.line, at.column - 1
    head, line = lines[row][:column], lines[row][column:]
    lines[row] = head + _GENERATE_NAME.sub(f"name: {document.name}", line, count=1)
    parsed = parse_file(document.file, "".join(lines).encode()).documents
    at_item = document.item_path[-1] if document.item_path else 0
    named = parsed[at_item][0] if isinstance(at_item, int) and at_item < len(parsed) else document
    return named if named.data == document.data else document


def _edits_between(document: Document, old: Any, new: Any, path: FieldPath = ()) -> list[FieldEdit]:
    """Return the edits from `old` to `new`, outermost first."""
    if isinstance(old, dict) and isinstance(new, Mapping) and old:
        found: list[FieldEdit] = []
        for key, value in new.items():
            if key not in old:
                found.append(FieldEdit(document, (*path, key), value))
            elif old[key] is not value:
                found += _edits_between(document, old[key], value, (*path, key))
        return found
    if isinstance(old, list) and isinstance(new, list) and old and len(old) <= len(new):
        found = [edit for i, value in enumerate(old) for edit in _edits_between(document, value, new[i], (*path, i))]
        return found + [FieldEdit(document, (*path, i), new[i]) for i in range(len(old), len(new))]
    return [] if old == new else [FieldEdit(document, path, new)]


def _parses_to(text: str, target: Mapping[str, Any]) -> bool:
    """Return whether our own reader finds exactly `wanted` in the text."""
    parsed = parse_file("", text.encode())
    return not any(problem.severity == "error" for problem in parsed.diagnostics) and [
        document.data for document, _ in parsed.documents
    ] == [target]


def _spliced_text(document: Document, changes: Sequence[FieldEdit]) -> str | None:
    """Return the text with new keys inserted. Keys of a block mapping are inserted after its first key where that is
    one line, else before it; scalars of a flow mapping before its first key. None for all other edits."""
    if document.item_path or any(
        edit.path in document.positions or not isinstance(edit.path[-1], str) for edit in changes
    ):
        return None
    groups: dict[FieldPath, dict[str, Any]] = {}
    for edit in changes:
        groups.setdefault(edit.path[:-1], {})[str(edit.path[-1])] = edit.value
    starts = line_starts(document.text)
    inserts = []
    for path, added in groups.items():
        place = insertion_point(document, path, starts)
        if place is None:
            at, pairs = _flow_mapping_start(document, path, starts), _flow_pairs(added)
            if at is None or pairs is None:
                return None
            inserts.append((at, "".join(f"{pair}, " for pair in pairs)))
            continue
        at, column, after = place
        block = [" " * (column - 1) + line for line in yaml_lines(added)]
        if after:
            inserts.append((at, "".join(f"{line}\n" for line in block)))
        else:
            inserts.append((at, "\n".join(block).lstrip(" ") + "\n" + " " * (column - 1)))
    text = document.text if document.text.endswith("\n") else f"{document.text}\n"
    for at, insert in sorted(inserts, reverse=True):
        text = text[:at] + insert + text[at:]
    return text


def line_starts(text: str) -> list[int]:
    """The offset of each line of the text, and its end."""
    return [0, *accumulate(map(len, text.splitlines(keepends=True)))]


def insertion_point(document: Document, path: FieldPath, starts: Sequence[int]) -> tuple[int, int, bool] | None:
    """Offset in the text, column of the mapping's keys, and whether the place is after the first key's line (else right
    before that key)."""
    mapping = document.value_at(*path)
    marks = sorted((document.positions[(*path, key)], key) for key in mapping if (*path, key) in document.positions)
    if len(marks) != len(mapping) or not marks:
        return None
    (line, column), first = marks[0]
    row = line - document.line
    if not 0 <= row < len(starts) - 1:
        return None
    offset = starts[row] + column - 1
    if document.text[starts[row] : offset].strip(" -") or any(other != column for (_, other), _ in marks):
        return None
    value = mapping[first]
    written = document.text[offset : starts[row + 1]].rstrip()
    if isinstance(value, dict | list) or value is None or written.endswith(("|", ">", "-", "+", ":")):
        return offset, column, False
    if len(marks) > 1 and any(
        _is_content(line)
        for line in document.text[starts[row + 1] : starts[marks[1][0][0] - document.line]].splitlines()
    ):
        return offset, column, False
    return starts[row + 1], column, True


def _flow_mapping_start(document: Document, path: FieldPath, starts: Sequence[int]) -> int | None:
    """Return the offset in the text of the first key of a flow mapping, if it is in the line of its brace."""
    line, column = min(
        (document.positions[(*path, key)] for key in document.value_at(*path) if (*path, key) in document.positions),
        default=(0, 0),
    )
    row = line - document.line
    if not 0 <= row < len(starts) - 1:
        return None
    offset = starts[row] + column - 1
    return offset if document.text[starts[row] : offset].rstrip().endswith("{") else None


def _flow_pairs(added: Mapping[str, Any]) -> list[str] | None:
    """Return the new keys with their values, each in one line; None where one of them is more than a scalar."""
    found = [yaml_lines({key: value}) for key, value in added.items() if not isinstance(value, dict | list)]
    return [pair for (pair,) in found] if len(found) == len(added) and all(len(pair) == 1 for pair in found) else None


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _round_trip_text(document: Document, changes: Sequence[FieldEdit]) -> str | None:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = _MAX_LINE_WIDTH
    if _INDENTED_LIST.search(document.text):
        yaml.indent(mapping=2, sequence=4, offset=2)
    try:
        data = yaml.load(document.text)
        for step in document.item_path:
            data = data[step]
        for edit in changes:
            apply_edit(data, edit.path, edit)
        stream = io.StringIO()
        yaml.dump(data, stream)
    except (YAMLError, LookupError, TypeError, ValueError):
        return None
    return stream.getvalue()


def _with_final_newline(text: str) -> str:
    return text.strip("\n") + "\n"
