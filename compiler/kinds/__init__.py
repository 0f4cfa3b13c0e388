"""Kinds of objects that gangplan reads.

A new kind is a new module with a `KIND` (or `KINDS`, where a family shares one) and no other change. A job kind needs
no more than a table (`compiler.kinds.common.job_kinds`).

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
    its objects have a namespace. is_foreign: of an operator, so that other versions pass.
    partial_specs: what can be read of a document with errors, for checks only.
    is_written: false for what people never write as an object.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    model: type[BaseModel]
    specs: Callable[[Document, Any], Iterable[object]]
    text_diagnostics: Callable[[Document], Iterator[Diagnostic]] | None = None
    namespaced: bool = True
    is_foreign: bool = False
    partial_specs: Callable[[Document], Iterable[object]] | None = None
    is_written: bool = True

    @property
    def key(self) -> str:
        return f"{self.name}.{self.group}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


@cache
def kinds() -> Mapping[str, Kind]:
    """Every kind, by "Kind.group" ("Node." for the core group)."""
    found: list[Kind] = []
    for name in (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg):
        module = importlib.import_module(f"{__name__}.{name}")
        found += module.KINDS if hasattr(module, "KINDS") else (module.KIND,)
    return {kind.key: kind for kind in sorted(found, key=lambda kind: (kind.group, kind.name))}
