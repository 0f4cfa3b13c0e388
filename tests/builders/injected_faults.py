"""Exceptions injected into the functions that work on documents: they raise for chosen documents."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest

from compiler.checks.check import Check, all_checks
from compiler.kinds.kind import kinds
from compiler.syntax.documents import Document

READING = (
    "compiler.syntax.parse.with_name",
    *(
        f"compiler.reading.one_document.{name}"
        for name in (
            "read_model",
            "metadata_diagnostics",
            "sensitive_object_diagnostics",
            "document_flaws",
            "flaw_diagnostics",
            "declared_pods",
            "unplanned_pods",
            "_privileged_containers",
        )
    ),
    "compiler.reading.documents.service_gang",
    "compiler.kinds.train_job.train_job_gang",
    "compiler.kinds.hyper_job.hyper_job_gang",
    "compiler.kinds.argo_workflow.workflow_gang",
    "compiler.kinds.argo_workflow.workflow_templates",
    *(
        f"compiler.reading.consistency.{name}"
        for name in ("with_scheduler", "resolve_hypernodes", "pod_group_gangs", "job_flow_gangs")
    ),
)
LOWERING = (
    "compiler.lower.lowering.subgroup_demand",
    "compiler.lower.gangs.gang_times",
    "compiler.lower.gangs.role_affinities",
    "compiler.outcome._DecisionTranslator.job_decision",
    "compiler.outcome._DecisionTranslator.unbound_decision",
)
EMITTING = tuple(
    f"compiler.emit.waves.{name}"
    for name in ("mark_pods", "name_queue", "_with_namespace", "config_map", "_queue_object", "_hypernode_object")
)
CHECKS, KINDS = "checks ", "kinds "
"""Prefixes of the points in the tables of checks and kinds."""

ERRORS = (ValueError, TypeError, KeyError, AttributeError, RecursionError, AssertionError, ZeroDivisionError)


class Faults:
    """Which documents each point has seen, and for which of them it raises what."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, None]] = {}
        self.point, self.files, self.error = "", frozenset[str](), ValueError
        self.raised: set[str] = set()

    @contextmanager
    def at(self, point: str, files: frozenset[str], error: type[Exception]) -> Iterator[None]:
        """Raise this at the point for the documents of these files."""
        self.point, self.files, self.error, self.raised = point, files, error, set()  # type: ignore[assignment]
        yield
        self.point = ""

    def meet(self, point: str, values: Iterable[Any]) -> None:
        """Raise if the point is asked to deal with a chosen document. values: its arguments, of which the first with
        documents counts."""
        for document in next(filter(None, map(list, map(_documents_in, values))), ()):
            if not self.point:  # while nothing fails
                self.seen.setdefault(point, {})[document.file] = None
            if point == self.point and document.file in self.files:
                self.raised.add(document.file)
                raise self.error("injected")

    def inject(self, patch: pytest.MonkeyPatch) -> None:
        """Put the points into the code."""
        for point in (*READING, *LOWERING, *EMITTING):
            owner, name = _owner_and_name(point)
            patch.setattr(owner, name, self._wrapped(point, getattr(owner, name)))
        checks = tuple(self._check(each) for each in all_checks())
        for module in ("compiler.checks.check", "compiler.reading.consistency"):
            patch.setattr(f"{module}.all_checks", lambda: checks)
        found = kinds()
        for key in found:
            specs = self._wrapped(f"{KINDS}{key}", found[key].specs)
            patch.setitem(found._known, key, replace(found[key], specs=specs))  # type: ignore[attr-defined]

    def _wrapped(self, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def meeting(*arguments: Any, **named: Any) -> Any:
            self.meet(point, arguments)
            return function(*arguments, **named)

        return meeting

    def _check(self, each: Check) -> Check:
        point = f"{CHECKS}{each.rule.code}"

        def meeting(examined: Any) -> Iterator[Any]:
            self.meet(point, (examined.models,))
            yield from each.function(examined)

        return replace(each, function=meeting)


def _owner_and_name(point: str) -> tuple[Any, str]:
    path, name = point.rsplit(".", 1)
    try:
        return importlib.import_module(path), name
    except ModuleNotFoundError:
        module, owner = path.rsplit(".", 1)
        return getattr(importlib.import_module(module), owner), name


def _documents_in(value: Any) -> Iterator[Document]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _documents_in(each)
    elif isinstance(value, Document):
        yield value
    else:
        owner = value if hasattr(value, "document") else getattr(value, "gang", None)
        if isinstance(document := getattr(owner, "document", None), Document):
            yield document
