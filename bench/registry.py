"""The definition of a benchmark. A file of `bench/cases/` registers its cases when it is imported; nothing else lists
them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CaseFunction = Callable[[], "Figures"]

_CASES: dict[str, Case] = {}

DEFAULT_GROUP = "usual"
"""The group that is run when nothing is asked for."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of a plan. GPUs and gangs count the plan's starts; running ones do not count.

    bound: GPUs that no plan can exceed (`bench.bound`). greedy: (gangs, GPUs) that the greedy starts alone. verdicts:
    objectives per verdict. spread: (cost, proved bound), None when no gang starts or the plan has none.
    """

    asked: int
    placed: int
    bound: int
    gangs: int
    started: int
    greedy: tuple[int, int]
    verdicts: Mapping[str, int]
    spread: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The plan and the baselines. Cases of one title share a table; the first column names the row, all others are
    figures."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """seconds: wall clock. cpu: seconds of all its threads. peak: bytes of resident memory at most. phases: name ->
    seconds, in order.

    parts: seconds of the parts of a phase, e.g. those of `solve`; they need not add up. claims: what the case promises
    beyond seconds and memory, in words -> whether it held.
    """

    seconds: float
    cpu: float
    peak: int
    phases: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    quality: Quality | None = None
    comparison: Comparison | None = None
    claims: Mapping[str, bool] = field(default_factory=dict)


class MissingInputError(Exception):
    """The case needs an absent input (a trace); it is left out, which is not a failure."""


@dataclass(frozen=True, slots=True)
class Case:
    """seconds, peak: the bars, None for a case that only informs. run: measures in the process that calls it. group: of
    cases that are run together."""

    name: str
    title: str
    run: CaseFunction
    seconds: float | None = None
    peak: int | None = None
    group: str = DEFAULT_GROUP


def register_case(
    name: str,
    title: str,
    run: CaseFunction,
    *,
    seconds: float | None = None,
    peak: int | None = None,
    group: str = DEFAULT_GROUP,
) -> None:
    """Register one. Raises ValueError for a name that is taken."""
    if name in _CASES:
        raise ValueError(f"two cases are named {name}")
    _CASES[name] = Case(name, title, run, seconds, peak, group)


def load_cases() -> Mapping[str, Case]:
    """Return all of them by name, in the order of the files and inside a file of registration."""
    package = importlib.import_module("bench.cases")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"bench.cases.{module.name}")
    return _CASES


def figures_from_json(data: Mapping[str, Any]) -> Figures:
    """Return the inverse of `dataclasses.asdict`, after JSON."""
    quality, comparison = data["quality"], data["comparison"]
    if quality is not None:
        spread = tuple(quality["spread"]) if quality["spread"] is not None else None
        quality = Quality(**{**quality, "greedy": tuple(quality["greedy"]), "spread": spread})
    if comparison is not None:
        comparison = Comparison(
            comparison["title"], tuple(comparison["heads"]), tuple(tuple(row) for row in comparison["rows"])
        )
    return Figures(**{**data, "quality": quality, "comparison": comparison})
