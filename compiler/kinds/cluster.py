"""gangplan's Cluster: how to plan for one cluster.

`spec.jobKinds` declares kinds that gangplan has never heard of: paths to what a plan needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import NOT_ALLOWED, Bool, Name, OwnModel, Seconds
from compiler.fields.texts import dotted_path
from compiler.kinds.common.job_kinds import Count, JobKind, RolePaths, job_schema
from compiler.kinds.common.jobs import Natural, OwnObject
from compiler.kinds.kind import Kind, kinds
from compiler.kinds.scheduler_configuration import CustomPlugin
from compiler.openapi.schemas import model_schema
from compiler.openapi.shape import Flaw
from compiler.repository.paths import path_patterns
from compiler.specs.cluster_spec import (
    FIRST_RELEASE,
    KNOWN_MINORS,
    ClusterSpec,
    QuotaOrder,
    ServiceBinding,
    VolcanoVersion,
)
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import EACH_ENTRY, EACH_ITEM, Path, parse_path

PATH_HELP = "write fields with dots, [] for each item of a list, {} for each entry of a mapping: spec.groups[].template"


class Role(OwnModel):
    template: str = Field(description="Path of the pod template, e.g. spec.groups[].template.")
    name: Name | None = Field(None, description="Name of the role; else the key or number of the template.")
    name_path: str | None = Field(None, description="Path of the role's name.")
    replicas: str | None = Field(None, description="Path of the number of pods; 1 where there is none.")
    minimum: str | None = Field(None, description="Path of the pods that must start; else all.")


class DeclaredKind(OwnModel):
    """One entry of Cluster.spec.jobKinds."""

    api_version: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[a-z0-9]+$")] = Field(
        description="Group and version, e.g. example.org/v1."
    )
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$")]
    roles: list[Role] = Field(min_length=1)
    starts: Literal["whole", "minimum", "one-by-one"] = Field(
        "whole", description="All pods together, the roles' minima, or each pod as there is room."
    )
    minimum: str | None = Field(None, description="Path of the pods of the whole job that must start.")
    queue: str | None = Field(None, description="Path of the queue's name, also metadata.labels['...'].")
    priority: str | None = Field(None, description="Path of the name of the priority class.")
    suspend: str | None = Field(None, description="Path of the switch that keeps the job's pods away.")
    scheduler_name: str | None = Field(None, description="Path of the name of the scheduler.")
    sets_volcano: bool = Field(False, description="Its controller writes schedulerName: volcano into the pods.")
    pod_owners: list[str] = Field(
        default_factory=list, description="Kind.group of objects between the job and its pods, e.g. ReplicaSet.apps."
    )
    runs: Literal["once", "forever"] = Field(
        "once", description="once: a job that ends; it never runs again by itself. forever: a service."
    )


def job_table(declared: DeclaredKind) -> JobKind:
    """Return the table of a declared kind."""
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


def declared_kind_flaws(declared: Sequence[DeclaredKind]) -> Iterator[Flaw]:
    """Yield the faults of a Cluster's declarations beyond the shape of each field."""
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(declared):
        at: FieldPath = ("spec", "jobKinds", index)
        identity = (each.kind, each.api_version.partition("/")[0])
        if identity in seen:
            message = f"{each.kind} of {identity[1]} is declared already"
            yield Flaw((*at, "kind"), NOT_ALLOWED, message, "declare a kind once")
        if ".".join(identity) in kinds():
            message = f"{each.kind} of {identity[1]} is planned without a declaration"
            yield Flaw((*at, "kind"), NOT_ALLOWED, message, "remove the entry")
        seen.add(identity)
        flaws = list(_path_flaws(each, at)) or list(_role_flaws(each, at))
        yield from flaws
        if not flaws:
            try:
                job_schema(job_table(each))
            except ValueError as problem:
                yield Flaw((*at, "roles"), NOT_ALLOWED, str(problem), PATH_HELP)


def _path_flaws(declared: DeclaredKind, at: FieldPath) -> Iterator[Flaw]:
    """Yield the invalid paths."""
    for index, role in enumerate(declared.roles):
        yield from _unreadable(role.model_dump(by_alias=True, exclude={"name"}), (*at, "roles", index))
    yield from _unreadable(_own_paths(declared), at)


def _unreadable(places: Mapping[str, str | None], at: FieldPath) -> Iterator[Flaw]:
    for key, path in places.items():
        try:
            parse_path(path or "spec")
        except ValueError as problem:
            yield Flaw((*at, key), NOT_ALLOWED, f"{dotted_path((*at, key))}: {problem}", PATH_HELP)


def _own_paths(declared: DeclaredKind) -> Mapping[str, str | None]:
    """Return the paths to what a job has one of."""
    return {
        "minimum": declared.minimum,
        "queue": declared.queue,
        "priority": declared.priority,
        "suspend": declared.suspend,
        "schedulerName": declared.scheduler_name,
    }


def _role_flaws(declared: DeclaredKind, at: FieldPath) -> Iterator[Flaw]:
    """A number or name next to a template is found by the items that lead to the template, so it has no others."""
    for index, role in enumerate(declared.roles):
        template = _choices(parse_path(role.template))
        paths = {"replicas": role.replicas, "minimum": role.minimum, "namePath": role.name_path}
        for key, path in paths.items():
            if path and _choices(parse_path(path)) != template[: len(_choices(parse_path(path)))]:
                message = f"{path} has an item or entry that {role.template} does not have"
                help = "lead to the same item as the template does"
                yield Flaw((*at, "roles", index, key), NOT_ALLOWED, message, help)
    for key, path in _own_paths(declared).items():
        if path and _choices(parse_path(path)):
            message = f"{path} may lead to several fields; a job has one {key}"
            yield Flaw((*at, key), NOT_ALLOWED, message, "write a path without [] and {}")


def _choices(path: Path) -> tuple[Path, ...]:
    """Return the part of a path up to each [] and {}, in order."""
    return tuple(path[: at + 1] for at, step in enumerate(path) if step in (EACH_ITEM, EACH_ENTRY))


_RELEASE = re.compile(rf"1\.({'|'.join(map(str, KNOWN_MINORS))})(?:\.(\d{{1,3}}))?", re.ASCII)


class Spec(OwnModel):
    binding: Literal["gated", "static"] = Field(
        "gated", description="gated: the reconciler lifts scheduling gates; static: node affinity in the templates."
    )
    default_queue: Name = Field("default", description="The queue that Volcano gives to jobs that name none.")
    gap: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="Relative gap at which an objective may stop; 0 asks for a proof."
    )
    time_limit: Seconds = Field(
        60, description="Seconds that a plan may take, reasons included, from the command's start: the last safety."
    )
    max_waiting_pods: Natural = Field(
        1000, description="Most pods of waiting gangs that are kept in the cluster, gated."
    )
    patience: Seconds = Field(
        86_400,
        description=(
            "How long a job waits before it goes before the others of its priority, "
            "with room held for it: seconds, or like 36h."
        ),
    )
    order: QuotaOrder = Field(
        "queues-first",
        description=(
            "queues-first: every queue gets its entitlement before any borrows, and priorities decide inside a queue; "
            "priorities-first: a higher priority goes first in whatever queue it waits."
        ),
    )
    unplanned: Literal["reserve", "ignore"] = Field(
        "ignore",
        description=(
            "Declared pods of kinds that are not planned: reserve keeps room for them, "
            "ignore counts only those that run."
        ),
    )
    services: ServiceBinding = Field(
        "devices",
        description=(
            "Which services (Deployments, StatefulSets, ReplicaSets, Pods alone) get their nodes from the plan. "
            "on-request: those that name Volcano, a queue or a gang; the others are not planned. "
            "devices: also those that ask for devices; the others have room in the plan and go where their scheduler "
            "puts them. all: all of them."
        ),
    )
    allow_privileged: Bool | None = Field(
        None,
        description=(
            "Whether the API server takes privileged containers (its flag --allow-privileged), as it does with "
            "kubeadm, kind, k3s and the managed services. false: each one is an error. Unset: they are planned, and "
            "one info counts them."
        ),
    )
    scheduler_plugins: list[CustomPlugin] | None = Field(
        None, description="Plugins of a vendor's build of Volcano's scheduler, with the types of their arguments."
    )
    scheduler_actions: list[str] | None = Field(None, description="Actions of such a build.")
    volcano: str | None = Field(
        None,
        description=(
            "Release of Volcano that the cluster runs: 1.15 or 1.16, or with its patch, like 1.15.2. Unset: the one "
            "that the scheduler's image in the cluster or the state names, else 1.15."
        ),
    )
    namespace_queues: Bool = Field(
        False, description="Whether Volcano runs with the feature gate NamespaceQueue (1.16)."
    )
    jobs: list[str] | None = Field(
        None,
        description=(
            "Which jobs are this cluster's where the repository holds several: paths in gitignore's syntax, "
            "like jobs/team-a/. Jobs in jobs/<cluster>/ are its own without it."
        ),
    )
    job_selector: LabelSelector | None = Field(
        None, description="Which jobs are this cluster's, by their labels; with jobs, both must hold."
    )
    job_kinds: list[DeclaredKind] = Field(
        default_factory=list, description="Kinds of jobs that gangplan does not know: where their pod templates lie."
    )


class Cluster(OwnObject):
    spec: Spec = Field(default_factory=lambda: Spec.model_validate({}))


def specs(document: Document, cluster: Cluster) -> Iterable[object]:
    """Yield the ClusterSpec, and a `JobKind` for each kind that it declares."""
    spec = cluster.spec
    limits = float(spec.gap), float(spec.time_limit), spec.max_waiting_pods, spec.patience, spec.order
    plugins = {plugin.name: dict(plugin.arguments or {}) for plugin in spec.scheduler_plugins or ()}
    yield ClusterSpec(
        document,
        document.name,
        spec.binding,
        spec.default_queue,
        *limits,
        spec.unplanned,
        spec.services,
        allow_privileged=spec.allow_privileged,
        scheduler_plugins=plugins,
        scheduler_actions=tuple(spec.scheduler_actions or ()),
        volcano=VolcanoVersion.of_text(spec.volcano) if spec.volcano else FIRST_RELEASE,
        names_volcano=spec.volcano is not None,
        namespace_queues=spec.namespace_queues,
    )
    yield from map(job_table, spec.job_kinds)


def flaws(cluster: Cluster) -> Iterator[Flaw]:
    """Patterns and releases that cannot be read, and declarations of kinds that contradict each other."""
    for number, pattern in enumerate(cluster.spec.jobs or ()):
        try:
            path_patterns([pattern])
        except ValueError:
            message = f"spec.jobs[{number}]: {pattern!r} is not a pattern"
            yield Flaw(("spec", "jobs", number), NOT_ALLOWED, message, "write it as in .gitignore, like jobs/team-a/")
    text = cluster.spec.volcano
    if text is not None and not _RELEASE.fullmatch(text):
        message = f"spec.volcano: {text!r} is not a release of Volcano that is known"
        yield Flaw(("spec", "volcano"), NOT_ALLOWED, message, 'write "1.15", "1.16" or "1.15.2"')
    yield from declared_kind_flaws(cluster.spec.job_kinds)


KIND = Kind(
    "Cluster", "gangplan.dev", ("v1alpha1",), Cluster, specs, schema=partial(model_schema, Cluster), flaws=flaws
)
