"""Kubernetes' Job (batch/v1).

Its pods start one by one: the gang's minimum is 1, and it grows up to its parallelism. It is a gang only by the
annotation `gangplan.dev/gang: "true"` on the Job (all pods or none), or by Volcano's
`scheduling.volcano.sh/group-min-member` on the Job, where Volcano reads it, else on the pod template. The queue is the
annotation `scheduling.volcano.sh/queue-name` of the pod template, else of the Job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import NOT_ALLOWED
from compiler.fields.texts import whole_number
from compiler.kinds.common.job_kinds import job_kind, job_row, text_diagnostics_of
from compiler.kinds.common.jobs import annotation_value, is_gang, with_annotated_queue, with_annotated_topology
from compiler.specs.gang_spec import GangSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at

_ANNOTATIONS: FieldPath = ("metadata", "annotations")
_TEMPLATE: FieldPath = ("spec", "template")


def _amend(gang: GangSpec) -> GangSpec:
    """Return the Job with no more pods than completions, and with the minimum that annotations state."""
    document, (role,) = gang.document, gang.roles
    completions = value_at(document.data, ("spec", "completions"))
    width = role.replicas if completions is None else min(role.replicas, completions)
    of_job = annotation_value(document, k8s.GROUP_MIN_MEMBER_ANNOTATION)
    stated = whole_number(str(of_job or role.annotations.get(k8s.GROUP_MIN_MEMBER_ANNOTATION, "")))
    minimum = width if is_gang(document) else min(1, width) if stated is None else stated
    paths: dict[str, FieldPath] = {
        "minimum": ("spec", "parallelism"),
        "priority_class": (*_TEMPLATE, "spec", "priorityClassName"),
    }
    if of_job is not None or k8s.GROUP_MIN_MEMBER_ANNOTATION in role.annotations:
        around = () if of_job is not None else _TEMPLATE
        paths["minimum"] = (*around, *_ANNOTATIONS, k8s.GROUP_MIN_MEMBER_ANNOTATION)
    later = 0 if completions is None else completions - width
    role = replace(role, replicas=width, minimum=min(minimum, width), later_pods=later)
    gang = replace(gang, roles=(role,), minimum=minimum, field_paths={**gang.field_paths, **paths})
    return with_annotated_topology(with_annotated_queue(gang), is_one_group=True)


_TABLE = job_row(
    "Job.batch", labels=lambda document, role: dict.fromkeys(k8s.BATCH_JOB_NAME_LABELS, document.name), amend=_amend
)


def _text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from text_diagnostics_of(_TABLE, document)
    value = annotation_value(document, k8s.GANG_ANNOTATION)
    if isinstance(value, str) and value not in ("true", "false"):  # GP218 reports what is no text
        message = f"{k8s.GANG_ANNOTATION} is {value!r}"
        help = 'write "true" or "false", quoted'
        yield document.diagnostic(NOT_ALLOWED, (*_ANNOTATIONS, k8s.GANG_ANNOTATION), message, help)


KIND = replace(job_kind(_TABLE), text_diagnostics=_text_diagnostics)
