"""Kubeflow's PyTorchJob (kubeflow.org/v1), as training-operator 1.9 hands it to Volcano."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import Field

from compiler.diagnostics import Diagnostic
from compiler.fields.models import Bool, Int, Name, StrictModel
from compiler.kinds import Kind
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import (
    Natural,
    ObjectModel,
    submission_and_duration,
    time_diagnostics,
)
from compiler.kinds.common.pods import ResourceAmounts
from compiler.kubernetes import (
    KUBEFLOW_JOB_NAME_LABEL,
    KUBEFLOW_JOB_ROLE_LABEL,
    KUBEFLOW_OPERATOR_LABEL,
    KUBEFLOW_ROLE_LABEL,
    VOLCANO_SCHEDULER,
)
from compiler.specs import GangSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.volcano import metax

REPLICAS_PATH = ("spec", "pytorchReplicaSpecs")
SCHEDULING_POLICY_PATH = ("spec", "runPolicy", "schedulingPolicy")


class Replica(StrictModel):
    replicas: Natural | None = None
    template: pods.PodTemplate
    restart_policy: str | None = None

    @property
    def count(self) -> int:
        return 1 if self.replicas is None else self.replicas


class ReplicaSpecs(StrictModel):
    master: Replica | None = Field(None, alias="Master")
    worker: Replica | None = Field(None, alias="Worker")


class SchedulingPolicy(StrictModel):
    min_available: Natural | None = None
    queue: Name | None = None
    min_resources: ResourceAmounts | None = None
    priority_class: Name | None = None
    schedule_timeout_seconds: Int | None = None


class RunPolicy(StrictModel):
    clean_pod_policy: str | None = None
    ttl_seconds_after_finished: Int | None = None
    active_deadline_seconds: Int | None = None
    backoff_limit: Int | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: Bool | None = None
    managed_by: str | None = None


class Spec(StrictModel):
    run_policy: RunPolicy | None = None
    elastic_policy: dict[str, Any] | None = None
    pytorch_replica_specs: ReplicaSpecs
    nproc_per_node: str | Int | None = None


class PyTorchJob(ObjectModel):
    spec: Spec


def specs(document: Document, job: PyTorchJob) -> Iterable[GangSpec]:
    """The operator's PodGroup has minMember (minAvailable, else all replicas) and no minimum per role."""
    run = job.spec.run_policy or RunPolicy()
    policy = run.scheduling_policy or SchedulingPolicy()
    replicas = job.spec.pytorch_replica_specs
    parts = [
        (name, part) for name, part in (("Master", replicas.master), ("Worker", replicas.worker)) if part is not None
    ]
    total = sum(part.count for _, part in parts)
    minimum = total if policy.min_available is None else policy.min_available
    needs_all = minimum >= total
    common = {
        KUBEFLOW_JOB_NAME_LABEL: document.name,
        KUBEFLOW_OPERATOR_LABEL: "pytorchjob-controller",
    }
    leading = {KUBEFLOW_JOB_ROLE_LABEL: "master"}
    roles = tuple(
        pods.role_spec(
            name,
            part.count,
            part.count if needs_all else 0,
            part.template,
            (*REPLICAS_PATH, name),
            controller_labels={
                **common,
                KUBEFLOW_ROLE_LABEL: name.lower(),
                **(leading if name == "Master" else {}),
            },
        )
        for name, part in parts
    )
    submitted, expected = submission_and_duration(document)
    from_template = next(
        (
            (name, part.template.spec.priority_class_name)
            for name, part in parts
            if part.template.spec.priority_class_name
        ),
        None,
    )
    priority_path: FieldPath = (*SCHEDULING_POLICY_PATH, "priorityClass")
    if not policy.priority_class and from_template:
        priority_path = (*REPLICAS_PATH, from_template[0], "template", "spec", "priorityClassName")
    yield GangSpec(
        document=document,
        queue=policy.queue or "",
        priority_class=policy.priority_class or (from_template[1] if from_template else None),
        minimum=minimum,
        roles=roles,
        subgroups=metax.subgroups(roles),
        submitted_at=submitted,
        expected_duration=expected,
        schedulable=not run.suspend and all(role.pod.scheduler_name in ("", VOLCANO_SCHEDULER) for role in roles),
        field_paths={
            "queue": (*SCHEDULING_POLICY_PATH, "queue"),
            "minimum": (*SCHEDULING_POLICY_PATH, "minAvailable"),
            "priority_class": priority_path,
        },
    )


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from time_diagnostics(document)
    found: Any = document.data
    for key in REPLICAS_PATH:
        found = found.get(key) if isinstance(found, dict) else None
    for name, part in found.items() if isinstance(found, dict) else ():
        template = part.get("template") if isinstance(part, dict) else None
        if isinstance(template, dict):
            yield from pods.template_diagnostics(document, template, (*REPLICAS_PATH, name, "template"))


KIND = Kind("PyTorchJob", "kubeflow.org", ("v1",), PyTorchJob, specs, text_diagnostics)
