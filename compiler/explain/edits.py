"""The fields that a repair changes, with the values to write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from compiler.fields.quantity import integer_amounts, read_quantity
from compiler.fields.texts import whole_number
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.edits import FieldEdit
from solver.problem import Gang
from solver.repairs import FewerPods, Repair, SmallerSubgroups

Edit = int | str
"""A number to write; as a text if the present value is a text, as in an annotation."""


def pod_count_edits(
    spec: GangSpec, gang: Gang, repair: FewerPods, group_sizes: Mapping[int, int]
) -> Mapping[FieldPath, Edit]:
    """Return the edits in addition to a role's replicas: every written minimum above the new count, of the role, of its
    partitions and of the job, the pods that must succeed, and the number of partitions, or of the units of its pods.
    group_sizes: of subgroups that become smaller with it."""
    found = dict[FieldPath, Edit]()
    for path, amount in _pod_count_fields(spec, gang, repair, group_sizes):
        written = _written_number(spec, path)
        if written is not None and (written > amount or (path[-1] == "totalPartitions" and written < amount)):
            found[path] = str(amount) if isinstance(written_value(spec.document, path), str) else amount
    return found


def replica_edits(spec: GangSpec, gang: Gang, repair: FewerPods, counts: Mapping[FieldPath, Edit]) -> list[FieldEdit]:
    """Return `counts`, the edits of `pod_count_edits`, and the number of the role's replicas; [] where that is not
    written as such."""
    found = dict(counts)
    role = None if repair.role is None else gang.roles[repair.role]
    if repair.role is not None and role is not None and role.minimum >= role.replicas:
        written = spec.roles[repair.role]
        numbers = [(*written.path, name) for name in ("replicas", "parallelism", "instances")]
        paths = [path for path in numbers if _written_number(spec, path) == written.replicas]
        if written.unit == 1 and len(paths) == 1:
            found[paths[0]] = repair.amount
        elif written.unit_path not in found:
            return []
    return [FieldEdit(spec.document, path, value) for path, value in found.items()]


def number_edit(document: Document, path: FieldPath, number: str) -> FieldEdit:
    """Return the number at the path, in quotes where the one before it is."""
    bare = number.isdigit() and not isinstance(written_value(document, path), str)
    return FieldEdit(document, path, int(number) if bare else number)


def named_field_edits(spec: GangSpec, field: str, name: str) -> list[FieldEdit]:
    """Return the edit of a field of the job that names an object; [] where its kind has none of its own for that."""
    path = spec.field_paths.get(field, ())
    is_own = path[-1:] and field.partition("_")[0] in str(path[-1]).lower()
    return [FieldEdit(spec.document, path, name)] if is_own else []


def request_edits(spec: GangSpec, role: RoleSpec, resource: str, now: int, amount: str) -> list[FieldEdit]:
    """Return the edits for pods that ask for another amount of a resource, where one container asks for all of it."""
    document, base = spec.pod_spec_of(role)
    asked = [(*base, "containers", 0, "resources", kind, resource) for kind in ("requests", "limits")]
    paths = [path for path in document.positions if (path[: len(base)], path[-1:]) == (base, (resource,))]
    values = [written_value(document, path) for path in paths]
    is_known = all(path in asked and _amount(resource, value) == now for path, value in zip(paths, values, strict=True))
    is_one = len(role.pod_documents) < 2 and role.live is None
    return [number_edit(document, path, amount) for path in paths] if is_known and is_one else []


def _amount(resource: str, written: object) -> int | None:
    amount = read_quantity(written)
    return None if amount is None else integer_amounts({resource: amount}, "up").get(resource)


def _written_number(spec: GangSpec, path: FieldPath) -> int | None:
    written = written_value(spec.document, path)
    if isinstance(written, str):
        return whole_number(written)
    return written if isinstance(written, int) else None


def written_value(document: Document, path: FieldPath) -> Any:
    """Return the document's value at the path; None for nothing."""
    return document.value_at(*path) if path in document.positions else None


def partition_edits(spec: GangSpec, repair: SmallerSubgroups, with_counts: bool) -> Mapping[FieldPath, Edit]:
    """Return the edits for smaller partitions of a task: their size, and (with_counts) their number."""
    path, times = spec.subgroups[repair.subgroup].path, repair.current_amount // repair.amount
    if path[-1:] != ("partitionPolicy",):
        return {}
    counts = ((*path, name) for name in ("totalPartitions", "minPartitions") if with_counts)
    written = {count: number for count in counts if (number := _written_number(spec, count)) is not None}
    return {(*path, "partitionSize"): repair.amount} | {count: number * times for count, number in written.items()}


def in_whole_units(spec: GangSpec, repair: Repair) -> Repair | None:
    """Return the repair, where it asks for fewer pods of a role that come in units so many that these are whole; None
    where none would be left."""
    parts = [_whole_units(spec, part) for part in (replace(repair, also=()), *repair.also)]
    whole = [part for part in parts if part is not None]
    return replace(whole[0], also=tuple(whole[1:])) if len(whole) == len(parts) else None


def _whole_units(spec: GangSpec, repair: Repair) -> Repair | None:
    if not isinstance(repair, FewerPods) or repair.role is None:
        return repair
    unit = spec.roles[repair.role].unit
    return replace(repair, amount=repair.amount // unit * unit) if repair.amount >= unit else None


def _pod_count_fields(
    spec: GangSpec, gang: Gang, repair: FewerPods, group_sizes: Mapping[int, int]
) -> Iterator[tuple[FieldPath, int]]:
    """Yield fields, and the most that may be written there."""
    pods, least = repair.amount, repair.amount
    if repair.role is not None:
        role, written = gang.roles[repair.role], spec.roles[repair.role]
        others = sum(other.minimum for other in gang.roles) - role.minimum
        least = max(others + min(role.minimum, pods), gang.minimum - (repair.current_amount - pods))
        yield written.minimum_path, pods // written.unit
        if role.minimum >= role.replicas and written.unit > 1:
            yield written.unit_path, pods // written.unit
        for k, part in enumerate(spec.subgroups):
            if part.roles == (written.name,) and part.path[-1:] == ("partitionPolicy",):
                size = group_sizes.get(k, part.size)
                yield (*part.path, "minPartitions"), pods // size
                if role.minimum >= role.replicas:
                    yield (*part.path, "totalPartitions"), pods // size
    yield spec.field_paths.get("minimum", ()), least
    yield spec.field_paths.get("success", ()), _pods_in_all(spec, gang, repair)


def _pods_in_all(spec: GangSpec, gang: Gang, repair: FewerPods) -> int:
    """Return how many pods the job has with the repair, which leaves out pods of a rigid role only."""
    total = sum(role.replicas for role in spec.roles) + sum(spec.succeeded_pods.values())
    role = None if repair.role is None else gang.roles[repair.role]
    return total if role is None or role.minimum < role.replicas else total - repair.current_amount + repair.amount


def edit_text(path: FieldPath, amount: Edit) -> str:
    """Return the edit in a sentence, by the field's own name."""
    name = path[-1] if path[1:2] not in (("minTaskMember",), ("elasticPolicy",)) else f"{path[-2]}.{path[-1]}"
    whose = " of the role" if path[1:2] == ("tasks",) and len(path) == 4 else ""
    return f"{name}: {edit_value(amount)}{whose}"


def edit_value(amount: Edit) -> str:
    """As it is to be written: a number in a text is quoted."""
    return f'"{amount}"' if isinstance(amount, str) else str(amount)


def path_text(path: FieldPath) -> str:
    """Return the path as in kubectl's JSONPath: "spec.tasks[0].minAvailable"."""
    return "".join(map(_step_text, path)).removeprefix(".")


def _step_text(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if re.fullmatch(r"[\w-]+", key) else f"['{key}']"
