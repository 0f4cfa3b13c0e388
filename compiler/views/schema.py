"""JSON Schema (draft 2020-12, as yaml-language-server reads it) of the kinds that gangplan knows, from their pydantic
models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.kinds import Kind, kinds


def kinds_by_name() -> Mapping[str, Kind]:
    """Kind by the name that a user gives: "Queue", or "Job.batch" where two groups have a kind of that name; the full
    name always works."""
    found: dict[str, Kind] = {}
    known = [kind for kind in kinds().values() if kind.is_written]
    for kind in known:
        full = kind.key if kind.group else f"{kind.name}.v1"
        if sum(other.name == kind.name for other in known) == 1:
            found[kind.name] = kind
        found[full] = kind
    return dict(sorted(found.items()))


def json_schema(kind: Kind) -> dict[str, Any]:
    """The schema of a whole document of `kind`, apiVersion and kind fixed."""
    made = kind.model.model_json_schema(by_alias=True, mode="validation")
    properties = {
        **made.get("properties", {}),
        "apiVersion": {"enum": [f"{kind.group}/{version}" if kind.group else version for version in kind.versions]},
        "kind": {"const": kind.name},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": f"{kind.name} ({kind.api_version})",
        "properties": properties,
        "required": sorted({*made.get("required", []), "apiVersion", "kind", "metadata"}),
    }
