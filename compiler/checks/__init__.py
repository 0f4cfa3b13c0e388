"""Checks: rules inside and across objects, one function each, in a table.

A check is a function from a `CheckInput` to findings, declared with its code and title. Its docstring is the user
documentation: the rule, its reason, and the mend. Checks know no files, output formats or other checks, and never raise
for what a document says.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from compiler.diagnostics import Diagnostic, Rule, Severity, declare_rule
from compiler.specs import GangSpec, SchedulerSpec, Specs
from compiler.specs.drafts import PodDraft
from compiler.specs.hypernode_tree import TreeProblem
from compiler.syntax.documents import Document, FieldPath

Model = TypeVar("Model")
ObjectIdentity = tuple[str, str, str]
"""("Kind.group", namespace, name)"""


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What checks examine: the specs, those of objects with errors included, and the models that they were made of.

    failed_objects: objects with errors, which must not be reported as missing. tree_problems: of the hypernode tree.
    schedulers: every scheduler configuration found; `specs` has the first. namespaced_kinds: "Kind.group" -> whether
    its objects have a namespace, for known kinds. unbound_gangs: those whose pods the plan binds to no node; `specs`
    has the others.
    """

    specs: Specs
    models: tuple[tuple[Document, Any], ...] = ()
    failed_objects: frozenset[ObjectIdentity] = frozenset()
    tree_problems: tuple[TreeProblem, ...] = ()
    bare_pods: tuple[PodDraft, ...] = ()
    schedulers: tuple[SchedulerSpec, ...] = ()
    namespaced_kinds: Mapping[str, bool] = field(default_factory=dict)
    unbound_gangs: tuple[GangSpec, ...] = ()

    def documents_of(self, model: type[Model]) -> Iterator[tuple[Document, Model]]:
        """The documents with a model of that type."""
        for document, found in self.models:
            if isinstance(found, model):
                yield document, found

    def failed_names(self, key: str) -> set[str]:
        """Names of the objects of a kind ("Kind.group") that have errors."""
        return {name for kind, _, name in self.failed_objects if kind == key}


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation at `path` of `document`. see: a second location. severity: replaces the rule's own. cause: the object
    whose errors are behind it, by its display name."""

    document: Document
    path: FieldPath
    message: str
    help: str
    see: tuple[Document, FieldPath] | None = None
    severity: Severity | None = None
    cause: str = ""


CheckFunction = Callable[[CheckInput], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """A rule with the function that finds its violations."""

    rule: Rule
    function: CheckFunction
    on_partial: bool = False

    def diagnostic(self, found: Finding) -> Diagnostic:
        """The finding at its position."""
        see = found.see[0].position(*found.see[1]) if found.see else None
        return found.document.diagnostic(
            self.rule, found.path, found.message, found.help, see=see, severity=found.severity, cause=found.cause
        )


_CHECKS: dict[str, Check] = {}


def check(
    code: str, title: str, severity: Severity = "error", *, folds: bool = False, on_partial: bool = False
) -> Callable[[CheckFunction], CheckFunction]:
    """Declare the decorated function as a check. on_partial: it also judges jobs with an error elsewhere."""

    def declare(function: CheckFunction) -> CheckFunction:
        rule = declare_rule(code, severity, title, inspect.getdoc(function) or "", folds=folds)
        _CHECKS[code] = Check(rule, function, on_partial)
        return function

    return declare


def all_checks() -> tuple[Check, ...]:
    """All checks, sorted by code."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(_CHECKS[code] for code in sorted(_CHECKS))
