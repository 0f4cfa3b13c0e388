"""The checks: rules inside and across objects, one function each, in a table.

A check is a function from a `Reading` to findings, declared with its code and title. Its docstring is the user's
documentation: the rule, its reason, and how to mend a breach. Checks know nothing of files, output or each other, and
never raise for what a document says.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from compiler.diagnostics import Diagnostic, Rule, Severity, declare_rule
from compiler.specs import SchedulerSpec, Specs
from compiler.specs.drafts import PodDraft
from compiler.specs.hypernode_tree import TreeProblem
from compiler.syntax.documents import Document, FieldPath

Model = TypeVar("Model")
ObjectIdentity = tuple[str, str, str]
"""("Kind.group", namespace, name)"""


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What checks look at: the specs, also those of objects that turn out bad, and the models that they were made from.

    broken: objects that exist but could not be read; nobody should be told that they are missing. tree: what is wrong
    with the hypernode tree. pods: bare pods. schedulers: every scheduler configuration found, of which `specs` has the
    first. namespaced: kinds that live in namespaces ("Kind.group" -> bool) as far as known.
    """

    specs: Specs
    models: tuple[tuple[Document, Any], ...] = ()
    failed_objects: frozenset[ObjectIdentity] = frozenset()
    tree_problems: tuple[TreeProblem, ...] = ()
    bare_pods: tuple[PodDraft, ...] = ()
    schedulers: tuple[SchedulerSpec, ...] = ()
    namespaced_kinds: Mapping[str, bool] = field(default_factory=dict)

    def documents_of(self, model: type[Model]) -> Iterator[tuple[Document, Model]]:
        """Every document of one model."""
        for document, found in self.models:
            if isinstance(found, model):
                yield document, found

    def failed_names(self, key: str) -> set[str]:
        return {name for kind, _, name in self.failed_objects if kind == key}


@dataclass(frozen=True, slots=True)
class Finding:
    """`path` in `document` breaks the rule. see: the other document and path that belong to it. severity: where milder
    than the rule's own."""

    document: Document
    path: FieldPath
    message: str
    help: str
    see: tuple[Document, FieldPath] | None = None
    severity: Severity | None = None


CheckFunction = Callable[[CheckInput], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    rule: Rule
    function: CheckFunction

    def findings(self, reading: CheckInput) -> Iterator[tuple[Document, Diagnostic]]:
        for found in self.function(reading):
            see = found.see[0].position(*found.see[1]) if found.see else None
            position = found.document.position(*found.path)
            yield (
                found.document,
                self.rule.diagnostic(
                    position,
                    found.message,
                    found.help,
                    object=found.document.display_name,
                    see=see,
                    severity=found.severity,
                ),
            )


_CHECKS: dict[str, Check] = {}


def check(code: str, title: str, severity: Severity = "error") -> Callable[[CheckFunction], CheckFunction]:
    """Put a function into the table of checks."""

    def declare(function: CheckFunction) -> CheckFunction:
        _CHECKS[code] = Check(declare_rule(code, severity, title, inspect.getdoc(function) or ""), function)
        return function

    return declare


def all_checks() -> tuple[Check, ...]:
    """All checks, in order of their codes."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(_CHECKS[code] for code in sorted(_CHECKS))
