"""Parts of job kinds: metadata, network topology, annotations for which a kind has no fields (its queue, whether its
pods start together), and the report of objects whose pods cannot be bound, since their controllers accept no gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.models import BAD_TIME, Int, LenientModel, OwnModel
from compiler.fields.texts import whole_number
from compiler.fields.times import parse_duration, parse_timestamp
from compiler.kubernetes import EXPECTED_DURATION_ANNOTATION, SUBMITTED_AT_ANNOTATION
from compiler.specs.gang_spec import GangSpec, JobTimes, RoleSpec, SubgroupSpec, TopologySpec
from compiler.syntax.documents import Document, FieldPath

Natural = Annotated[Int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[Int, Field(ge=1, le=2**31 - 1)]


class Metadata(LenientModel):
    name: str
    namespace: str | None = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class OwnObject(OwnModel):
    """A whole document of a kind that is ours. status is what a cluster wrote; it is not ours to judge."""

    api_version: str
    kind: str
    metadata: Metadata
    status: Any = None


class NetworkTopology(LenientModel):
    """Below tier 1 there is no hypernode: a soft topology of tier 0 asks for none."""

    mode: Literal["hard", "soft"] | None = None
    highest_tier_allowed: Int | None = None
    highest_tier_name: str | None = None

    def to_spec(self) -> TopologySpec:
        return TopologySpec(self.mode or "hard", self.highest_tier_allowed or None, self.highest_tier_name)


def annotation_value(document: Document, key: str) -> Any:
    return (document.metadata.get("annotations") or {}).get(key)


def job_times(document: Document) -> JobTimes:
    """None for a malformed value, which `time_diagnostics` reports."""
    submitted_at = _read_annotation(document, SUBMITTED_AT_ANNOTATION, parse_timestamp)
    return JobTimes(submitted_at, _read_annotation(document, EXPECTED_DURATION_ANNOTATION, parse_duration))


def _read_annotation(document: Document, key: str, reader: Any) -> int | None:
    try:
        return None if (value := annotation_value(document, key)) is None else int(reader(value))
    except ValueError:
        return None


def time_diagnostics(document: Document) -> Iterator[Diagnostic]:
    for key, reader, help in (
        (SUBMITTED_AT_ANNOTATION, parse_timestamp, "write a time such as 2026-01-31T12:00:00Z"),
        (EXPECTED_DURATION_ANNOTATION, parse_duration, "write seconds, or like 1h30m or 2d"),
    ):
        if (value := annotation_value(document, key)) is not None and _read_annotation(document, key, reader) is None:
            path = ("metadata", "annotations", key)
            yield document.diagnostic(BAD_TIME, path, f"{key}: {value!r} cannot be read", help)


NOT_BOUND = declare_rule("GP222", "info")
UNREAD_PART = declare_rule("GP228", "info")


def not_bound_diagnostic(document: Document, reason: str, *, is_recurring: bool = False) -> Diagnostic:
    """Return the diagnostic of a planned object of such a kind. is_recurring: it runs by the clock."""
    message = f"{document.kind} is planned, and its pods are not bound to the plan's nodes: {reason}"
    room = "no room is kept for its next run" if is_recurring else "room is kept for them"
    return document.diagnostic(NOT_BOUND, ("kind",), message, f"nothing; {room}")


_ANNOTATIONS: FieldPath = ("metadata", "annotations")
_MANY_PODS = 10**9


def with_annotated_queue(gang: GangSpec) -> GangSpec:
    """Return the queue that a pod template names, from which Volcano takes it, else that the object names."""
    at: FieldPath = (*_ANNOTATIONS, k8s.QUEUE_NAME_ANNOTATION)
    queue = annotation_value(gang.document, k8s.QUEUE_NAME_ANNOTATION)
    for role in gang.roles:
        if role.annotations.get(k8s.QUEUE_NAME_ANNOTATION):
            queue, at = role.annotations[k8s.QUEUE_NAME_ANNOTATION], (*role.template_path, *at)
            break
    if gang.queue and not (isinstance(queue, str) and queue):
        return gang
    text = queue if isinstance(queue, str) else ""
    return replace(gang, queue=text, field_paths={**gang.field_paths, "queue": at})


def with_annotated_topology(gang: GangSpec, *, is_one_group: bool) -> GangSpec:
    """Return the network topology that Volcano's controller reads in the pods of which it makes a PodGroup: one for
    each object that owns some (a Job, a ReplicaSet). is_one_group: that is one; else units of a role are subgroups."""
    subgroups = []
    for role in gang.roles:
        topology, path = _annotated_topology(role)
        if topology is None:
            continue
        if is_one_group:
            return replace(gang, topology=topology, field_paths={**gang.field_paths, "topology": path})
        subgroups.append(SubgroupSpec(role.name, (role.name,), role.unit, role.minimum // role.unit, topology, path))
    return replace(gang, subgroups=(*gang.subgroups, *subgroups)) if subgroups else gang


def _annotated_topology(role: RoleSpec) -> tuple[TopologySpec | None, FieldPath]:
    """Return the topology of a role, and its place; hard unless declared soft, of any tier unless it names one."""
    mode, tier = role.annotations.get(k8s.TOPOLOGY_MODE_ANNOTATION), role.annotations.get(k8s.TOPOLOGY_TIER_ANNOTATION)
    if mode is None and tier is None:
        return None, ()
    key = k8s.TOPOLOGY_TIER_ANNOTATION if tier is not None else k8s.TOPOLOGY_MODE_ANNOTATION
    is_soft = (mode or "").lower() == "soft"
    return TopologySpec("soft" if is_soft else "hard", whole_number(tier or "") or None), (
        *role.template_path,
        *_ANNOTATIONS,
        key,
    )


def is_gang(document: Document) -> bool:
    """Return whether the object declares that its pods start together."""
    return bool(annotation_value(document, k8s.GANG_ANNOTATION) == "true")


def with_annotated_minimum(gang: GangSpec) -> GangSpec:
    """Return the gang with its declared minimum: all pods by `gangplan.dev/gang`, else Volcano's `group-min-member` of
    the object."""
    if is_gang(gang.document):
        roles = tuple(replace(role, minimum=role.replicas) for role in gang.roles)
        return replace(gang, roles=roles, minimum=sum(role.replicas for role in roles))
    minimum = whole_number(str(annotation_value(gang.document, k8s.GROUP_MIN_MEMBER_ANNOTATION) or ""), _MANY_PODS)
    if minimum is None:
        return gang
    paths = {**gang.field_paths, "minimum": (*_ANNOTATIONS, k8s.GROUP_MIN_MEMBER_ANNOTATION)}
    return replace(gang, minimum=minimum, field_paths=paths)
