"""Bytes to documents: one file's YAML or JSON as plain data with positions, every problem a diagnostic.

A file is cut at its document markers first, so that a broken document hides neither its siblings nor their problems.
Each part is read from libyaml's event stream: events show anchors and tags as written and need no recursion, and they
are an order of magnitude faster than a round-trip load (docs/decisions/0003-reading-yaml.md).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from yaml.cyaml import CParser
from yaml.error import YAMLError
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from compiler.diagnostics import Diagnostic, Position, Rule, rule
from compiler.syntax import scalars
from compiler.syntax.documents import Document, Path

LARGEST_FILE = 1 << 20
"""Bytes; an object larger than this cannot be stored in a cluster anyway (etcd's limit is 1.5 MiB)."""
DEEPEST = 64
MOST_NODES = 200_000
MOST_EXPANDED = 20_000
"""Nodes that aliases and merge keys may add to one document."""

BROKEN = rule(
    "GP101",
    "error",
    "broken YAML",
    "The text is not well-formed YAML; nothing of this document is used, its siblings are. Mend: see the message.",
)
TAB = rule(
    "GP102", "error", "tab used for indentation", "YAML indents with blanks only. Mend: replace the tab by blanks."
)
DUPLICATE_KEY = rule(
    "GP103",
    "error",
    "duplicate key",
    "A mapping names each key once; which of two values counts depends on the reader. Mend: remove one.",
)
NOT_UTF8 = rule(
    "GP104", "error", "not UTF-8", "Files are UTF-8 text. Mend: save the file as UTF-8, or remove the stray bytes."
)
BOM = rule(
    "GP105",
    "info",
    "byte order mark",
    "The file starts with a byte order mark, which some readers take for text. Mend: save it without one.",
)
TOO_LARGE = rule(
    "GP106",
    "error",
    "file too large",
    "A file holds at most 1 MiB; larger ones are refused unread, since no cluster could store their objects. Mend: split it.",
)
TOO_DEEP = rule(
    "GP107",
    "error",
    "nested too deeply",
    "Mappings and lists nest at most 64 levels, aliases included. Mend: flatten the document.",
)
TOO_MANY = rule(
    "GP108",
    "error",
    "document too large when expanded",
    "Aliases and merge keys may add at most 20,000 values to a document, which holds at most 200,000. Mend: write it out, or split it.",
)
BAD_ALIAS = rule(
    "GP109",
    "error",
    "alias without anchor",
    "An alias *name refers to an anchor &name earlier in the same document, not around it.",
)
TAG = rule(
    "GP110",
    "error",
    "explicit tag",
    "Tags (!!str, !!python/object, !secret) are refused: they change types silently or ask for code to run. Mend: quote text instead.",
)
DIRECTIVE = rule(
    "GP111", "error", "YAML directive", "Directives (%YAML, %TAG) are not supported. Mend: remove the line."
)
KEY_NOT_TEXT = rule("GP112", "error", "key is not text", "Every key is text, as in JSON. Mend: quote it.")
EMPTY_FILE = rule(
    "GP117",
    "warning",
    "file without objects",
    "The file holds nothing but comments or blank documents. Mend: remove it, or fill it.",
)
NOT_AN_OBJECT = rule(
    "GP118",
    "error",
    "not a Kubernetes object",
    "Every document is a mapping with apiVersion, kind and metadata.name; a List holds such mappings in items.",
)
BAD_MERGE = rule(
    "GP123",
    "error",
    "merge key without a mapping",
    "The value of << is an alias to a mapping, or a list of such aliases.",
)

_MARKER = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_NOTHING = re.compile(r"(?:[ \t]*(?:#.*)?(?:\r?\n|\Z))*\Z")
_SCALAR, _MAPPING, _SEQUENCE = range(3)


@dataclass(slots=True)
class _Node:
    """kind: _SCALAR with a plain value, _MAPPING with pairs of nodes, _SEQUENCE with nodes. merge: the scalar is an
    unquoted <<."""

    kind: int
    line: int
    column: int
    value: Any
    merge: bool = False


class _Refused(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Parsed:
    """documents: well-formed objects in order, with whether an error was found in their text. diagnostics: of the whole
    file."""

    documents: list[tuple[Document, bool]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def parse(file: str, content: bytes) -> Parsed:
    """Everything that can be read from one file. Never raises for what the file holds."""
    out = Parsed()
    if len(content) > LARGEST_FILE:
        size = f"more than {LARGEST_FILE} bytes"
        out.diagnostics.append(
            TOO_LARGE.at(Position(file, 1, 1), f"the file has {size}", "split it into files of at most 1 MiB")
        )
        return out
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        out.diagnostics.append(_undecodable(file, content, problem))
        return out
    if text.startswith("\ufeff"):
        text = text[1:]
        out.diagnostics.append(
            BOM.at(Position(file, 1, 1), "the file starts with a byte order mark", "save it as UTF-8 without one")
        )
    for line, part in _parts(text):
        _Reader(file, line, part, out).read()
    if not out.documents and not any(d.severity == "error" for d in out.diagnostics):
        out.diagnostics.append(
            EMPTY_FILE.at(Position(file, 1, 1), "the file holds no object", "remove it, or write an object")
        )
    return out


def _undecodable(file: str, content: bytes, problem: UnicodeDecodeError) -> Diagnostic:
    before = content[: problem.start]
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
    kind = (
        "UTF-16 text"
        if content[:2] in (b"\xff\xfe", b"\xfe\xff")
        else f"byte 0x{content[problem.start]:02x} at offset {problem.start}"
    )
    return NOT_UTF8.at(Position(file, line, column), f"{kind} is not UTF-8", "save the file as UTF-8")


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of every document that is more than blanks and comments.

    A line that starts with --- or ... is a marker wherever it stands, inside a block scalar too: YAML says the same.
    The marker itself stays out, unless content follows on its line.
    """
    start, line = 0, 1
    for found in [*_MARKER.finditer(text), None]:
        part = text[start : found.start() if found else len(text)]
        if not _NOTHING.match(part):
            yield line, part
        if found is None:
            return
        line += part.count("\n")
        end = text.find("\n", found.end())
        rest = text[found.end() : end if end >= 0 else len(text)]
        if found.group() == "..." or _NOTHING.match(rest):
            start, line = (end + 1, line + 1) if end >= 0 else (len(text), line)
        else:
            start = found.start()


class _Growing:
    """The tree of nodes while it grows: the collections that are still open, and in each mapping the key that waits for
    its value."""

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.root: _Node | None = None
        self.open: list[_Node] = []
        self.keys: list[_Node | None] = []

    def add(self, node: _Node, *, new: bool) -> None:
        if self.open:
            outer = self.open[-1]
            if outer.kind == _SEQUENCE:
                outer.value.append(node)
            elif (key := self.keys[-1]) is None:
                self.keys[-1] = node
            else:
                outer.value.append((key, node))
                self.keys[-1] = None
        elif self.root is None:
            self.root = node
        else:
            help = "put --- on a line that ends in a line feed"
            raise self.reader.refuse(BROKEN, node, "a second document begins without a line of its own for ---", help)
        if new and node.kind != _SCALAR:
            if len(self.open) >= DEEPEST:
                raise self.reader.refuse(TOO_DEEP, node, f"nested more than {DEEPEST} levels", "flatten the document")
            self.open.append(node)
            self.keys.append(None)

    def close(self) -> None:
        self.open.pop()
        self.keys.pop()


class _Reader:
    """One part of a file."""

    def __init__(self, file: str, line: int, text: str, out: Parsed, column: int = 1) -> None:
        self.file, self.line, self.text, self.out, self.column = file, line, text, out, column
        self.marks: dict[Path, tuple[int, int]] = {}
        self.nodes = self.expanded = 0
        self.top = (line, column)
        self.failures: list[tuple[int, int]] = []
        self.by_item: dict[Path, dict[Path, tuple[int, int]]] = {}

    def read(self) -> None:
        for data in self.load():
            self.objects(data)

    def load(self) -> Iterator[Any]:
        """The part's data, with `marks` filled; nothing when the part is refused."""
        if self.text.startswith("%"):
            self.report(DIRECTIVE, self.line, 1, "directives are not supported", "remove the line")
            return
        try:
            root = self.tree()
            if root is not None:
                self.marks[()] = (root.line, root.column)
                yield self.plain(root, (), 0, 0)
        except _Refused as refused:
            self.out.diagnostics.append(refused.diagnostic)
        except YAMLError as problem:
            self.broken(problem)

    def report(self, rule: Rule, line: int, column: int, message: str, help: str, see: Position | None = None) -> None:
        if rule.severity == "error":
            self.failures.append((line, column))
        self.out.diagnostics.append(rule.at(Position(self.file, line, column), message, help, see=see))

    def refuse(self, rule: Rule, node: _Node, message: str, help: str) -> _Refused:
        return _Refused(rule.at(Position(self.file, node.line, node.column), message, help))

    def broken(self, problem: YAMLError) -> None:
        mark = getattr(problem, "problem_mark", None)
        lines = self.text.split("\n")
        row = min(mark.line, len(lines) - 1) if mark is not None else 0
        if mark is None and (
            control := re.search(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", self.text)
        ):
            row = self.text.count("\n", 0, control.start())
            column = control.start() - self.text.rfind("\n", 0, control.start())
            return self.report(
                BROKEN, self.line + row, column, f"control character {ord(control.group()):#04x}", "remove it"
            )
        line, column = self.line + row, (mark.column if mark is not None else 0) + self.column
        if (
            not lines[row].strip()
            and (last := next((number for number in range(row, -1, -1) if lines[number].strip()), None)) is not None
        ):
            row, column = (
                last,
                len(lines[last]) + self.column,
            )  # the end of the text: point behind the last thing written
            line = self.line + row
        if "\t" in re.match(r"[ \t]*", lines[row]).group():  # type: ignore[union-attr]  # matches the empty text too
            return self.report(
                TAB, line, lines[row].index("\t") + 1, "a tab stands where YAML wants blanks", "indent with blanks"
            )
        what = getattr(problem, "problem", None) or "the text cannot be read"
        where = getattr(problem, "context", None)
        return self.report(
            BROKEN, line, column, f"not valid YAML: {what}{f' ({where})' if where else ''}", _mend(str(what))
        )

    def tree(self) -> _Node | None:
        """The event stream as nodes; None when the part holds nothing after all."""
        parser = CParser(self.text)
        anchors: dict[str, _Node] = {}
        growing = _Growing(self)
        while parser.check_event():
            event = parser.get_event()
            kind = type(event)
            if kind is ScalarEvent:
                node = self.scalar(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                node = self.collection(event, _MAPPING if kind is MappingStartEvent else _SEQUENCE)
            elif kind is AliasEvent:
                growing.add(self.aliased(event, anchors, growing.open), new=False)
                continue
            else:
                if kind is MappingEndEvent or kind is SequenceEndEvent:
                    growing.close()
                continue
            if event.anchor:
                anchors[event.anchor] = node
            growing.add(node, new=True)
        return growing.root

    def collection(self, event: MappingStartEvent | SequenceStartEvent, kind: int) -> _Node:
        mark = event.start_mark
        node = _Node(kind, self.line + mark.line, mark.column + self.column, [])
        self.untagged(event.tag, node)
        return node

    def aliased(self, event: AliasEvent, anchors: dict[str, _Node], around: list[_Node]) -> _Node:
        known = anchors.get(event.anchor)
        if known is None or any(known is outer for outer in around):
            mark = event.start_mark
            here = _Node(_SCALAR, self.line + mark.line, mark.column + self.column, None)
            raise self.refuse(
                BAD_ALIAS,
                here,
                f"no anchor &{event.anchor} stands before this alias",
                "define the anchor earlier in this document",
            )
        return known

    def untagged(self, tag: str | None, node: _Node) -> None:
        if tag is not None:
            raise self.refuse(TAG, node, f"explicit tag {tag!r}", "remove the tag; quote the value when it is text")

    def scalar(self, event: ScalarEvent) -> _Node:
        mark = event.start_mark
        node = _Node(_SCALAR, self.line + mark.line, mark.column + self.column, event.value)
        self.untagged(event.tag, node)
        if event.implicit[0]:
            node.value, problem = scalars.plain(event.value)
            node.merge = event.value == "<<"
            if problem is not None:
                shown = event.value if len(event.value) <= 40 else event.value[:37] + "..."
                self.report(
                    problem,
                    node.line,
                    node.column,
                    f"unquoted {shown}",
                    f'write "{shown}" when it is text' + _PLAIN_HELP.get(problem.code, ""),
                )
        return node

    def plain(self, node: _Node, path: Path, depth: int, borrowed: int) -> Any:
        """`node` as plain data; its places go to `marks`. borrowed: more than 0 inside what an alias brought in."""
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise self.refuse(
                TOO_MANY, node, f"the document has more than {MOST_NODES} values once aliases are expanded", "split it"
            )
        if node.kind == _SCALAR:
            return node.value
        if depth >= DEEPEST:
            raise self.refuse(
                TOO_DEEP, node, f"nested more than {DEEPEST} levels once aliases are expanded", "flatten the document"
            )
        if node.kind == _SEQUENCE:
            items = []
            for index, item in enumerate(node.value):
                at = (*path, index)
                self.marks[at] = (item.line, item.column)
                items.append(self.plain(item, at, depth + 1, self.borrow(node, item, borrowed)))
            return items
        return self.mapping(node, path, depth, borrowed)

    def borrow(self, outer: _Node, node: _Node, borrowed: int) -> int:
        """Counts what aliases add. An aliased node stands before the node that holds it, which is how it is told from
        one written in place."""
        if not borrowed and (node.line, node.column) >= (outer.line, outer.column):
            return 0
        self.expanded += 1
        if self.expanded > MOST_EXPANDED:
            top = _Node(_SCALAR, *self.top, None)
            raise self.refuse(
                TOO_MANY,
                top,
                f"aliases add more than {MOST_EXPANDED} values to the document, the last of them here",
                "write the parts out",
            )
        return 1

    def mapping(self, node: _Node, path: Path, depth: int, borrowed: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        merged: list[_Node] = []
        for key, value in node.value:
            name = key.value
            if key.merge:
                merged += value.value if value.kind == _SEQUENCE else [value]
                continue
            if not isinstance(name, str) or key.kind != _SCALAR:
                shown = name if key.kind == _SCALAR else ("a mapping" if key.kind == _MAPPING else "a list")
                self.report(KEY_NOT_TEXT, key.line, key.column, f"the key {shown} is not text", "quote the key")
                continue
            at = (*path, name)
            if not path:
                self.top = key.line, key.column
            if name in out:
                see = Position(self.file, *self.marks[at])
                self.report(
                    DUPLICATE_KEY, key.line, key.column, f"the key {name!r} is here twice", "remove one of the two", see
                )
                continue
            self.marks[at] = (key.line, key.column)
            out[name] = self.plain(value, at, depth + 1, self.borrow(node, value, borrowed))
        for key, value in self.merged(node, merged, 1):
            if (name := key.value) not in out:
                at = (*path, name)
                self.marks[at] = (key.line, key.column)
                out[name] = self.plain(value, at, depth + 1, self.borrow(node, value, 1))
        return out

    def merged(self, node: _Node, sources: list[_Node], depth: int) -> Iterator[tuple[_Node, _Node]]:
        """The pairs that << brings into `node`, the strongest first."""
        for source in sources:
            self.borrow(node, source, 1)
            if source.kind != _MAPPING:
                raise self.refuse(
                    BAD_MERGE, source, "<< merges something that is no mapping", "give it an alias to a mapping"
                )
            if depth > DEEPEST:
                raise self.refuse(TOO_DEEP, node, f"merge keys nest more than {DEEPEST} levels", "flatten the document")
            below: list[_Node] = []
            for key, value in source.value:
                if key.merge:
                    below += value.value if value.kind == _SEQUENCE else [value]
                elif key.kind == _SCALAR and isinstance(key.value, str):
                    yield key, value
            yield from self.merged(node, below, depth + 1)

    def objects(self, data: Any) -> None:
        """Documents out of one part: the object itself, or the items of a List."""
        if data is None:
            return
        if (
            isinstance(data, dict)
            and data.get("kind") == "List"
            and data.get("apiVersion") == "v1"
            and isinstance(data.get("items"), list)
        ):
            for path, mark in self.marks.items():
                if len(path) >= 2 and path[0] == "items":
                    self.by_item.setdefault(path[:2], {})[path[2:]] = mark
            starts = [self.marks["items", index] for index in range(len(data["items"]))]
            for index, item in enumerate(data["items"]):
                end = starts[index + 1] if index + 1 < len(starts) else (sys.maxsize, 0)
                self.object(item, ("items", index), any(starts[index] <= at < end for at in self.failures))
            return
        self.object(data, (), bool(self.failures))

    def object(self, data: Any, prefix: Path, failed: bool) -> None:
        depth = len(prefix)
        marks = self.by_item.get(prefix, {}) if depth else self.marks
        document = Document(self.file, self.line, self.text, data, marks, prefix)
        if (missing := _missing(data)) is not None:
            path, message = missing
            at = document.at(*path)
            self.report(NOT_AN_OBJECT, at.line, at.column, message, "write apiVersion, kind and metadata.name")
            return
        self.out.documents.append((document, failed))


_PLAIN_HELP = {
    scalars.OCTAL.code: ", or a number without leading zeros",
    scalars.BOOLEAN_WORD.code: ", true or false when it is not",
    scalars.NOT_FINITE.code: ", a finite number when it is not",
}


def _missing(data: Any) -> tuple[Path, str] | None:
    if not isinstance(data, dict):
        return (), "the document is no mapping"
    for key in ("apiVersion", "kind"):
        if not isinstance(data.get(key), str) or not data[key]:
            return (key,), f"{key} is missing" if data.get(key) is None else f"{key} is not text"
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        return ("metadata",), "metadata is missing" if metadata is None else "metadata is no mapping"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return ("metadata", "name"), "metadata.name is missing" if metadata.get(
            "name"
        ) is None else "metadata.name is not text"
    if not isinstance(metadata.get("namespace") or "", str):
        return ("metadata", "namespace"), "metadata.namespace is not text"
    for key in ("labels", "annotations"):
        if not isinstance(metadata.get(key) or {}, dict):
            return ("metadata", key), f"metadata.{key} is no mapping"
    return None


def _mend(what: str) -> str:
    if "mapping values" in what:
        return "quote a value that holds a colon followed by a blank, or correct the indentation"
    if "cannot start any token" in what:
        return "quote a value that begins with @, ` or %"
    if "end of stream" in what:
        return "close the quotation mark"
    if "expected ',' or" in what:
        return "close the bracket, or separate the items by commas"
    return "check the indentation and the brackets around this line"


def parse_text(
    file: str, line: int, column: int, text: str, below: Path
) -> tuple[Any, dict[Path, tuple[int, int]], list[Diagnostic]]:
    """YAML inside YAML, such as the text of a ConfigMap's key: data, positions in the outer file (under the path
    `below`), problems.

    line, column: where the first character of `text` stands in the file; the text is indented by column - 1 throughout.
    """
    out = Parsed()
    reader = _Reader(file, line, text, out, column)
    data = next(reader.load(), None)
    return data, {below + path: mark for path, mark in reader.marks.items()}, out.diagnostics
