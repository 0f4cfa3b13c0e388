"""Job kinds that are rows of `compiler/kinds/job_kinds.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from compiler.kinds.common.job_kinds import Count, JobKind, NotApplied, RolePaths, Unbound


@cache
def _rows() -> Mapping[str, Any]:
    return tomllib.loads((files("compiler.kinds") / "job_kinds.toml").read_text("utf-8"))


def job_row(key: str, **hooks: Any) -> JobKind:
    """Return the table of a kind ("Kind.group"). hooks: the functions of a `JobKind`, which no row has."""
    name, _, group = key.partition(".")
    row = _tuples(_rows()[key])
    row["roles"] = tuple(RolePaths(**_with_counts(_tuples(role))) for role in row["roles"])
    if (of := row.get("unbound")) is not None:
        parts = tuple(NotApplied(**_tuples(part)) for part in of.get("not_applied", ()))
        row["unbound"] = Unbound(**of | {"not_applied": parts})
    return JobKind(name, group, **row, **hooks)


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _with_counts(role: dict[str, Any]) -> dict[str, Any]:
    for key in role.keys() & {"replicas", "minimum"}:
        role[key] = tuple(Count(each) if isinstance(each, str) else Count(**each) for each in role[key])
    return role
