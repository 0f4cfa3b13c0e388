"""Bare Pod: part of a gang if it names a PodGroup; a gang of one if it names Volcano as its scheduler, which makes it a
PodGroup of minMember 1 then (pkg/controllers/podgroup); else passed through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.diagnostics import Diagnostic
from compiler.kinds import Kind
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import submission_and_duration, time_diagnostics
from compiler.kubernetes import GROUP_NAME_ANNOTATION, QUEUE_NAME_ANNOTATION, TASK_LABEL, VOLCANO_SCHEDULER
from compiler.specs import GangSpec, RoleSpec
from compiler.specs.drafts import PodDraft
from compiler.syntax.documents import Document


class Pod(pods.PodTemplate):
    """A pod has the shape of a template, and an apiVersion and a kind of its own."""


def specs(document: Document, pod: Pod) -> Iterable[PodDraft | GangSpec]:
    notes = pod.annotations
    group = notes.get(GROUP_NAME_ANNOTATION) or None
    if group is None and pod.spec.scheduler_name == VOLCANO_SCHEDULER:
        yield _lone_pod(document, pod)
        return
    yield PodDraft(
        document,
        group,
        notes.get(TASK_LABEL, ""),
        pods.pod_spec(pod.spec),
        notes,
        pod.labels,
    )


def _lone_pod(document: Document, pod: Pod) -> GangSpec:
    submitted, expected = submission_and_duration(document)
    role = RoleSpec("pod", 1, 1, pods.pod_spec(pod.spec), (), (), pod.annotations, labels=pod.labels)
    return GangSpec(
        document=document,
        queue=pod.annotations.get(QUEUE_NAME_ANNOTATION, ""),
        priority_class=pod.spec.priority_class_name,
        minimum=1,
        roles=(role,),
        submitted_at=submitted,
        expected_duration=expected,
        field_paths={
            "queue": ("metadata", "annotations", QUEUE_NAME_ANNOTATION),
            "minimum": ("spec",),
            "priority_class": ("spec", "priorityClassName"),
            "scheduler": ("spec", "schedulerName"),
        },
        scheduler_name=VOLCANO_SCHEDULER,
    )


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from time_diagnostics(document)
    yield from pods.template_diagnostics(document, document.data, ())


KIND = Kind("Pod", "", ("v1",), Pod, specs, text_diagnostics)
