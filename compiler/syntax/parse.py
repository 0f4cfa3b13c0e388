"""YAML or JSON bytes to documents with positions, every problem a diagnostic.

A file is split at its document markers first, so that a broken document hides neither its siblings nor their problems.
`compiler.syntax.yaml_reader` reads each part.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule
from compiler.diagnostics.guard import Place, guarded
from compiler.repository.tree import MAX_FILE_BYTES
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.runs import with_name
from compiler.syntax.yaml_reader import YamlReader

NOT_UTF8 = declare_rule("GP104", "error")
BYTE_ORDER_MARK = declare_rule("GP105", "info")
TOO_LARGE = declare_rule("GP106", "error")
EMPTY_FILE = declare_rule("GP117", "warning")
NOT_AN_OBJECT = declare_rule("GP118", "error")

_DOCUMENT_MARKER = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_BLOCK_SCALAR = re.compile(r"[^#]*:[ \t]+\|([1-9]?)[-+]?([1-9]?)[ \t]*(#.*)?\r?$")
_API_VERSION = re.compile(r"^apiVersion:[ \t]*[\"']?([\w./-]+)", re.MULTILINE)
_KIND = re.compile(r"^kind:[ \t]*[\"']?(\w+)", re.MULTILINE)
_METADATA = re.compile(r"^metadata:.*(?:\n[ \t].*)*", re.MULTILINE)
_NAMED, _NAMESPACED = (re.compile(rf"[{{, \t]{key}:[ \t]*[\"']?([\w.-]+)") for key in ("name", "namespace"))
_BLANK_OR_COMMENTS = re.compile(r"(?:[ \t]*(?:#.*)?(?:\r?\n|\Z))*\Z")


@dataclass(slots=True)
class ParsedFile:
    """The documents of one file, each with whether its text has an error, and the diagnostics of the file. readings:
    index of a document -> its reading (`compiler.reading.one_document`). claim: the claims on jobs of a Cluster among
    them (`compiler.reading.assignment`). Both are cached here. unreadable: the objects of which only the name is known,
    since their text is not YAML: what refers to them must not miss them."""

    documents: list[tuple[Document, bool]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    readings: dict[int, Any] = field(default_factory=dict)
    claim: Any = None
    unreadable: list[Document] = field(default_factory=list)

    def add(self, documents: Iterable[tuple[Document, bool]]) -> None:
        """Add documents, each with whether its text has an error."""
        self.documents += documents

    def add_unreadable(self, document: Document) -> None:
        """Add an object of which only the name is known."""
        self.unreadable.append(document)

    def name_object(self, document: Document, first: int) -> None:
        """Let the diagnostics from number `first` on be of this object."""
        name = document.display_name
        self.diagnostics[first:] = [replace(each, object=each.object or name) for each in self.diagnostics[first:]]

    def report(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)

    def all_diagnostics(self) -> Iterator[Diagnostic]:
        """Also those of readings."""
        yield from self.diagnostics
        for reading in self.readings.values():
            yield from reading.all_diagnostics()

    def reading_of(self, at: int, read: Callable[[Document, bool], Any]) -> Any:
        """Return the reading of the document at this index; read once."""
        if at not in self.readings:
            self.readings[at] = read(*self.documents[at])
        return self.readings[at]

    def claim_of(self, read: Callable[[], Any]) -> Any:
        """Return the claims on jobs of the file's Cluster; read once."""
        if self.claim is None:
            self.claim = read()
        return self.claim


Adopt = Callable[[Document], list[Document]]
"""The objects inside a document that is not an object itself, such as the values of a Helm chart; none if it holds
none."""


Parse = Callable[[str, bytes, Adopt], ParsedFile]
"""`parse_file`, or what does as it does."""


def parse_file(file: str, content: bytes, adopt: Adopt = lambda document: []) -> ParsedFile:
    """Return the documents and diagnostics of one file. Never raises for its content."""
    out = ParsedFile()
    if len(content) > MAX_FILE_BYTES:
        size = f"more than {MAX_FILE_BYTES} bytes"
        out.report(
            TOO_LARGE.diagnostic(Position(file, 1, 1), f"the file has {size}", "split it into files of at most 1 MiB")
        )
        return out
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        out.report(_encoding_diagnostic(file, content, problem))
        return out
    if text.startswith("\ufeff"):
        text = text[1:]
        out.report(
            BYTE_ORDER_MARK.diagnostic(
                Position(file, 1, 1), "the file starts with a byte order mark", "save it as UTF-8 without one"
            )
        )
    for line, part in _document_texts(text):
        with guarded(Place(Position(file, line, 1)), out.report):
            first, known = len(out.diagnostics), len(out.documents)
            reader = YamlReader(file, line, part, out.diagnostics)
            texts = list(reader.load_data())
            for data in texts:
                _add_objects(data, reader, out, adopt)
            objects = [document for document, _ in out.documents[known:]]
            if not texts and (header := _header(part)) is not None:
                objects = [Document(file, line, part, header, {})]
                out.add_unreadable(objects[0])
            if len(objects) == 1:
                out.name_object(objects[0], first)
    if not out.documents and not any(d.severity == "error" for d in out.diagnostics):
        out.report(
            EMPTY_FILE.diagnostic(Position(file, 1, 1), "the file holds no object", "remove it, or write an object")
        )
    return out


def _header(text: str) -> dict[str, Any] | None:
    """Return apiVersion, kind and name of an object whose text is not YAML; None where they cannot be made out."""
    version, kind, block = (pattern.search(text) for pattern in (_API_VERSION, _KIND, _METADATA))
    if version is None or kind is None or block is None:
        return None
    data = next(YamlReader("", 1, block.group(), []).load_data(), {"metadata": _names_in(block.group())})
    header = {"apiVersion": version.group(1), "kind": kind.group(1), **data}
    return header if _missing_field(header) is None and "name" in header["metadata"] else None


def _names_in(block: str) -> dict[str, str]:
    """Return name and namespace of metadata that are not YAML."""
    found = {"name": _NAMED.search(block), "namespace": _NAMESPACED.search(block)}
    return {key: match.group(1) for key, match in found.items() if match}


def _encoding_diagnostic(file: str, content: bytes, problem: UnicodeDecodeError) -> Diagnostic:
    before = content[: problem.start]
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
    subject = (
        "UTF-16 text"
        if content[:2] in (b"\xff\xfe", b"\xfe\xff")
        else f"byte 0x{content[problem.start]:02x} at offset {problem.start}"
    )
    return NOT_UTF8.diagnostic(Position(file, line, column), f"{subject} is not UTF-8", "save the file as UTF-8")


def _document_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield (first line, text) of each document that is more than blanks and comments.

    A line that starts with --- or ... is a marker even inside a block scalar, as YAML requires. The marker is not a
    part of the text, unless content follows on its line.
    """
    start, line = 0, 1
    for found in [*_DOCUMENT_MARKER.finditer(text), None]:
        part = text[start : found.start() if found else len(text)]
        if not _BLANK_OR_COMMENTS.match(part):
            yield line, part
        if found is None:
            return
        line += part.count("\n")
        end = text.find("\n", found.end())
        rest = text[found.end() : end if end >= 0 else len(text)]
        if found.group() == "..." or _BLANK_OR_COMMENTS.match(rest):
            start, line = (end + 1, line + 1) if end >= 0 else (len(text), line)
        else:
            start = found.start()


def _add_objects(data: Any, reader: YamlReader, out: ParsedFile, adopt: Adopt) -> None:
    """Add the documents of one text: the object itself, or the items of a List."""
    if data is None:
        return
    if not _is_list(data):
        document = Document(reader.file, reader.line, reader.text, data, reader.positions)
        failed = bool(reader.error_positions)
        missing = _missing_field(data)
        if isinstance(data, dict) and missing is not None and (inside := adopt(document)):
            out.add((found, failed) for found in inside)
        else:
            _add_object(document, failed, missing, reader, out)
        return
    positions_of: dict[FieldPath, dict[FieldPath, tuple[int, int]]] = {}
    for path, at in reader.positions.items():
        if len(path) >= 2 and path[0] == "items":
            positions_of.setdefault(path[:2], {})[path[2:]] = at
    starts = [reader.positions["items", index] for index in range(len(data["items"]))]
    for index, item in enumerate(data["items"]):
        end = starts[index + 1] if index + 1 < len(starts) else (sys.maxsize, 0)
        failed = any(starts[index] <= at < end for at in reader.error_positions)
        path = ("items", index)
        document = Document(reader.file, reader.line, reader.text, item, positions_of.get(path, {}), path)
        with guarded(Place(document.position()), out.report):
            _add_object(document, failed, _missing_field(item), reader, out)


def _is_list(data: Any) -> bool:
    """Return whether the data is a List of Kubernetes objects, or a JobList and the like, as kubectl reads them."""
    kind = data.get("kind") if isinstance(data, dict) else None
    return isinstance(kind, str) and kind.endswith("List") and isinstance(data.get("items"), list)


_Missing = tuple[FieldPath, str] | None
"""The missing field of a document that is not a Kubernetes object: its path, and a message."""


def _add_object(document: Document, failed: bool, missing: _Missing, reader: YamlReader, out: ParsedFile) -> None:
    """Add the document, or the diagnostic of its missing field."""
    if missing is None:
        errors = list[Diagnostic]()
        with guarded(document, errors.append):
            document = with_name(document)
        for error in errors:
            out.report(error)
        if document.name:  # also one with an internal error: what refers to it must not miss it
            out.add([(document, failed or bool(errors))])
        return
    path, message = missing
    at = document.position(*path)
    reader.add_diagnostic(NOT_AN_OBJECT, at.line, at.column, message, "write apiVersion, kind and metadata.name")


def _missing_field(data: Any) -> _Missing:
    if not isinstance(data, dict):
        return (), "the document is not a mapping"
    for key in ("apiVersion", "kind"):
        if not isinstance(data.get(key), str) or not data[key]:
            return (key,), f"{key} is missing" if data.get(key) is None else f"{key} is not text"
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        return ("metadata",), "metadata is missing" if metadata is None else "metadata is not a mapping"
    key = "name" if metadata.get("name") or not metadata.get("generateName") else "generateName"
    if not isinstance(metadata.get(key), str) or not metadata[key]:
        is_missing = metadata.get(key) in (None, "")
        return ("metadata", key), f"metadata.{key} is {'missing' if is_missing else 'not text'}"
    if not isinstance(metadata.get("namespace") or "", str):
        return ("metadata", "namespace"), "metadata.namespace is not text"
    for key in ("labels", "annotations"):
        if not isinstance(metadata.get(key) or {}, dict):
            return ("metadata", key), f"metadata.{key} is not a mapping"
    return None


def parse_embedded_text(
    document: Document, path: FieldPath, text: str
) -> tuple[Any, dict[FieldPath, tuple[int, int]], list[Diagnostic]]:
    """(data, positions, problems) of YAML inside YAML: the `text` at `path`, such as that of a ConfigMap's key. The
    paths of positions begin with `path`."""
    diagnostics: list[Diagnostic] = []
    line, column = _text_start(document, path, text)
    reader = YamlReader(document.file, line, text, diagnostics, column)
    data = next(reader.load_data(), None)
    found = [replace(problem, object=document.display_name) for problem in diagnostics]
    return data, {path + inner: at for inner, at in reader.positions.items()}, found


def _text_start(document: Document, path: FieldPath, text: str) -> tuple[int, int]:
    """Return the position of the first character of the block scalar; for text in another style, that of the key."""
    key = document.position(*path)
    lines = document.text.split("\n")
    row = key.line - document.line
    if not 0 <= row < len(lines) or not _BLOCK_SCALAR.match(lines[row]):
        return key.line, key.column
    first = next((line for line in lines[row + 1 :] if line.strip()), "")
    lead = len(text.lstrip("\n")) - len(text.lstrip("\n").lstrip(" "))
    return key.line + 1, len(first) - len(first.lstrip(" ")) - lead + 1
