"""Document: one Kubernetes object as plain data, with the position of each key and item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, Position, Rule, Severity

FieldPath = tuple[str | int, ...]
DocumentIdentity = tuple[str, int, FieldPath]
"""(file, line, item path) of a document."""


@dataclass(frozen=True, slots=True)
class Document:
    """One Kubernetes object as read.

    file: path inside the repository, with "/". line: first line of `text`, from 1. text: the YAML document that holds
    the object, byte for byte; for an item of a List the List's text, in which `item_path` leads to the item. data:
    plain dict, list, str, int, float, bool, None. positions: path inside `data` -> (line, column) of that key or item.
    """

    file: str
    line: int
    text: str
    data: dict[str, Any]
    positions: Mapping[FieldPath, tuple[int, int]]
    item_path: FieldPath = ()

    def in_full(self) -> Document:
        """Return the document with its text, data and positions at hand."""
        return self

    @property
    def api_version(self) -> str:
        return str(self.data.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        return str(self.data.get("kind", ""))

    @property
    def group(self) -> str:
        """Return the API group; empty for Kubernetes' core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.data["metadata"]
        return metadata

    @property
    def namespace(self) -> str:
        """Return the namespace as written, empty where none is; namespaced kinds read that as "default"."""
        return str(self.metadata.get("namespace") or "")

    @property
    def name(self) -> str:
        """metadata.name; of a text with generateName the one that `compiler.syntax.runs` gives it."""
        return str(self.metadata.get("name") or "")

    @property
    def has_generated_name(self) -> bool:
        """Return whether the text has generateName in place of a name."""
        return "generateName" not in self.metadata and ("metadata", "generateName") in self.positions

    @property
    def identity(self) -> DocumentIdentity:
        """(file, line, item path), unique among the documents of a repository."""
        return self.file, self.line, self.item_path

    @property
    def written(self) -> Document:
        """Return the document that a file holds: this one, or the one that it is a part of."""
        return self

    @property
    def display_name(self) -> str:
        """ "Kind namespace/name", or "Kind name" without a namespace."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def value_at(self, *path: str | int) -> Any:
        """Return the value at `path`, which must exist."""
        found: Any = self.data
        for step in path:
            found = found[step]
        return found

    def position(self, *path: str | int) -> Position:
        """Return the position of `path`, or of its nearest ancestor in the document."""
        if path[:2] == ("metadata", "name") and self.has_generated_name:
            path = ("metadata", "generateName")
        while path and path not in self.positions:
            path = path[:-1]
        line, column = self.positions.get(path, (self.line, 1))
        return Position(self.file, line, column)

    def diagnostic(
        self,
        rule: Rule,
        path: FieldPath,
        message: str,
        help: str,
        *,
        see: Position | None = None,
        severity: Severity | None = None,
        explains: FieldPath = (),
    ) -> Diagnostic:
        """Return a diagnostic of the rule at `path`."""
        at = self.position(*path)
        found = rule.diagnostic(at, message, help, object=self.display_name, see=see, severity=severity)
        return replace(found, path=path, explains=explains)


class RememberedDocument(Document):
    """A document of which only the head is at hand; the rest is fetched when something asks for it.

    head: apiVersion, kind, metadata, and the position of the document. fetch: returns the whole document.
    """

    __slots__ = ("_fetch", "_full", "_head")

    _fetch: Callable[[], Document]
    _head: tuple[str, str, Mapping[str, Any], tuple[int, int]]
    _full: Document | None

    def __init__(
        self,
        file: str,
        line: int,
        item_path: FieldPath,
        head: tuple[str, str, Mapping[str, Any], tuple[int, int]],
        fetch: Callable[[], Document],
    ) -> None:
        values = {"file": file, "line": line, "item_path": item_path, "_head": head, "_fetch": fetch, "_full": None}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def in_full(self) -> Document:
        full = self._full
        if full is None:
            full = self._fetch()
            object.__setattr__(self, "_full", full)
        return full

    @property
    def text(self) -> str:
        return self.in_full().text

    @property
    def data(self) -> dict[str, Any]:
        return self.in_full().data

    @property
    def positions(self) -> Mapping[FieldPath, tuple[int, int]]:
        return self.in_full().positions

    @property
    def api_version(self) -> str:
        return self._head[0]

    @property
    def kind(self) -> str:
        return self._head[1]

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._head[2]

    def position(self, *path: str | int) -> Position:
        return self.in_full().position(*path) if path else Position(self.file, *self._head[3])
