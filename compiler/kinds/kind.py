"""A kind of objects: its name, versions and model, and how a document becomes specs; and all kinds by name, whose
modules are imported when one of their kinds is asked for."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import without_nulls
from compiler.openapi.schemas import Schema, find_schema
from compiler.openapi.shape import Flaw
from compiler.syntax.documents import Document

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its name, API group and versions, and the pydantic model by which a whole document is read.

    model: None where `specs` reads the data. specs: the document as specs or drafts. schema: of a kind that
    `compiler.openapi` lacks. flaws: of a document with a valid shape. text_diagnostics: findings of neither.
    is_foreign: of an operator, so that other versions pass. runs_once: an object ends and is not recreated; for known
    kinds `compiler.run_kinds` decides. unbound_reason: why the plan's nodes bind no pods of an object, else empty.
    reads_alone: `specs` does without a model, so that it reads the valid parts of a document with errors, for checks
    only. is_written: false for kinds that people never write as an object.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    model: type[BaseModel] | None
    specs: Callable[[Document, Any], Iterable[object]]
    text_diagnostics: Callable[[Document], Iterator[Diagnostic]] | None = None
    schema: Callable[[], Schema] | None = None
    flaws: Callable[[Any], Iterator[Flaw]] | None = None
    is_foreign: bool = False
    reads_alone: bool = False
    is_written: bool = True
    runs_once: bool = False
    unbound_reason: str = ""

    def read(self, document: Document) -> Any:
        """Return the model of a document. Raises pydantic's ValidationError where it has another shape."""
        return document.data if self.model is None else self.model.model_validate(without_nulls(document.data))

    def schema_of(self, version: str) -> Schema | None:
        """Return the schema of a version."""
        found = find_schema(self.key, version)
        return self.schema() if found is None and self.schema is not None else found

    @property
    def key(self) -> str:
        return f"{self.name}.{self.group}"

    @property
    def namespaced(self) -> bool:
        return self.key not in CLUSTER_WIDE_KINDS

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


KIND_ROWS: Mapping[str, Mapping[str, Any]] = tomllib.loads((files("compiler.kinds") / "kinds.toml").read_text("utf-8"))
"""Kind.group ("Node." for the core group) -> its row in kinds.toml."""
CLUSTER_WIDE_KINDS = frozenset(key for key, row in KIND_ROWS.items() if row.get("cluster_wide"))
"""Kinds whose objects have no namespace."""


def kinds_in(module: str) -> tuple[str, ...]:
    """Return "Kind.group" of each kind in a module of this package."""
    return tuple(key for key, row in KIND_ROWS.items() if row.get("module") == module)


class _Kinds(Mapping[str, Kind]):
    """Kinds by "Kind.group", sorted by group and name; each is imported when it is asked for."""

    def __init__(self) -> None:
        modules = {key: row["module"] for key, row in KIND_ROWS.items() if "module" in row}
        self._modules: dict[str, str] = dict(sorted(modules.items(), key=lambda item: item[0].partition(".")[::-1]))
        self._known: dict[str, Kind] = {}

    def __getitem__(self, key: str) -> Kind:
        if key not in self._known:
            module = importlib.import_module(f"compiler.kinds.{self._modules[key]}")
            found: tuple[Kind, ...] = module.KINDS if hasattr(module, "KINDS") else (module.KIND,)
            self._known |= {kind.key: kind for kind in found}
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@cache
def kinds() -> Mapping[str, Kind]:
    """Return every kind, by "Kind.group" ("Node." for the core group)."""
    return _Kinds()
