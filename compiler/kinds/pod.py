"""Bare Pod: part of a gang if it names a PodGroup; else a service of one pod, for which Volcano makes a PodGroup of
minMember 1 (pkg/controllers/podgroup) where it is the pod's scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import job_times, time_diagnostics
from compiler.kinds.kind import Kind
from compiler.kubernetes import GROUP_NAME_ANNOTATION, QUEUE_NAME_ANNOTATION, TASK_LABEL, VOLCANO_SCHEDULER
from compiler.specs.drafts import PodDraft
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.services import ServiceDraft
from compiler.syntax.documents import Document


class Pod(pods.PodTemplate):
    """A pod has the shape of a template, and an apiVersion and a kind of its own."""


def specs(document: Document, pod: Pod) -> Iterable[PodDraft | ServiceDraft]:
    notes = pod.annotations
    if group := notes.get(GROUP_NAME_ANNOTATION):
        role = notes.get(TASK_LABEL) or pod.labels.get(TASK_LABEL, "")
        yield PodDraft(document, group, role, pods.annotated_pod_spec(pod.spec, notes), notes, pod.labels)
        return
    gang = _lone_pod(document, pod)
    yield ServiceDraft(gang, bool(gang.queue) or pod.spec.scheduler_name == VOLCANO_SCHEDULER)


def _lone_pod(document: Document, pod: Pod) -> GangSpec:
    spec = pods.annotated_pod_spec(pod.spec, pod.annotations)
    role = RoleSpec("pod", 1, 1, spec, (), (), pod.annotations, labels=pod.labels)
    return GangSpec(
        document=document,
        queue=pod.annotations.get(QUEUE_NAME_ANNOTATION, ""),
        priority_class=pod.spec.priority_class_name,
        minimum=1,
        roles=(role,),
        times=job_times(document),
        field_paths={
            "queue": ("metadata", "annotations", QUEUE_NAME_ANNOTATION),
            "minimum": ("spec",),
            "priority_class": ("spec", "priorityClassName"),
            "scheduler": ("spec", "schedulerName"),
        },
    )


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from time_diagnostics(document)
    yield from pods.template_diagnostics(document, document.data, ())


KIND = Kind("Pod", "", ("v1",), Pod, specs, text_diagnostics)
