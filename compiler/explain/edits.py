"""The fields that a repair changes, with the values to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compiler.kubernetes import REQUIRED
from compiler.specs import GangSpec, NodeGroupAffinity
from compiler.syntax.documents import FieldPath
from solver.problem import Gang
from solver.repairs import FewerPods


def pod_count_edits(spec: GangSpec, gang: Gang, repair: FewerPods) -> Mapping[FieldPath, int]:
    """What has to be written beside a role's replicas: every written minimum that is above the new count, of the role,
    of its partitions and of the job, and the number of partitions."""
    found = dict[FieldPath, int]()
    for path, amount in _pod_count_fields(spec, gang, repair):
        if path in spec.document.positions:
            written = spec.document.value_at(*path)
            if isinstance(written, int) and written > amount:
                found[path] = amount
    return found


def _pod_count_fields(spec: GangSpec, gang: Gang, repair: FewerPods) -> Iterator[tuple[FieldPath, int]]:
    """Fields, and what may stand there at most."""
    pods, least = repair.amount, repair.amount
    if repair.role is not None:
        role, written = gang.roles[repair.role], spec.roles[repair.role]
        others = sum(other.minimum for other in gang.roles) - role.minimum
        least = max(others + min(role.minimum, pods), gang.minimum - (repair.current_amount - pods))
        yield (*written.path, "minAvailable"), pods
        for part in spec.subgroups:
            if part.roles == (written.name,) and part.path[-1:] == ("partitionPolicy",):
                yield (*part.path, "minPartitions"), pods // part.size
                if role.minimum >= role.replicas:
                    yield (*part.path, "totalPartitions"), pods // part.size
    yield spec.field_paths.get("minimum", ()), least


def node_group_edits(affinity: NodeGroupAffinity | None, groups: Sequence[str]) -> Mapping[FieldPath, tuple[str, ...]]:
    """The lists of a queue's affinity with which it may use these groups as well, of which it may use none now. A group
    that its anti-affinity excludes has to go from there, and to be named in its affinity too: anti-affinity alone opens
    nothing."""
    known = affinity or NodeGroupAffinity()
    lacking = [group for group in groups if group not in (*known.required, *known.preferred)]
    found = dict[FieldPath, tuple[str, ...]]()
    if lacking:
        found["spec", "affinity", "nodeGroupAffinity", REQUIRED] = (*known.required, *lacking)
    if any(group in known.anti_required for group in groups):
        left = tuple(group for group in known.anti_required if group not in groups)
        found["spec", "affinity", "nodeGroupAntiAffinity", REQUIRED] = left
    return found


def edit_text(path: FieldPath, amount: int) -> str:
    """The edit in a sentence, by the field's own name."""
    return f"{path[-1]}: {amount}" + (" of the role" if path[1:2] == ("tasks",) and len(path) == 4 else "")


def path_text(path: FieldPath) -> str:
    """The path as in kubectl's JSONPath: "spec.tasks[0].minAvailable"."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
