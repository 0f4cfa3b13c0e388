"""gangplan's Cluster: how to plan for one cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import NOT_ALLOWED, Bool, Name, OwnModel, Seconds
from compiler.kinds.common.declared_kinds import DeclaredKind, declared_kind_flaws, job_table
from compiler.kinds.common.jobs import Natural, OwnObject
from compiler.kinds.kind import Kind
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
from compiler.syntax.documents import Document

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
