"""Annotations of a gang whose kind has no fields for them: its queue, and whether its pods start together."""

from __future__ import annotations

from dataclasses import replace

from compiler import kubernetes as k8s
from compiler.fields.texts import whole_number
from compiler.kinds.common.jobs import annotation_value
from compiler.specs.gang_spec import GangSpec, RoleSpec, SubgroupSpec, TopologySpec
from compiler.syntax.documents import Document, FieldPath

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
