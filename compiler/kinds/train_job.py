"""Kubeflow's TrainJob with its runtimes (trainer.kubeflow.org/v1alpha1, trainer 2.1).

A TrainJob names a runtime, whose JobSet describes the pods; the TrainJob itself has the number of training nodes and
the requests of each. Each replicated Job is a role, all start together, and those that depend on others are placed as
they appear. For a runtime outside of the repository the trainer's own is used; without one of the name, the TrainJob is
not planned. The gate is written into podTemplateOverrides. A later trainer has runtimePatches in their place: a
TrainJob with those is planned, and not bound.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from pydantic import Field

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic, declare_rule, suggestion
from compiler.fields.models import Bool, LenientModel, Name, below
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import Natural, NetworkTopology, job_times, time_diagnostics
from compiler.kinds.common.pods import read_patch, with_patch
from compiler.kinds.kind import Kind
from compiler.specs.gang_spec import Controller, GangSpec, RoleSpec, Scheduling
from compiler.specs.services import unbound
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import found_paths, parse_path, value_at
from compiler.validation.judge import items, mapping
from compiler.volcano import metax

GROUP = "trainer.kubeflow.org"
TRAINER_VERSION = "2.1.0"
DEFAULT_RUNTIMES = tomllib.loads((files("compiler.kinds") / "default_runtimes.toml").read_text("utf-8"))
"""Name -> spec."""
POD_OWNERS = ("Job.batch", "JobSet.jobset.x-k8s.io")
_TEMPLATES = "spec.template.spec.replicatedJobs[].template.spec.template"
OVERRIDES_PATH = ("spec", "podTemplateOverrides")
DEFAULT_RUNTIME = declare_rule("GP224", "info")
UNUSED_SETTING = declare_rule("GP229", "warning")
NODE = "node"
"""Name of the container that trains, and of MPI's Job of nodes."""


class Spec(LenientModel):
    runtime: Name = Field(validation_alias=below("runtimeRef.name"))
    runtime_kind: str = Field("ClusterTrainingRuntime", validation_alias=below("runtimeRef.kind"))
    num_nodes: Natural | None = Field(None, validation_alias=below("trainer.numNodes"))
    resources_per_node: pods.ResourceRequirements | None = Field(
        None, validation_alias=below("trainer.resourcesPerNode")
    )
    annotations: dict[str, Any] | None = None
    suspend: Bool | None = None
    pod_template_overrides: list[Any] | None = None
    runtime_patches: list[Any] | None = None


class TrainJob(LenientModel):
    spec: Spec


class ReplicatedJob(LenientModel):
    name: Name
    replicas: Natural | None = None
    depends_on: list[Any] | None = None
    labels: dict[str, Any] = Field({}, validation_alias=below("template.metadata.labels"))
    parallelism: Natural | None = Field(None, validation_alias=below("template.spec.parallelism"))
    completions: Natural | None = Field(None, validation_alias=below("template.spec.completions"))
    template: pods.PodTemplate = Field(validation_alias=below("template.spec.template"))

    @property
    def is_trainer(self) -> bool:
        return self.labels.get(k8s.TRAIN_JOB_STEP_LABEL) == "trainer"


class RuntimeSpec(LenientModel):
    num_nodes: Natural | None = Field(None, validation_alias=below("mlPolicy.numNodes"))
    mpi: dict[str, Any] | None = Field(None, validation_alias=below("mlPolicy.mpi"))
    network_topology: NetworkTopology | None = Field(
        None, validation_alias=below("podGroupPolicy.volcano.networkTopology")
    )
    annotations: dict[str, Any] = Field({}, validation_alias=below("template.metadata.annotations"))
    replicated_jobs: list[ReplicatedJob] = Field([], validation_alias=below("template.spec.replicatedJobs"))

    @property
    def runs_launcher_as_node(self) -> bool:
        return self.mpi is not None and self.mpi.get("runLauncherAsNode") is True


class Runtime(LenientModel):
    spec: RuntimeSpec


@dataclass(frozen=True, slots=True)
class TrainJobDraft:
    """A TrainJob before its runtime is known."""

    document: Document
    spec: Spec


@dataclass(frozen=True, slots=True)
class RuntimeDraft:
    document: Document
    spec: RuntimeSpec


def default_runtime_gang(draft: TrainJobDraft) -> GangSpec | None:
    """Return the gang of a TrainJob with the runtime that the trainer brings; None where it brings none of the name."""
    wanted = draft.spec
    found = DEFAULT_RUNTIMES.get(wanted.runtime) if wanted.runtime_kind == "ClusterTrainingRuntime" else None
    return None if found is None else _gang(draft, RuntimeSpec.model_validate(found))


def unused_settings(draft: TrainJobDraft, runtimes: Iterable[RuntimeDraft]) -> Iterator[Diagnostic]:
    """Yield the settings of a TrainJob for its nodes that its runtime, if it is among these, does not use."""
    runtime = _runtime(draft, runtimes)
    spec = draft.spec
    if runtime is None or any(job.is_trainer for job in runtime.replicated_jobs):
        return
    has_mpi_node = runtime.mpi is not None and any(job.name == NODE for job in runtime.replicated_jobs)
    unused = ["numNodes"] if spec.num_nodes is not None and not has_mpi_node else []
    if spec.resources_per_node is not None and not (has_mpi_node and runtime.runs_launcher_as_node):
        unused.append("resourcesPerNode")
    if unused:
        message = f"runtime {draft.spec.runtime} has no trainer step, so it ignores {' and '.join(unused)}"
        help = f"label its replicated Job {k8s.TRAIN_JOB_STEP_LABEL}: trainer"
        yield draft.document.diagnostic(UNUSED_SETTING, ("spec", "trainer", unused[0]), message, help)


def default_runtime_diagnostic(draft: TrainJobDraft) -> Diagnostic:
    name = draft.spec.runtime
    message = f"runtime {name} is not here, and is taken as trainer {TRAINER_VERSION} brings it"
    help = "add it where the cluster has another one of this name"
    return draft.document.diagnostic(DEFAULT_RUNTIME, ("spec", "runtimeRef"), message, help)


WHY = "a trainer with runtimePatches reads no podTemplateOverrides, into which the gate goes"


def missing_runtime_help(draft: TrainJobDraft, runtimes: Iterable[RuntimeDraft]) -> str:
    """Return the fix for a TrainJob whose runtime is unknown."""
    known = (*DEFAULT_RUNTIMES, *(each.document.name for each in runtimes))
    return suggestion(draft.spec.runtime, known, "add the runtime that it names")


def train_job_gang(draft: TrainJobDraft, runtimes: Iterable[RuntimeDraft]) -> GangSpec | None:
    """Return the gang of a TrainJob, None where its runtime is not among these: a ClusterTrainingRuntime, or a
    TrainingRuntime of its namespace."""
    runtime = _runtime(draft, runtimes)
    return None if runtime is None else _gang(draft, runtime)


def _runtime(draft: TrainJobDraft, runtimes: Iterable[RuntimeDraft]) -> RuntimeSpec | None:
    wanted = draft.spec
    found = (
        each.spec for each in runtimes if _is_meant(draft.document, wanted.runtime_kind, wanted.runtime, each.document)
    )
    return next(found, None)


def _is_meant(job: Document, kind: str, name: str, runtime: Document) -> bool:
    """Return whether a TrainJob that names a runtime of this kind and name means this one."""
    if (runtime.kind, runtime.name) != (kind, name):
        return False
    return kind != "TrainingRuntime" or (runtime.namespace or "default") == (job.namespace or "default")


def runtime_templates(job: Document, documents: Iterable[Document]) -> list[Any]:
    """Return the pod templates, as written, of the runtime that a TrainJob names: one of these documents, else the
    trainer's own."""
    name = value_at(job.data, parse_path("spec.runtimeRef.name"))
    kind = value_at(job.data, parse_path("spec.runtimeRef.kind")) or "ClusterTrainingRuntime"
    data: Any = {"spec": DEFAULT_RUNTIMES.get(name, {}) if isinstance(name, str) else {}}
    for runtime in documents:
        if runtime.group == GROUP and _is_meant(job, kind, name, runtime):
            data = runtime.data
            break
    return [value_at(data, path) for path in found_paths(data, parse_path(_TEMPLATES))]


def _gang(draft: TrainJobDraft, runtime: RuntimeSpec) -> GangSpec:
    document, spec = draft.document, draft.spec
    replicated = runtime.replicated_jobs
    before = len(spec.pod_template_overrides or ())
    roles = tuple(_role(draft, runtime, job, before + at) for at, job in enumerate(replicated))
    priorities = [job.template.spec.priority_class_name for job in replicated]
    queue_path: FieldPath = ("spec", "annotations", k8s.QUEUE_NAME_ANNOTATION)
    gang = GangSpec(
        document=document,
        queue=_queue(spec, runtime),
        priority_class=next(filter(None, reversed(priorities)), None),
        minimum=sum(role.replicas for role in roles),
        roles=roles,
        topology=runtime.network_topology.to_spec() if runtime.network_topology else None,
        subgroups=metax.subgroups(roles),
        times=job_times(document),
        field_paths={
            "queue": queue_path,
            "minimum": ("spec", "trainer", "numNodes"),
            "priority_class": ("spec", "runtimeRef"),
            "topology": ("spec", "runtimeRef"),
            "runtime": ("spec", "runtimeRef"),
        },
        controller=Controller(
            pod_owners=POD_OWNERS,
            marks_pods=True,
            dependent_roles=tuple(job.name for job in replicated if job.depends_on),
        ),
        scheduling=Scheduling(
            schedulable=not spec.suspend
            and all(role.pod.scheduler_name in ("", k8s.VOLCANO_SCHEDULER) for role in roles)
        ),
    )
    return unbound(gang) if spec.runtime_patches else gang


def _queue(spec: Spec, runtime: RuntimeSpec) -> str:
    """Return the queue; the TrainJob's annotation precedes the runtime's."""
    notes = runtime.annotations | (spec.annotations or {})
    return str(notes.get(k8s.QUEUE_NAME_ANNOTATION) or "")


def _role(draft: TrainJobDraft, runtime: RuntimeSpec, job: ReplicatedJob, number: int) -> RoleSpec:
    spec, template = draft.spec, job.template
    replicas = _replicas(job, runtime, spec.num_nodes)
    trains = job.is_trainer or (runtime.runs_launcher_as_node and job.name == NODE)
    if spec.resources_per_node is not None and trains:
        template = _with_resources(template, spec.resources_per_node)
    for written in _patches(draft.document, job.name):
        template = _with_patch(template, written)
    labels = {k8s.JOB_SET_LABEL: draft.document.name, k8s.JOB_SET_JOB_LABEL: job.name}
    path: FieldPath = ("spec", "trainer")
    role = pods.role_spec(job.name, replicas, replicas, template, path, controller_labels=labels)
    override = {"targetJobs": [{"name": job.name}], "spec": {}}
    later = 0 if trains else max((job.completions or 0) - (job.parallelism or 1), 0)
    return replace(role, template_path=(*OVERRIDES_PATH, number), new_template=override, later_pods=later)


def _replicas(job: ReplicatedJob, runtime: RuntimeSpec, num_nodes: int | None) -> int:
    """Return the pods of a replicated Job. num_nodes: of the TrainJob, which precedes the runtime's. With MPI the nodes
    are a Job next to the launcher's, which may count as one of them."""
    if num_nodes is not None and runtime.mpi is not None and job.name == NODE:
        return max(num_nodes - 1, 1) if runtime.runs_launcher_as_node else num_nodes
    if job.is_trainer:
        nodes = num_nodes if runtime.mpi is None else None
        return next((count for count in (nodes, runtime.num_nodes) if count is not None), 1)
    return (1 if job.replicas is None else job.replicas) * (job.parallelism or 1)


def _with_resources(template: pods.PodTemplate, resources: pods.ResourceRequirements) -> pods.PodTemplate:
    containers = [
        container.model_copy(update={"resources": resources}) if container.name == NODE else container
        for container in template.spec.containers
    ]
    return template.model_copy(update={"spec": template.spec.model_copy(update={"containers": containers})})


def _patches(document: Document, job: str) -> Iterator[Mapping[str, Any]]:
    """Yield the TrainJob's overrides of a replicated Job's pod template, in order."""
    spec = mapping(document.data, "spec")
    for _, override in items(spec, "podTemplateOverrides"):
        if job in [target.get("name") for _, target in items(override, "targetJobs")]:
            yield override
    for _, patch in items(spec, "runtimePatches"):
        for _, each in items(mapping(patch, "trainingRuntimeSpec", "template", "spec"), "replicatedJobs"):
            if each.get("name") == job:
                yield mapping(each, "template", "spec", "template")


def _with_patch(template: pods.PodTemplate, written: Mapping[str, Any]) -> pods.PodTemplate:
    more = {key: mapping(written, "metadata", key) for key in ("labels", "annotations")}
    have = template.metadata or pods.TemplateMetadata()
    metadata = have.model_copy(update={key: {**(getattr(have, key) or {}), **new} for key, new in more.items()})
    patch = read_patch(mapping(written, "spec"))
    spec = template.spec if patch is None else with_patch(template.spec, patch)
    return template.model_copy(update={"metadata": metadata, "spec": spec})


def _drafts(document: Document, job: TrainJob) -> Sequence[TrainJobDraft]:
    return (TrainJobDraft(document, job.spec),)


def _runtimes(document: Document, runtime: Runtime) -> Sequence[RuntimeDraft]:
    return (RuntimeDraft(document, runtime.spec),)


def _template_diagnostics(document: Document) -> Iterator[Diagnostic]:
    for path in found_paths(document.data, parse_path(_TEMPLATES)):
        yield from pods.template_diagnostics(document, value_at(document.data, path), path)


def _runtime_kind(name: str) -> Kind:
    kind = Kind(name, GROUP, ("v1alpha1",), Runtime, _runtimes, _template_diagnostics)
    return replace(kind, is_foreign=True)


KINDS = (
    Kind("TrainJob", GROUP, ("v1alpha1",), TrainJob, _drafts, time_diagnostics, is_foreign=True),
    _runtime_kind("ClusterTrainingRuntime"),
    _runtime_kind("TrainingRuntime"),
)
