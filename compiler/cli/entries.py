"""Files read at once, in as many processes as there are cores, with the same results as in one.

An entry, in the cache and from one process to another, has two parts. The first is pickled: the file's diagnostics, the
head of each document, and the results of reading these. The second, by marshal, is the documents in full, kept only
where more than a head was requested.
"""

from __future__ import annotations

import dataclasses
import io
import marshal
import pickle
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from compiler.cli.forks import in_forks, process_count
from compiler.diagnostics.guard import has_internal_error
from compiler.reading.documents import read_alone
from compiler.syntax.documents import Document, RememberedDocument
from compiler.syntax.parse import ParsedFile

WARM_UP = 16
"""Files that are read first: what all processes need of kinds and schemas is then there before they part."""

File = tuple[bytes, str, bytes]
"""Key, name and content of a file."""


def read_at_once(files: Sequence[File]) -> tuple[dict[bytes, ParsedFile], dict[bytes, Entry]]:
    """By key: files that this process has read, and entries of files that other processes have read. Some may be
    missing."""
    if (processes := process_count(len(files))) == 1:
        return {}, {}
    read, rest = _read_all(files[:WARM_UP]), files[WARM_UP:]

    def entries_of_share(number: int) -> dict[bytes, Entry]:
        found = {key: file_entry(parsed) for key, parsed in _read_all(rest[number::processes]).items()}
        return {key: entry for key, entry in found.items() if entry is not None}

    own, answers = in_forks(processes, entries_of_share, lambda: _read_all(rest[::processes]))
    return read | own, {key: entry for entries in answers for key, entry in entries.items()}


def _read_all(files: Sequence[File]) -> dict[bytes, ParsedFile]:
    return {key: read_alone(file, content) for key, file, content in files}


Entry = tuple[bytes, bytes | None]


def file_entry(parsed: ParsedFile) -> Entry | None:
    """Return the entry of a file, without its documents; None where something in it is known to this process only, or
    where reading it failed, which is not remembered."""
    if has_internal_error(parsed.all_diagnostics()):
        return None
    documents = [document for document, _ in parsed.documents]
    heads = [(_head(document), failed) for document, failed in parsed.documents]
    out = io.BytesIO()
    try:
        pickle.dump(heads, out, pickle.HIGHEST_PROTOCOL)
        _Pickler(out, documents).dump((parsed.diagnostics, parsed.readings, parsed.claim, parsed.unreadable))
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return None
    return out.getvalue(), None


def with_documents(entry: Entry, documents: Sequence[Document]) -> Entry:
    """Return the entry with the documents in full; unchanged where it holds a value that marshal does not know."""
    try:
        plain = [(d.file, d.line, d.text, d.data, dict(d.positions), d.item_path) for d in documents]
        return entry[0], marshal.dumps(plain)
    except ValueError:
        return entry


def entry_documents(entry: Entry) -> list[Document] | None:
    """Return the documents in full, where the entry has them."""
    return None if entry[1] is None else [Document(*fields) for fields in marshal.loads(entry[1])]  # noqa: S302


def parsed_file(entry: Entry, file: str, fetch: Callable[[int], Document]) -> ParsedFile:
    """Return the file that the entry is of. fetch: returns a document in full, by its index."""

    def remembered_document(at: int, head: Any) -> Document:
        line, item_path, known = head
        return RememberedDocument(file, line, item_path, known, partial(fetch, at))

    return _file_of(io.BytesIO(entry[0]), remembered_document)


def _file_of(stream: io.BytesIO, make_document: Callable[[int, Any], Document]) -> ParsedFile:
    """Return the file of the first part of an entry. make_document: index and head of a document -> the document."""
    heads = pickle.load(stream)  # noqa: S301  # of this user and this code (reading_cache)
    documents = [make_document(at, head) for at, (head, _) in enumerate(heads)]
    diagnostics, *others = _Unpickler(stream, documents).load()
    failed = (failure for _, failure in heads)
    return ParsedFile(list(zip(documents, failed, strict=True)), diagnostics, *others)


def _head(document: Document) -> tuple[Any, ...]:
    at = document.position()
    return (
        document.line,
        document.item_path,
        (document.api_version, document.kind, document.metadata, (at.line, at.column)),
    )


class _Pickler(pickle.Pickler):
    """Writes dataclasses as calls of their class, which are read faster than states, and a document of the file as its
    index."""

    def __init__(self, out: io.BytesIO, documents: Sequence[Document]) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._indices = {id(document): at for at, document in enumerate(documents)}

    def persistent_id(self, value: Any) -> int | None:
        return self._indices.get(id(value)) if isinstance(value, Document) else None

    def reducer_override(self, value: Any) -> Any:
        owner: type = type(value)
        names = _field_names(owner)
        return NotImplemented if names is None else (owner, tuple(getattr(value, name) for name in names))


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, documents: Sequence[Document]) -> None:
        super().__init__(stream)
        self._documents = documents

    def persistent_load(self, at: int) -> Document:
        return self._documents[at]


@cache
def _field_names(owner: type) -> tuple[str, ...] | None:
    """Return the fields with which a dataclass is called, where these are all that it has."""
    fields = dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ()
    is_plain = dataclasses.is_dataclass(owner) and all(each.init and not each.kw_only for each in fields)
    return tuple(each.name for each in fields) if is_plain else None
