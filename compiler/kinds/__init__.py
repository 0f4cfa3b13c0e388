"""Kinds of objects that gangplan reads, one module each. A new kind is a new module with a `KIND`, and no other change.

A kind's `specs` turns a document, validated by the kind's pydantic model, into specs (`compiler.specs`), or into drafts
(`compiler.specs.drafts`) that other documents complete. Rules beyond the shape are checks (`compiler.checks`).
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
    """One kind: its name, API group and versions, and the pydantic model of the whole document.

    specs: the document as specs or drafts. text_diagnostics: findings that the model does not make. namespaced: whether
    its objects have a namespace.
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
