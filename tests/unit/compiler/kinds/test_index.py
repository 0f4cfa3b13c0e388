"""The list of kinds and their modules, by which they are imported."""

from __future__ import annotations

import importlib
import pkgutil

import compiler.kinds
from compiler.kinds.kind import CLUSTER_WIDE_KINDS, KIND_ROWS, Kind, kinds, kinds_in


def test_every_module_is_listed_with_its_kinds() -> None:
    found: dict[str, set[str]] = {}
    for module in pkgutil.iter_modules(compiler.kinds.__path__):
        if not module.ispkg and module.name not in ("kind", "registry"):
            loaded = importlib.import_module(f"compiler.kinds.{module.name}")
            of_module: tuple[Kind, ...] = loaded.KINDS if hasattr(loaded, "KINDS") else (loaded.KIND,)
            found[module.name] = {kind.key for kind in of_module}
    assert {name: set(kinds_in(name)) for name in found} == found
    assert {row["module"] for row in KIND_ROWS.values() if "module" in row} == found.keys()


def test_kinds_are_sorted_by_group_and_name() -> None:
    assert [(kind.group, kind.name) for kind in kinds().values()] == sorted((k.group, k.name) for k in kinds().values())
    assert kinds().keys() >= CLUSTER_WIDE_KINDS
