"""Volcano's Job (batch.volcano.sh/v1alpha1), and its JobFlow and JobTemplate (flow.volcano.sh/v1alpha1): Jobs created
from templates, each after others.

A step is the Job `flow-template`, which the controller creates once all its dependencies are Completed. It is created
from the JobTemplate, so the gate is there. Volcano 1.15's controller reads neither probes nor patches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, Literal

from pydantic import Field

from compiler import kubernetes as k8s
from compiler.fields.models import Int, LenientModel, below
from compiler.fields.times import go_duration_seconds
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import NetworkTopology, job_times
from compiler.kinds.kind import Kind
from compiler.specs.drafts import JobFlowDraft, JobTemplateDraft
from compiler.specs.gang_spec import Controller, GangSpec, RoleSpec, Scheduling, SubgroupSpec, TopologySpec
from compiler.syntax.documents import Document
from compiler.volcano import metax


class Policy(LenientModel):
    event: str | None = None
    events: list[str] | None = None
    exit_code: Int | None = None
    action: str | None = None
    timeout: str | None = None


class PartitionPolicy(LenientModel):
    total_partitions: Int
    partition_size: Int
    min_partitions: Int | None = None
    network_topology: NetworkTopology | None = None


class Task(LenientModel):
    name: str | None = None
    replicas: Int | None = None
    min_available: Int | None = None
    template: pods.PodTemplate
    policies: list[Policy] | None = None
    topology_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] | None = None
    awaited: list[str] = Field([], validation_alias=below("dependsOn.name"))
    partition_policy: PartitionPolicy | None = None

    @property
    def minimum(self) -> int:
        """Volcano's admission default: minPartitions * partitionSize, else the replicas."""
        if self.min_available is not None:
            return self.min_available
        partitions = self.partition_policy
        if partitions is not None and partitions.min_partitions:
            return partitions.min_partitions * partitions.partition_size
        return self.replicas or 0

    @property
    def attainable_minimum(self) -> int:
        """Return the minimum, one above the replicas counting as these: that is an error of the task and not of the
        job."""
        return min(self.minimum, self.replicas or 0)


class Volume(LenientModel):
    mount_path: str | None = None
    volume_claim_name: str | None = None
    volume_claim: Any = None


class Spec(LenientModel):
    scheduler_name: str | None = None
    min_available: Int | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    running_estimate: str = ""
    network_topology: NetworkTopology | None = None
    plugins: dict[str, list[str] | None] | None = None
    policies: list[Policy] | None = None
    volumes: list[Volume] | None = None
    tasks: list[Task]

    @property
    def task_names(self) -> list[str]:
        """Of each task; one without a name is called by its place."""
        return [task.name or f"default{index}" for index, task in enumerate(self.tasks)]

    @property
    def minimum(self) -> int:
        """Volcano's admission default: the sum of the tasks' minima when it is 0 or missing."""
        return self.min_available or sum(task.attainable_minimum for task in self.tasks)

    @property
    def estimate(self) -> int | None:
        """runningEstimate in seconds."""
        return ceil(go_duration_seconds(self.running_estimate)) or None

    @property
    def ignores_role_minimums(self) -> bool:
        """Return whether Volcano's gang plugin ignores the roles' minima, since the job's minimum is below their
        sum."""
        return self.minimum < sum(task.attainable_minimum for task in self.tasks)

    @property
    def first_tasks(self) -> tuple[Task, ...]:
        """Return the tasks whose pods the controller makes at once; those of others it makes once tasks above them
        run."""
        return tuple(task for task in self.tasks if not task.awaited)


class VolcanoJob(LenientModel):
    spec: Spec


def specs(document: Document, job: VolcanoJob) -> Iterable[GangSpec]:
    spec = job.spec
    relaxed = spec.ignores_role_minimums
    common = {
        k8s.VOLCANO_JOB_NAME_LABEL: document.name,
        k8s.VOLCANO_JOB_NAMESPACE_LABEL: document.namespace or "default",
        k8s.QUEUE_NAME_LABEL: spec.queue or "default",
    }
    named = enumerate(zip(spec.task_names, spec.tasks, strict=True))
    roles = tuple(_task_role(name, task, index, relaxed, common) for index, (name, task) in named)
    late = tuple(role.name for role, task in zip(roles, spec.tasks, strict=True) if task.awaited)
    if relaxed and late:
        roles = _with_first_minima(roles, late, spec.minimum)
    if spec.volumes:
        roles = tuple(role.with_volumes() for role in roles)
    scheduler = spec.scheduler_name or k8s.VOLCANO_SCHEDULER
    times = job_times(document)
    yield GangSpec(
        document=document,
        queue=spec.queue or "",
        priority_class=spec.priority_class_name,
        minimum=spec.minimum,
        roles=roles,
        topology=spec.network_topology.to_spec() if spec.network_topology else None,
        subgroups=(*_partition_subgroups(spec), *metax.subgroups(roles)),
        times=times if times.expected_duration is not None else replace(times, expected_duration=spec.estimate),
        field_paths={
            "queue": ("spec", "queue"),
            "minimum": ("spec", "minAvailable"),
            "success": ("spec", "minSuccess"),
            "priority_class": ("spec", "priorityClassName"),
            "topology": ("spec", "networkTopology"),
            "scheduler": ("spec", "schedulerName"),
        },
        controller=Controller(dependent_roles=late),
        scheduling=Scheduling(schedulable=scheduler == k8s.VOLCANO_SCHEDULER, scheduler_name=scheduler),
    )


def _with_first_minima(roles: tuple[RoleSpec, ...], late: Collection[str], minimum: int) -> tuple[RoleSpec, ...]:
    """The job's minimum is one of the tasks that come first: of the only one, or of all of them with all their pods."""
    first = [role for role in roles if role.name not in late]
    if len(first) > 1 and sum(role.replicas for role in first) != minimum:
        return roles
    return tuple(replace(role, minimum=min(minimum, role.replicas)) if role in first else role for role in roles)


def _task_role(name: str, task: Task, index: int, relaxed: bool, labels: Mapping[str, str]) -> RoleSpec:
    """labels: what the job controller gives all pods of the job."""
    replicas = task.replicas or 0
    minimum = 0 if relaxed else min(task.minimum, replicas)
    role = pods.role_spec(
        name,
        replicas,
        minimum,
        task.template,
        ("spec", "tasks", index),
        controller_labels={**labels, k8s.TASK_LABEL: name},
    )
    role = replace(role, minimum_path=("spec", "tasks", index, "minAvailable"))
    if task.topology_policy in (None, "none"):
        return role
    return replace(role, pod=replace(role.pod, topology_policy=task.topology_policy))


def _partition_subgroups(spec: Spec) -> Iterator[SubgroupSpec]:
    for index, (name, task) in enumerate(zip(spec.task_names, spec.tasks, strict=True)):
        if (policy := task.partition_policy) is not None and policy.partition_size > 0:
            topology = policy.network_topology.to_spec() if policy.network_topology else TopologySpec("soft")
            path = ("spec", "tasks", index, "partitionPolicy")
            yield SubgroupSpec(name, (name,), policy.partition_size, policy.min_partitions or 0, topology, path)


text_diagnostics = partial(pods.job_diagnostics, ("spec.tasks[].template",))


class Flow(LenientModel):
    name: str
    awaited: list[str] = Field([], validation_alias=below("dependsOn.targets"))


class JobFlow(LenientModel):
    flows: list[Flow] = Field([], validation_alias=below("spec.flows"))


def _flow_specs(document: Document, flow: JobFlow) -> Iterable[JobFlowDraft]:
    yield JobFlowDraft(document, {step.name: tuple(step.awaited) for step in flow.flows})


def _template_specs(document: Document, template: VolcanoJob) -> Iterable[JobTemplateDraft]:
    data = {**document.data, "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    job = Document(document.file, document.line, document.text, data, document.positions, document.item_path)
    for gang in specs(job, template):
        yield JobTemplateDraft(document, gang)


KINDS = (
    Kind("Job", "batch.volcano.sh", ("v1alpha1",), VolcanoJob, specs, text_diagnostics),
    Kind("JobFlow", "flow.volcano.sh", ("v1alpha1",), JobFlow, _flow_specs),
    Kind("JobTemplate", "flow.volcano.sh", ("v1alpha1",), VolcanoJob, _template_specs, text_diagnostics),
)
