"""What annotations say of a gang whose kind has no fields for it: its queue, and whether its pods start together."""

from __future__ import annotations

from dataclasses import replace

from compiler.kinds.common.jobs import annotation_value
from compiler.kubernetes import GANG_ANNOTATION, GROUP_MIN_MEMBER_ANNOTATION, QUEUE_NAME_ANNOTATION
from compiler.specs import GangSpec
from compiler.syntax.documents import Document, FieldPath

_ANNOTATIONS: FieldPath = ("metadata", "annotations")


def with_annotated_queue(gang: GangSpec) -> GangSpec:
    """The queue that a pod template names, from which Volcano takes it, else that the object names."""
    at: FieldPath = (*_ANNOTATIONS, QUEUE_NAME_ANNOTATION)
    queue = annotation_value(gang.document, QUEUE_NAME_ANNOTATION)
    for role in gang.roles:
        if role.annotations.get(QUEUE_NAME_ANNOTATION):
            queue, at = role.annotations[QUEUE_NAME_ANNOTATION], (*role.template_path, *at)
            break
    text = queue if isinstance(queue, str) else ""
    return replace(gang, queue=text or gang.queue, field_paths={**gang.field_paths, "queue": at})


def is_gang(document: Document) -> bool:
    """Whether the object says that its pods start together."""
    return bool(annotation_value(document, GANG_ANNOTATION) == "true")


def with_annotated_minimum(gang: GangSpec) -> GangSpec:
    """All pods where the object says so (`gangplan.dev/gang`), else Volcano's `group-min-member` of the object."""
    if is_gang(gang.document):
        roles = tuple(replace(role, minimum=role.replicas) for role in gang.roles)
        return replace(gang, roles=roles, minimum=sum(role.replicas for role in roles))
    text = str(annotation_value(gang.document, GROUP_MIN_MEMBER_ANNOTATION) or "")
    if not (text.isascii() and text.isdigit()):
        return gang
    paths = {**gang.field_paths, "minimum": (*_ANNOTATIONS, GROUP_MIN_MEMBER_ANNOTATION)}
    return replace(gang, minimum=int(text[:9]), field_paths=paths)
