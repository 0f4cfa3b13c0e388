"""The kinds of objects that gangplan reads, one module each. A new kind is a new module with a `KIND`; nothing else has
to know of it.

A kind's `specs` turns a document, already fitted to the kind's pydantic model, into pieces of `compiler.specs` (or of
`compiler.specs.drafts`, where other documents are needed to finish them). What is wrong with a piece is a check's
matter (`compiler.checks`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from compiler.diagnostics import Diagnostic
from compiler.syntax.documents import Document


@dataclass(frozen=True, slots=True)
class Kind:
    """name, group, versions: what apiVersion and kind say. model: the whole document.

    specs: what the document says, as GangSpec, QueueSpec and so on. review: findings on the text that the model does
    not make. namespaced: whether the kind lives in a namespace. ours: the schema is worth printing with `gangplan
    schema`.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    model: type[BaseModel]
    specs: Callable[[Document, Any], Iterable[object]]
    text_diagnostics: Callable[[Document], Iterator[Diagnostic]] | None = None
    namespaced: bool = True

    @property
    def key(self) -> str:
        return f"{self.name}.{self.group}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind, by "Kind.group" ("Node." for the core group)."""
    found = [
        importlib.import_module(f"{__name__}.{module.name}").KIND
        for module in pkgutil.iter_modules(__path__)
        if not module.ispkg
    ]
    return {kind.key: kind for kind in sorted(found, key=lambda kind: (kind.group, kind.name))}
