"""Kubernetes' Job (batch/v1).

Its pods start one by one: the gang's minimum is 1, and it grows up to its parallelism. It is a gang only by the
annotation `gangplan.dev/gang: "true"` on the Job (all pods or none), or by Volcano's
`scheduling.volcano.sh/group-min-member` on the Job, where Volcano reads it, else on the pod template. The queue is the
annotation `scheduling.volcano.sh/queue-name` of the pod template, else of the Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import NOT_ALLOWED, Bool, Int, LenientModel
from compiler.fields.texts import whole_number
from compiler.kinds.common import pods
from compiler.kinds.common.annotated import is_gang, with_annotated_topology
from compiler.kinds.common.jobs import annotation_value, job_times, time_diagnostics
from compiler.kinds.kind import Kind
from compiler.specs.gang_spec import GangSpec, Scheduling
from compiler.syntax.documents import Document, FieldPath
from compiler.volcano import metax

_TEMPLATE_ANNOTATIONS: FieldPath = ("spec", "template", "metadata", "annotations")


class Spec(LenientModel):
    parallelism: Int | None = None
    completions: Int | None = None
    suspend: Bool | None = None
    template: pods.PodTemplate


class Job(LenientModel):
    spec: Spec


def specs(document: Document, job: Job) -> Iterable[GangSpec]:
    spec = job.spec
    notes = spec.template.annotations
    width = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        width = min(width, spec.completions)
    of_job = annotation_value(document, k8s.GROUP_MIN_MEMBER_ANNOTATION)
    stated = whole_number(str(of_job or notes.get(k8s.GROUP_MIN_MEMBER_ANNOTATION, "")))
    minimum = width if is_gang(document) else min(1, width) if stated is None else stated
    role = pods.role_spec(
        "pods",
        width,
        min(minimum, width),
        spec.template,
        ("spec",),
        controller_labels=dict.fromkeys(k8s.BATCH_JOB_NAME_LABELS, document.name),
    )
    roles = (replace(role, later_pods=0 if spec.completions is None else spec.completions - width),)
    by_job = annotation_value(document, k8s.QUEUE_NAME_ANNOTATION)
    queue_path: FieldPath = (
        (*_TEMPLATE_ANNOTATIONS, k8s.QUEUE_NAME_ANNOTATION)
        if k8s.QUEUE_NAME_ANNOTATION in notes
        else ("metadata", "annotations", k8s.QUEUE_NAME_ANNOTATION)
    )
    gang = GangSpec(
        document=document,
        queue=notes.get(k8s.QUEUE_NAME_ANNOTATION) or (by_job if isinstance(by_job, str) and by_job else ""),
        priority_class=spec.template.spec.priority_class_name,
        minimum=minimum,
        roles=roles,
        subgroups=metax.subgroups(roles),
        times=job_times(document),
        field_paths={
            "queue": queue_path,
            "minimum": _minimum_path(
                is_of_job=of_job is not None, is_of_template=k8s.GROUP_MIN_MEMBER_ANNOTATION in notes
            ),
            "priority_class": ("spec", "template", "spec", "priorityClassName"),
        },
        scheduling=Scheduling(
            schedulable=not spec.suspend and roles[0].pod.scheduler_name in ("", k8s.VOLCANO_SCHEDULER)
        ),
    )
    yield with_annotated_topology(gang, is_one_group=True)


def _minimum_path(*, is_of_job: bool, is_of_template: bool) -> FieldPath:
    if is_of_job:
        return ("metadata", "annotations", k8s.GROUP_MIN_MEMBER_ANNOTATION)
    return (*_TEMPLATE_ANNOTATIONS, k8s.GROUP_MIN_MEMBER_ANNOTATION) if is_of_template else ("spec", "parallelism")


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from time_diagnostics(document)
    if (value := annotation_value(document, k8s.GANG_ANNOTATION)) not in (None, "true", "false"):
        message = f"{k8s.GANG_ANNOTATION} is {value!r}"
        help = 'write "true" or "false", quoted'
        yield document.diagnostic(NOT_ALLOWED, ("metadata", "annotations", k8s.GANG_ANNOTATION), message, help)
    spec = document.data.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if isinstance(template, dict):
        yield from pods.template_diagnostics(document, template, ("spec", "template"))


KIND = Kind("Job", "batch", ("v1",), Job, specs, text_diagnostics)
