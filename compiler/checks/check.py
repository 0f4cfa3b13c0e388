"""Checks: rules inside and across objects, one function each, in a table; and all codes of diagnostics.

A check is a function from a `CheckInput` to findings, declared with its code and title. Its docstring is the user
documentation: the rule, its reason, and the fix. Checks know no files, output formats or other checks, and never raise
for a document's contents.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from compiler.diagnostics.diagnostic import RULES, Diagnostic, Rule, Severity, declare_rule
from compiler.kinds.kind import kinds
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.session import Session
from compiler.specs.cluster_spec import SchedulerSpec, Specs
from compiler.specs.drafts import DatedFields, InnerJob, ListedResources, PodDraft, PrivilegedContainers
from compiler.specs.gang_spec import GangSpec
from compiler.specs.hypernode_tree import TreeProblem
from compiler.syntax.documents import Document, DocumentIdentity, FieldPath

Model = TypeVar("Model")
ObjectIdentity = tuple[str, str, str]
"""("Kind.group", namespace, name)"""


def identity_of(document: Document) -> ObjectIdentity:
    return f"{document.kind}.{document.group}", document.namespace or "default", document.name


class ReadModel(Generic[Model]):
    """A document and the pydantic model that its kind makes of it, made when a check asks for it."""

    __slots__ = ("_model", "document")

    def __init__(self, document: Document, model: Model | None = None) -> None:
        self.document, self._model = document, model

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadModel, (self.document,)

    @property
    def model(self) -> Model:
        if self._model is None:
            self._model = kinds()[f"{self.document.kind}.{self.document.group}"].read(self.document)
        return cast(Model, self._model)


@dataclass(frozen=True, slots=True)
class ModelOf(Generic[Model]):
    """The model of a kind ("Kind.group"), by its name, so that only what a repository holds is imported."""

    kind: str


class DocumentInput:
    """The input of checks of one document."""

    models: tuple[ReadModel[Any], ...]

    def __init__(self, models: Iterable[ReadModel[Any]]) -> None:
        self.models = tuple(models)

    @cached_property
    def _models_by_kind(self) -> Mapping[str, Sequence[ReadModel[Any]]]:
        found: dict[str, list[ReadModel[Any]]] = {}
        for each in self.models:
            found.setdefault(f"{each.document.kind}.{each.document.group}", []).append(each)
        return found

    def documents_of(
        self, wanted: ModelOf[Model], but: Collection[DocumentIdentity] = ()
    ) -> Iterator[tuple[Document, Model]]:
        """Yield the documents of that kind that have a model. but: documents to leave out."""
        for found in self._models_by_kind.get(wanted.kind, ()):
            if found.document.identity not in but:
                yield found.document, found.model


def _template_identity(gang: GangSpec) -> DocumentIdentity | None:
    """The identity of the document that a step of a flow is made from; None of any other job."""
    file, line, path = gang.document.identity
    return (file, line, path[:-2]) if gang.step is not None else None


def _names_volcano(gang: GangSpec) -> bool:
    return VOLCANO_SCHEDULER in (gang.scheduling.scheduler_name, *(role.pod.scheduler_name for role in gang.roles))


@dataclass(frozen=True)
class CheckInput(DocumentInput):
    """The input of checks: the specs, including objects with errors, and their models.

    failed_objects: objects with errors, which must not be reported as missing. tree_problems: of the hypernode tree.
    schedulers: every scheduler configuration found; `specs` has the first. unbound_gangs: gangs whose pods the plan
    binds to no node; `specs` has the others. privileged: the privileged containers of all documents. listed_resources:
    the resources that they list with amounts. dated_fields: their fields that only some releases of Volcano read.
    inner_jobs: jobs that controllers create from a part of an object. session: results shared by checks.
    """

    specs: Specs
    models: tuple[ReadModel[Any], ...] = ()
    failed_objects: frozenset[ObjectIdentity] = frozenset()
    tree_problems: tuple[TreeProblem, ...] = ()
    bare_pods: tuple[PodDraft, ...] = ()
    schedulers: tuple[SchedulerSpec, ...] = ()
    unbound_gangs: tuple[GangSpec, ...] = ()
    privileged: tuple[PrivilegedContainers, ...] = ()
    listed_resources: tuple[ListedResources, ...] = ()
    dated_fields: tuple[DatedFields, ...] = ()
    inner_jobs: tuple[InnerJob, ...] = ()
    session: Session = field(default_factory=Session, compare=False, repr=False)

    @cached_property
    def jobs(self) -> tuple[GangSpec, ...]:
        """Return the jobs that documents describe: planned ones, and jobs that controllers create from a part of an
        object."""
        inner = {job.gang.document.identity for job in self.inner_jobs}
        written = (gang for gang in self.specs.gangs if _template_identity(gang) not in inner)
        return (*written, *(job.gang for job in self.inner_jobs))

    @cached_property
    def volcano_jobs(self) -> tuple[GangSpec, ...]:
        """The jobs without those inside other objects that do not name Volcano."""
        others = {id(job.gang) for job in self.inner_jobs if not _names_volcano(job.gang)}
        return tuple(gang for gang in self.jobs if id(gang) not in others)

    @cached_property
    def other_gangs(self) -> tuple[GangSpec, ...]:
        """Return the objects with pods that no plan binds, without those whose inner job is among the jobs."""
        known = {inner.gang.document.identity for inner in self.inner_jobs}
        return tuple(gang for gang in self.unbound_gangs if gang.document.identity not in known)

    @cached_property
    def jobs_and_services(self) -> tuple[GangSpec, ...]:
        """Return the jobs, and all other objects with pods that no plan binds."""
        return (*self.jobs, *self.other_gangs)

    def failed_names(self, key: str) -> set[str]:
        """Names of the objects of a kind ("Kind.group") that have errors."""
        return {name for kind, _, name in self.failed_objects if kind == key}


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation at `path` of `document`. see: a second location. severity: replaces the rule's own. cause: the object
    whose errors are behind it, by its display name. is_rejecting: an error of it keeps the document out of the plan.
    code: of a check with several codes, the one that is violated."""

    document: Document
    path: FieldPath
    message: str
    help: str
    see: tuple[Document, FieldPath] | None = None
    severity: Severity | None = None
    cause: str = ""
    is_rejecting: bool = True
    code: str = ""


CheckFunction = Callable[[Any], Iterator[Finding]]
"""Takes a `DocumentInput` where the check examines one document at a time, else a `CheckInput`."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule with the function that finds its violations. others: by code, where it finds those of several rules."""

    rule: Rule
    function: CheckFunction
    on_partial: bool = False
    of_document: bool = False
    others: Mapping[str, Rule] = field(default_factory=dict)

    def diagnostic(self, found: Finding) -> Diagnostic:
        """The finding at its position."""
        see = found.see[0].position(*found.see[1]) if found.see else None
        rule = self.others[found.code] if found.code else self.rule
        diagnostic = found.document.diagnostic(
            rule, found.path, found.message, found.help, see=see, severity=found.severity
        )
        return replace(diagnostic, cause=found.cause) if found.cause else diagnostic


_CHECKS: dict[str, Check] = {}


def check(
    code: str,
    title: str,
    severity: Severity = "error",
    *,
    folds: bool = False,
    on_partial: bool = False,
    of_document: bool = False,
) -> Callable[[CheckFunction], CheckFunction]:
    """Declare the decorated function as a check. on_partial: it also checks jobs with an error elsewhere. of_document:
    its findings on a document depend on that document alone."""

    def declare(function: CheckFunction) -> CheckFunction:
        rule = declare_rule(code, severity, (title, inspect.getdoc(function) or ""), folds=folds)
        _CHECKS[code] = Check(rule, function, on_partial, of_document)
        return function

    return declare


def checks(codes: Mapping[str, Severity]) -> Callable[[CheckFunction], CheckFunction]:
    """Declare the decorated function as a check of several codes, each with a title and text in
    compiler/diagnostics/rules.toml."""

    def declare(function: CheckFunction) -> CheckFunction:
        rules = {code: declare_rule(code, severity) for code, severity in codes.items()}
        first = min(rules)
        _CHECKS[first] = Check(rules[first], function, others=rules)
        return function

    return declare


def document_findings(models: Iterable[ReadModel[Any]]) -> list[tuple[Document, Diagnostic]]:
    """Return the findings of checks of one document, with the document."""
    examined = DocumentInput(models)
    checks = [check for check in all_checks() if check.of_document] if examined.models else []
    return [(found.document.written, check.diagnostic(found)) for check in checks for found in check.function(examined)]


@cache
def all_checks() -> tuple[Check, ...]:
    """All checks, sorted by code."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"compiler.checks.{module.name}")
    return tuple(_CHECKS[code] for code in sorted(_CHECKS))


RULE_MODULES = (
    "compiler.emit.manifest",
    "compiler.pipeline",
    "compiler.emit.static",
    "compiler.explain.caveats",
    "compiler.reading",
)
"""Modules, other than checks and kinds, whose import declares rules."""


def all_rules() -> Mapping[str, Rule]:
    """Every rule, sorted by code."""
    all_checks()
    tuple(kinds().values())  # imports each
    for module in RULE_MODULES:
        importlib.import_module(module)
    return dict(sorted(RULES.items()))
