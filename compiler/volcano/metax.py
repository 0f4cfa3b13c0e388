"""MetaX's gpu-podaffinity annotations: groups of GPUs that must, or should, be in one supernode.

On the pod template of one role: `metax-tech.com/gpu-group-size` is the number of GPUs of a group,
`metax-tech.com/atomic-gpu-group-size` of the smallest part that must be in one supernode. Both hold for all GPU pods of
the job, of every role.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.fields.texts import whole_number
from compiler.kubernetes import METAX_ATOMIC_GROUP_SIZE_ANNOTATION, METAX_GROUP_SIZE_ANNOTATION
from compiler.specs.gang_spec import GangSpec, RoleSpec, SubgroupSpec, TopologySpec
from compiler.syntax.documents import FieldPath

METAX_GPU = "metax-tech.com/gpu"
SUPERNODE_TIER = 1


AnnotationProblem = tuple[str, FieldPath, str, str]
"""(code that it is reported by, path, message, help)"""


@dataclass(frozen=True, slots=True)
class _GroupSizes:
    """The group sizes of a job, in GPUs, and the paths of their annotations."""

    group: int
    atomic: int | None
    group_path: FieldPath
    atomic_path: FieldPath


def subgroups(roles: Sequence[RoleSpec]) -> tuple[SubgroupSpec, ...]:
    """Return the subgroups that the annotations request; none where they are missing or contradictory."""
    sizes, problems = _group_sizes(roles)
    if sizes is None or problems or any(_size_problems(roles, sizes)):
        return ()
    members, gpus = _gpu_roles(roles)
    names = tuple(role.name for role in members)
    minimum = sum(role.minimum for role in members)

    def subgroup(name: str, size: int, topology: TopologySpec, path: FieldPath) -> SubgroupSpec:
        return SubgroupSpec(name, names, size // gpus, minimum * gpus // size, topology, path)

    hard = TopologySpec("hard", SUPERNODE_TIER)
    if sizes.atomic is None or sizes.atomic == sizes.group:
        return (subgroup("gpu-group", sizes.group, hard, sizes.group_path),)
    return (
        subgroup("gpu-group", sizes.group, TopologySpec("soft", SUPERNODE_TIER), sizes.group_path),
        subgroup("atomic-gpu-group", sizes.atomic, hard, sizes.atomic_path),
    )


def requesting_annotation(subgroup: SubgroupSpec) -> str | None:
    """Return the annotation that requests a subgroup; None where another field does."""
    return (
        str(subgroup.path[-1])
        if subgroup.path and subgroup.path[-1] in (METAX_GROUP_SIZE_ANNOTATION, METAX_ATOMIC_GROUP_SIZE_ANNOTATION)
        else None
    )


def annotation_repair(gang: GangSpec, subgroup: int, pods: int | None) -> dict[str, str | int]:
    """Return the annotation to write for groups of so many pods; None: for groups that only should be in one supernode,
    where one pod is the atomic group. Empty where no annotation requests the subgroup."""
    annotation = requesting_annotation(gang.subgroups[subgroup])
    if annotation is None:
        return {}
    gpus = _gpu_roles(gang.roles)[1]
    if pods is None:
        return {"annotation": METAX_ATOMIC_GROUP_SIZE_ANNOTATION, "written": gpus}
    return {"annotation": annotation, "written": gpus * pods}


def annotation_problems(roles: Sequence[RoleSpec]) -> list[AnnotationProblem]:
    """Return all contradictions of the annotations."""
    sizes, found = _group_sizes(roles)
    return found if sizes is None or found else [*_size_problems(roles, sizes)]


def _group_sizes(roles: Sequence[RoleSpec]) -> tuple[_GroupSizes | None, list[AnnotationProblem]]:
    found: list[AnnotationProblem] = []
    values: dict[str, tuple[int, FieldPath]] = {}
    for role in roles:
        for key in (METAX_GROUP_SIZE_ANNOTATION, METAX_ATOMIC_GROUP_SIZE_ANNOTATION):
            if (text := role.annotations.get(key)) is None:
                continue
            path = (*role.template_path, "metadata", "annotations", key)
            if not 0 < (size := whole_number(text) or 0) < 10**9:
                message = f"{key} is {text!r}"
                found.append(("GP339", path, message, "write a number of GPUs, 1 or more"))
            elif key in values and values[key][0] != size:
                message = f"{key} is {text} here and {values[key][0]} on another role"
                help = "write the annotation on one role only; it holds for the whole job"
                found.append(("GP339", path, message, help))
            else:
                values.setdefault(key, (size, path))
    if not values or found:
        return None, found
    atomic = values.get(METAX_ATOMIC_GROUP_SIZE_ANNOTATION)
    group = values.get(METAX_GROUP_SIZE_ANNOTATION) or atomic
    if group is None:
        return None, found
    return _GroupSizes(group[0], atomic[0] if atomic else None, group[1], atomic[1] if atomic else group[1]), found


def _gpu_roles(roles: Sequence[RoleSpec]) -> tuple[list[RoleSpec], int]:
    """Return the roles with GPUs, and the GPUs of one pod; 0 where the roles differ."""
    own = {id(role): role.pod.requests.get(METAX_GPU, 0) for role in roles}
    any_vendor = {
        id(role): sum(amount for name, amount in role.pod.requests.items() if name.endswith("/gpu")) for role in roles
    }
    gpus = own if any(own.values()) else any_vendor
    members = [role for role in roles if gpus[id(role)]]
    pod_sizes = {gpus[id(role)] for role in members}
    return members, pod_sizes.pop() if len(pod_sizes) == 1 else 0


def _size_problems(roles: Sequence[RoleSpec], sizes: _GroupSizes) -> Iterator[AnnotationProblem]:
    members, gpus = _gpu_roles(roles)
    if not members:
        help = f"request {METAX_GPU} in the pod templates, or remove the annotation"
        yield "GP340", sizes.group_path, "no pod of the job requests GPUs", help
        return
    if not gpus:
        message = "the roles' pods have different numbers of GPUs"
        yield "GP340", sizes.group_path, message, "give all GPU pods of the job the same number"
        return
    for key, size, path in (
        (METAX_GROUP_SIZE_ANNOTATION, sizes.group, sizes.group_path),
        (METAX_ATOMIC_GROUP_SIZE_ANNOTATION, sizes.atomic, sizes.atomic_path),
    ):
        if size and size % gpus:
            message = f"{key} {size} is not a multiple of the {gpus} GPUs of one pod"
            yield "GP340", path, message, f"use a multiple of {gpus}"
    total = sum(role.replicas for role in members) * gpus
    if total % sizes.group:
        message = f"the job's {total} GPUs are not a multiple of the group's {sizes.group}"
        yield "GP341", sizes.group_path, message, "change the size or the replicas"
    if sizes.atomic and sizes.group % sizes.atomic:
        message = f"the group's {sizes.group} GPUs are not a multiple of the atomic group's {sizes.atomic}"
        yield "GP342", sizes.atomic_path, message, "use a divisor"
