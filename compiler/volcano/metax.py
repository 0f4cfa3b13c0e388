"""MetaX's gpu-podaffinity annotations: model-parallel units that must, or should, sit in one supernode.

On the pod template of one role: `metax-tech.com/gpu-group-size` GPUs form a unit;
`metax-tech.com/atomic-gpu-group-size` GPUs form the smallest part that must sit in one supernode. Both hold for all GPU
pods of the job, master and workers alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.specs import GangSpec, RoleSpec, SubgroupSpec, TopologySpec
from compiler.syntax.documents import Path

GROUP = "metax-tech.com/gpu-group-size"
ATOMIC = "metax-tech.com/atomic-gpu-group-size"
GPU = "metax-tech.com/gpu"
SUPERNODE_TIER = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """kind: "size", "pod", "total", "atomic" or "roles", one check each. path: the annotation."""

    kind: str
    path: Path
    message: str
    help: str


@dataclass(frozen=True, slots=True)
class _Asked:
    group: int
    atomic: int | None
    group_path: Path
    atomic_path: Path


def subgroups(roles: Sequence[RoleSpec]) -> tuple[SubgroupSpec, ...]:
    """The subgroups that the annotations ask for; none when they ask for nothing or for something that cannot be."""
    asked, problems = _asked(roles)
    if asked is None or problems or _arithmetic(roles, asked):
        return ()
    members, gpus = _members(roles)
    names = tuple(role.name for role in members)
    minimum = sum(role.minimum for role in members)

    def part(name: str, size: int, topology: TopologySpec, path: Path) -> SubgroupSpec:
        return SubgroupSpec(name, names, size // gpus, minimum * gpus // size, topology, path)

    hard = TopologySpec("hard", SUPERNODE_TIER)
    if asked.atomic is None or asked.atomic == asked.group:
        return (part("gpu-group", asked.group, hard, asked.group_path),)
    return (
        part("gpu-group", asked.group, TopologySpec("soft", SUPERNODE_TIER), asked.group_path),
        part("atomic-gpu-group", asked.atomic, hard, asked.atomic_path),
    )


def asked_by(part: SubgroupSpec) -> str | None:
    """The annotation that asks for a subgroup; None where another field does."""
    return str(part.path[-1]) if part.path and part.path[-1] in (GROUP, ATOMIC) else None


def repaired(gang: GangSpec, subgroup: int, code: str, pods: int | None) -> dict[str, str | int]:
    """What to write for smaller groups (GR106), or for groups that only should sit in one supernode (GR107): then one
    pod is the atomic group. Nothing where no annotation asks for the subgroup."""
    annotation = asked_by(gang.subgroups[subgroup])
    if annotation is None or code not in ("GR106", "GR107"):
        return {}
    gpus = _members(gang.roles)[1]
    if code == "GR107":
        return {"annotation": ATOMIC, "written": gpus}
    return {"annotation": annotation, "written": gpus * (pods or 1)}


def problems(roles: Sequence[RoleSpec]) -> list[Problem]:
    """Everything that keeps the annotations from making sense."""
    asked, found = _asked(roles)
    return found if asked is None or found else _arithmetic(roles, asked)


def _path(role: RoleSpec, key: str) -> Path:
    return (*role.template, "metadata", "annotations", key)


def _asked(roles: Sequence[RoleSpec]) -> tuple[_Asked | None, list[Problem]]:
    found: list[Problem] = []
    values: dict[str, tuple[int, Path]] = {}
    for role in roles:
        for key in (GROUP, ATOMIC):
            if (text := role.annotations.get(key)) is None:
                continue
            path = _path(role, key)
            if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) < 10**9):
                found.append(Problem("size", path, f"{key} is {text!r}", "write a number of GPUs, 1 or more"))
            elif key in values and values[key][0] != int(text):
                message = f"{key} is {text} here and {values[key][0]} on another role"
                found.append(
                    Problem("roles", path, message, "write the annotation on one role only; it holds for the whole job")
                )
            else:
                values.setdefault(key, (int(text), path))
    if not values or found:
        return None, found
    atomic = values.get(ATOMIC)
    group = values.get(GROUP) or atomic
    if group is None:
        return None, found
    return _Asked(group[0], atomic[0] if atomic else None, group[1], atomic[1] if atomic else group[1]), found


def _members(roles: Sequence[RoleSpec]) -> tuple[list[RoleSpec], int]:
    """The roles with GPUs and the GPUs of one pod, 0 when the roles differ."""
    own = {id(role): role.pod.requests.get(GPU, 0) for role in roles}
    any_vendor = {
        id(role): sum(amount for name, amount in role.pod.requests.items() if name.endswith("/gpu")) for role in roles
    }
    gpus = own if any(own.values()) else any_vendor
    members = [role for role in roles if gpus[id(role)]]
    sizes = {gpus[id(role)] for role in members}
    return members, sizes.pop() if len(sizes) == 1 else 0


def _arithmetic(roles: Sequence[RoleSpec], asked: _Asked) -> list[Problem]:
    members, gpus = _members(roles)
    if not members:
        return [
            Problem(
                "pod",
                asked.group_path,
                "no pod of the job requests GPUs",
                f"request {GPU} in the pod templates, or remove the annotation",
            )
        ]
    if not gpus:
        return [
            Problem(
                "pod",
                asked.group_path,
                "the roles' pods have different numbers of GPUs",
                "give all GPU pods of the job the same number",
            )
        ]
    found = []
    for key, size, path in ((GROUP, asked.group, asked.group_path), (ATOMIC, asked.atomic, asked.atomic_path)):
        if size and size % gpus:
            found.append(
                Problem(
                    "pod",
                    path,
                    f"{key} {size} is no multiple of the {gpus} GPUs of one pod",
                    f"use a multiple of {gpus}",
                )
            )
    total = sum(role.replicas for role in members) * gpus
    if total % asked.group:
        found.append(
            Problem(
                "total",
                asked.group_path,
                f"the job's {total} GPUs are no multiple of the group's {asked.group}",
                "change the size or the replicas",
            )
        )
    if asked.atomic and asked.group % asked.atomic:
        found.append(
            Problem(
                "atomic",
                asked.atomic_path,
                f"the group's {asked.group} GPUs are no multiple of the atomic group's {asked.atomic}",
                "use a divisor",
            )
        )
    return found
