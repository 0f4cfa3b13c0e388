"""Bare Pod: part of a gang if it names a PodGroup, else passed through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.diagnostics import Diagnostic
from compiler.kinds import Kind
from compiler.kinds.common import pods
from compiler.kubernetes import GROUP_NAME_ANNOTATION, TASK_LABEL
from compiler.specs.drafts import PodDraft
from compiler.syntax.documents import Document


class Pod(pods.PodTemplate):
    """A pod has the shape of a template, and an apiVersion and a kind of its own."""


def specs(document: Document, pod: Pod) -> Iterable[PodDraft]:
    notes = pod.annotations
    yield PodDraft(
        document,
        notes.get(GROUP_NAME_ANNOTATION) or None,
        notes.get(TASK_LABEL, ""),
        pods.pod_spec(pod.spec),
        notes,
        pod.labels,
    )


def text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from pods.template_diagnostics(document, document.data, ())


KIND = Kind("Pod", "", ("v1",), Pod, specs, text_diagnostics)
