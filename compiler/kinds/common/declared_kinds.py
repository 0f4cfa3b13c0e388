"""Kinds that gangplan has never heard of, as `Cluster.spec.jobKinds` declares them: paths to what a plan needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import NOT_ALLOWED, Name, StrictModel
from compiler.kinds.common.job_kinds import Count, JobKind, RolePaths, job_model
from compiler.kinds.common.paths import EACH_ENTRY, EACH_ITEM, Path, parse_path
from compiler.kinds.registry import kinds
from compiler.syntax.documents import Document, FieldPath

PATH_HELP = "write fields with dots, [] for each item of a list, {} for each entry of a mapping: spec.groups[].template"


def _require_path(text: str) -> str:
    try:
        parse_path(text)
    except ValueError as problem:
        raise PydanticCustomError(NOT_ALLOWED.code, "{message}", {"message": str(problem), "help": PATH_HELP}) from None
    return text


FieldPathText = Annotated[str, AfterValidator(_require_path)]


class Role(StrictModel):
    template: FieldPathText = Field(description="Path of the pod template, e.g. spec.groups[].template.")
    name: Name | None = Field(None, description="Name of the role; else the key or number of the template.")
    name_path: FieldPathText | None = Field(None, description="Path of the role's name.")
    replicas: FieldPathText | None = Field(None, description="Path of the number of pods; 1 where there is none.")
    minimum: FieldPathText | None = Field(None, description="Path of the pods that must start; else all.")


class DeclaredKind(StrictModel):
    """One entry of Cluster.spec.jobKinds."""

    api_version: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[a-z0-9]+$")] = Field(
        description="Group and version, e.g. example.org/v1."
    )
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$")]
    roles: list[Role] = Field(min_length=1)
    starts: Literal["whole", "minimum", "one-by-one"] = Field(
        "whole", description="All pods together, the roles' minima, or each pod as there is room."
    )
    minimum: FieldPathText | None = Field(None, description="Path of the pods of the whole job that must start.")
    queue: FieldPathText | None = Field(None, description="Path of the queue's name, also metadata.labels['...'].")
    priority: FieldPathText | None = Field(None, description="Path of the name of the priority class.")
    suspend: FieldPathText | None = Field(None, description="Path of the switch that keeps the job's pods away.")
    scheduler_name: FieldPathText | None = Field(None, description="Path of the name of the scheduler.")
    sets_volcano: bool = Field(False, description="Its controller writes schedulerName: volcano into the pods.")
    pod_owners: list[str] = Field(
        default_factory=list, description="Kind.group of objects between the job and its pods, e.g. ReplicaSet.apps."
    )
    runs: Literal["once", "forever"] = Field(
        "once", description="once: a job that ends; it never runs again by itself. forever: a service."
    )


def job_table(declared: DeclaredKind) -> JobKind:
    """The table of a declared kind."""
    group, _, version = declared.api_version.partition("/")
    gang: Literal["all", "roles", "one"] = "all"
    if declared.starts != "whole":
        gang = "roles" if declared.starts == "minimum" else "one"
    return JobKind(
        declared.kind,
        group,
        (version,),
        tuple(
            RolePaths(
                role.template,
                role.name or "",
                role.name_path or "",
                replicas=_counts(role.replicas),
                minimum=_counts(role.minimum) or _counts(role.replicas),
                is_optional=True,
            )
            for role in declared.roles
        ),
        gang=gang,
        minimum=declared.minimum or "",
        queue=_paths(declared.queue),
        priority=_paths(declared.priority),
        suspend=_paths(declared.suspend),
        scheduler=declared.scheduler_name or "",
        is_volcano_default=declared.sets_volcano,
        pod_owners=tuple(declared.pod_owners),
        runs_once=declared.runs == "once",
    )


def _counts(path: str | None) -> tuple[Count, ...]:
    return (Count(path),) if path else ()


def _paths(path: str | None) -> tuple[str, ...]:
    return (path,) if path else ()


def declared_kind_diagnostics(document: Document, declared: Sequence[DeclaredKind]) -> Iterator[Diagnostic]:
    """What is wrong with the declarations of a Cluster beyond the shape of each field."""
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(declared):
        at: FieldPath = ("spec", "jobKinds", index)
        identity = (each.kind, each.api_version.partition("/")[0])
        if identity in seen:
            message = f"{each.kind} of {identity[1]} is declared already"
            yield document.diagnostic(NOT_ALLOWED, (*at, "kind"), message, "declare a kind once")
        if ".".join(identity) in kinds():
            message = f"{each.kind} of {identity[1]} is planned without a declaration"
            yield document.diagnostic(NOT_ALLOWED, (*at, "kind"), message, "remove the entry")
        seen.add(identity)
        problems = list(_role_diagnostics(document, each, at))
        yield from problems
        if not problems:
            try:
                job_model(job_table(each))
            except ValueError as problem:
                yield document.diagnostic(NOT_ALLOWED, (*at, "roles"), str(problem), PATH_HELP)


def _role_diagnostics(document: Document, declared: DeclaredKind, at: FieldPath) -> Iterator[Diagnostic]:
    """A number or name beside a template is found by the items that lead to the template, so it has no others."""
    for index, role in enumerate(declared.roles):
        template = _choices(parse_path(role.template))
        beside = {"replicas": role.replicas, "minimum": role.minimum, "namePath": role.name_path}
        for key, path in beside.items():
            if path and _choices(parse_path(path)) != template[: len(_choices(parse_path(path)))]:
                message = f"{path} has an item or entry that {role.template} does not have"
                help = "lead to the same item as the template does"
                yield document.diagnostic(NOT_ALLOWED, (*at, "roles", index, key), message, help)
    for key, path in (
        ("minimum", declared.minimum),
        ("queue", declared.queue),
        ("priority", declared.priority),
        ("suspend", declared.suspend),
        ("schedulerName", declared.scheduler_name),
    ):
        if path and _choices(parse_path(path)):
            message = f"{path} may lead to several fields; a job has one {key}"
            yield document.diagnostic(NOT_ALLOWED, (*at, key), message, "write a path without [] and {}")


def _choices(path: Path) -> tuple[Path, ...]:
    """What leads to each [] and {} of a path, in order."""
    return tuple(path[: at + 1] for at, step in enumerate(path) if step in (EACH_ITEM, EACH_ENTRY))
