"""All kinds by name; a module is imported when one of its kinds is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache

from compiler.kinds.kind import KIND_ROWS, Kind


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
