"""Job kinds as tables: where in an object its pod templates, replicas, queue, priority and so on lie.

A kind of an operator is one `JobKind`, mostly a row of `job_kinds.toml` (`job_row`); `job_kind(...)` makes of it the
`Kind` that is read. Where the operator's schema is not here, `job_schema` makes one of the fields that the table names:
the rest is the operator's matter.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import Any, Literal

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import without_nulls
from compiler.kinds.common import pods
from compiler.kinds.common.jobs import UNREAD_PART, job_times, with_annotated_queue
from compiler.kinds.kind import Kind
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.openapi.schemas import Schema, made_schema
from compiler.specs.gang_spec import Controller, GangSpec, RoleSpec, Scheduling
from compiler.specs.services import unbound
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import EACH_ENTRY, EACH_ITEM, Path, found_paths, parse_path, path_beside, path_text, value_at
from compiler.volcano import metax

Labels = Callable[[Document, str], Mapping[str, str]]
"""(job, name of the role) -> the labels that the controller gives the role's pods."""
Added = Callable[[Document, str], Mapping[str, list[dict[str, Any]]]]
"""(job, name of the role) -> fields of a pod (containers, initContainers) with what the operator adds to them."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number at `path`, or `default` if the object has none there."""

    path: str
    default: int = 1


@dataclass(frozen=True, slots=True)
class RolePaths:
    """One role, or one for each template that the path leads to.

    template: of the pod templates. name: of the role; where it is empty the text at `name_path`, else the last key on
    the way to the template. replicas: multiplied. minimum: likewise, pods that must start; none given means all. order:
    names of roles of a mapping in the order in which they are listed, case aside; others follow as written.
    is_optional: what holds the template may do without. is_pod_spec: the path leads to pod specs without a template
    around them, so that nothing can be written into their pods.
    """

    template: str
    name: str = ""
    name_path: str = ""
    replicas: tuple[Count, ...] = ()
    minimum: tuple[Count, ...] = ()
    order: tuple[str, ...] = ()
    is_optional: bool = False
    is_pod_spec: bool = False


@dataclass(frozen=True, slots=True)
class NotApplied:
    """Parts of an object that are not applied. effect: what follows. help: what to do."""

    paths: tuple[str, ...]
    effect: str
    help: str


@dataclass(frozen=True, slots=True)
class Unbound:
    """A kind whose pods are not bound to the plan's nodes.

    reason: why. is_recurring: its jobs are created by the clock. reads_queue_annotation: of the pod templates, else of
    the object. not_applied: fields of an object that are not read.
    """

    reason: str
    is_recurring: bool = False
    reads_queue_annotation: bool = False
    not_applied: tuple[NotApplied, ...] = ()


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind whose objects are jobs.

    gang: "all" replicas start together, or the "roles" minima, or its pods start "one" by one. minimum: path of the
    pods that must start, which replaces the roles' minima. queue, priority: paths, the first with a text counts; a
    priority may also be that of a pod template. suspend: paths of switches that keep its pods away. scheduler: path of
    the name of its scheduler. is_volcano_default: its operator names Volcano in the pods itself. labels: labels that
    its controller gives each pod. adds: containers that its operator adds to the pods, whose requests count.
    pod_owners: Kind.group of objects between it and its pods. is_marked: the pods do not show job and role by known
    labels (`compiler.kubernetes`). runs_once: an object ends and is not recreated; for known kinds `compiler.run_kinds`
    decides. prepare: applied before reading. amend: applied last to a gang.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    roles: tuple[RolePaths, ...]
    gang: Literal["all", "roles", "one"] = "all"
    minimum: str = ""
    queue: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()
    suspend: tuple[str, ...] = ()
    scheduler: str = ""
    is_volcano_default: bool = False
    labels: Labels = lambda document, role: {}
    adds: Added = lambda document, role: {}
    pod_owners: tuple[str, ...] = ()
    is_marked: bool = True
    runs_once: bool = False
    unbound: Unbound | None = None
    prepare: Callable[[Document], Document] = lambda document: document
    amend: Callable[[GangSpec], GangSpec] = lambda gang: gang


# --- rows


@cache
def _rows() -> Mapping[str, Any]:
    return tomllib.loads((files("compiler.kinds") / "job_kinds.toml").read_text("utf-8"))


def job_row(key: str, **hooks: Any) -> JobKind:
    """Return the table of a kind ("Kind.group"). hooks: the functions of a `JobKind`, which no row has."""
    name, _, group = key.partition(".")
    row = _tuples(_rows()[key])
    row["roles"] = tuple(RolePaths(**_with_counts(_tuples(role))) for role in row["roles"])
    if (of := row.get("unbound")) is not None:
        parts = tuple(NotApplied(**_tuples(part)) for part in of.get("not_applied", ()))
        row["unbound"] = Unbound(**of | {"not_applied": parts})
    return JobKind(name, group, **row, **hooks)


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _with_counts(role: dict[str, Any]) -> dict[str, Any]:
    for key in role.keys() & {"replicas", "minimum"}:
        role[key] = tuple(Count(each) if isinstance(each, str) else Count(**each) for each in role[key])
    return role


# --- the kind


_OWN_GROUPS = ("", "apps", "batch", "batch.volcano.sh")
"""Groups of Kubernetes and Volcano, whose versions are known; other versions of an operator's kind pass."""


def job_kind(table: JobKind) -> Kind:
    """Return the kind that reads objects by the table."""

    def specs(document: Document, model: Any) -> Iterable[GangSpec]:
        gang = gang_spec(table, table.prepare(document))
        is_recurring = table.unbound is not None and table.unbound.is_recurring
        if gang.roles or is_recurring:  # a RayJob may run on a cluster that is there; a CronJob names a queue
            gang = table.amend(replace(gang, document=document))
            yield gang if table.unbound is None else _unbound(table, table.unbound, gang)

    return Kind(
        table.name,
        table.group,
        table.versions,
        None,
        specs,
        partial(text_diagnostics_of, table),
        partial(job_schema, table),
        is_foreign=table.group not in _OWN_GROUPS,
        runs_once=table.runs_once,
        unbound_reason=table.unbound.reason if table.unbound else "",
    )


def _unbound(table: JobKind, of: Unbound, gang: GangSpec) -> GangSpec:
    """Return the gang whose pods go where their scheduler puts them; a suspended one has none."""
    gang = with_annotated_queue(gang) if of.reads_queue_annotation else gang
    gang = gang if _is_suspended(table, gang.document) else unbound(gang)
    return gang.with_scheduling(is_recurring=of.is_recurring)


def _is_suspended(table: JobKind, document: Document) -> bool:
    return any(value_at(document.data, parse_path(path)) for path in table.suspend)


def text_diagnostics_of(table: JobKind, document: Document) -> Iterator[Diagnostic]:
    """Findings on the text of the pod templates and annotations of an object."""
    yield from pods.job_diagnostics((paths.template for paths in table.roles), document)
    for part in table.unbound.not_applied if table.unbound else ():
        for at in (at for path in part.paths for at in found_paths(document.data, parse_path(path))):
            yield document.diagnostic(UNREAD_PART, at, f"{at[-1]} is not applied: {part.effect}", part.help)


# --- the schema


@lru_cache(maxsize=256)
def job_schema(table: JobKind) -> Schema:
    """Return a schema of the fields that the table names; other fields pass. Raises ValueError where they contradict
    each other."""
    tree: dict[str, Any] = {}
    for paths in table.roles:
        for count in (*paths.replicas, *paths.minimum):
            _plant(tree, parse_path(count.path), "count")
        if paths.name_path:
            _plant(tree, parse_path(paths.name_path), "name")
        leaf = "pod spec" if paths.is_pod_spec else "pod template"
        _plant(tree, parse_path(paths.template), f"{leaf}?" if paths.is_optional else leaf)
    for path in (*table.queue, *table.priority, *((table.scheduler,) if table.scheduler else ())):
        _plant(tree, parse_path(path), "name")
    for path in table.suspend:
        _plant(tree, parse_path(path), "switch")
    if table.minimum:
        _plant(tree, parse_path(table.minimum), "count")
    tree.pop("metadata", None)
    root = _node(tree)
    may_lack_all = all(paths.is_optional for paths in table.roles)
    root["required"] = [key for key in tree if key in ({"spec"} if may_lack_all else tree)]
    root["properties"] |= {"metadata": {"like": "metadata"}}
    return made_schema(root)


_LEAVES: Mapping[str, Mapping[str, Any]] = {
    "count": {"type": "integer", "format": "int32", "minimum": 0},
    "name": {"type": "string", "maxLength": 253},
    "pod spec": {"like": "pod spec"},
    "pod template": {"like": "pod template"},
    "switch": {"type": "boolean"},
}


def _plant(tree: dict[str, Any], path: Path, leaf: Any) -> None:
    """Raises ValueError where the path passes through, or ends above, one that has been planted."""
    for at, step in enumerate(path):
        below = {} if at < len(path) - 1 else leaf
        found = tree.setdefault(step, below)
        has_other_shape = len(tree) > 1 and not tree.keys().isdisjoint({EACH_ITEM, EACH_ENTRY})
        if has_other_shape or isinstance(found, dict) != isinstance(below, dict):
            raise ValueError(f"{path_text(path)} does not go with another path at {path_text(path[: at + 1])}")
        tree = found


def _node(tree: Any) -> dict[str, Any]:
    """Return the node of a part of the tree: a template is required where its parent is there, all else may be
    missing."""
    if isinstance(tree, str):
        return dict(_LEAVES[tree.removesuffix("?")])
    if EACH_ITEM in tree:
        return {"type": "array", "items": _node(tree[EACH_ITEM])}
    if EACH_ENTRY in tree:
        return {"type": "object", "values": _node(tree[EACH_ENTRY])}
    required = [key for key, child in tree.items() if child in ("pod spec", "pod template")]
    properties = {key: _node(child) for key, child in tree.items()}
    return {"type": "object", "open": True, "properties": properties, "required": required}


# --- the gang


def gang_spec(table: JobKind, document: Document) -> GangSpec:
    """Return the gang of a document that fits the model."""
    data = document.data
    written = value_at(data, parse_path(table.minimum)) if table.minimum else None
    found = [role for paths in table.roles for role in _roles(table, paths, document)]
    total, least = sum(role.replicas for role in found), sum(role.minimum for role in found)
    minimum = {"all": total, "roles": least, "one": min(1, total)}[table.gang] if written is None else int(written)
    needs_all = minimum >= total and table.gang != "roles"
    keeps_minima = table.gang == "roles" and written is None
    roles = tuple(role if keeps_minima else replace(role, minimum=role.replicas if needs_all else 0) for role in found)
    queue, queue_path = _first_text(data, table.queue)
    priority, priority_path = _priority(table, document, roles)
    scheduler, scheduler_path = _first_text(data, (table.scheduler,) if table.scheduler else ())
    scheduler = scheduler or (VOLCANO_SCHEDULER if table.is_volcano_default else "")
    return GangSpec(
        document=document,
        queue=queue,
        priority_class=priority or None,
        minimum=minimum,
        roles=roles,
        subgroups=metax.subgroups(roles),
        times=job_times(document),
        field_paths={
            "queue": queue_path,
            "minimum": parse_path(table.minimum) if table.minimum else roles[0].path if roles else ("spec",),
            "priority_class": priority_path,
            "scheduler": scheduler_path,
        },
        controller=Controller(pod_owners=table.pod_owners, marks_pods=table.is_marked, runs_once=table.runs_once),
        scheduling=Scheduling(
            schedulable=not _is_suspended(table, document) and _is_for_volcano(scheduler, roles),
            scheduler_name=scheduler,
        ),
    )


def _is_for_volcano(scheduler: str, roles: Iterable[RoleSpec]) -> bool:
    if scheduler not in ("", VOLCANO_SCHEDULER):
        return False
    return all(role.pod.scheduler_name in ("", VOLCANO_SCHEDULER) for role in roles)


def _roles(table: JobKind, paths: RolePaths, document: Document) -> list[RoleSpec]:
    pattern = parse_path(paths.template)
    found = []
    for at in found_paths(document.data, pattern):
        name = paths.name
        if not name and paths.name_path:
            name = str(value_at(document.data, path_beside(parse_path(paths.name_path), pattern, at)) or "")
        name = name or _last_key(pattern, at)
        replicas = _product(document, paths.replicas, pattern, at)
        minimum = min(_product(document, paths.minimum, pattern, at), replicas) if paths.minimum else replicas
        written = without_nulls(value_at(document.data, at))
        if paths.is_pod_spec:
            written = {"spec": written}
        template = pods.PodTemplate.model_validate(_with_added(written, table.adds(document, name)))
        labels = table.labels(document, name)
        role = pods.role_spec(name, replicas, minimum, template, at[:-1], controller_labels=labels)
        unit, unit_path = max(_product(document, paths.replicas[1:], pattern, at), 1), FieldPath()
        if paths.replicas:
            unit_path = path_beside(parse_path(paths.replicas[0].path), pattern, at)
        if paths.is_pod_spec:
            role = replace(role, path=at)
        of_template = FieldPath() if paths.is_pod_spec else at
        found.append(replace(role, template_path=of_template, unit=unit, unit_path=unit_path))
    if paths.order:
        known = [name.lower() for name in paths.order]
        found.sort(key=lambda role: known.index(role.name.lower()) if role.name.lower() in known else len(known))
    return found


def _last_key(pattern: Path, at: FieldPath) -> str:
    """Return the key, or the number, by which the path to a template was chosen last."""
    chosen = [step for name, step in zip(pattern, at, strict=True) if name in (EACH_ITEM, EACH_ENTRY)]
    return str(chosen[-1]) if chosen else "pods"


def _with_added(template: Any, added: Mapping[str, list[dict[str, Any]]]) -> Any:
    more = {key: [*(template["spec"].get(key) or ()), *containers] for key, containers in added.items()}
    return {**template, "spec": {**template["spec"], **more}}


def _product(document: Document, counts: Iterable[Count], pattern: Path, at: FieldPath) -> int:
    product = 1
    for count in counts:
        value = value_at(document.data, path_beside(parse_path(count.path), pattern, at))
        product *= count.default if value is None else int(value)
    return product


def _first_text(data: Any, paths: tuple[str, ...]) -> tuple[str, FieldPath]:
    """Return the first text that is there, and its path; else the path where it would be."""
    for path in paths:
        if isinstance(text := value_at(data, parse_path(path)), str) and text:
            return text, parse_path(path)
    return "", parse_path(paths[0]) if paths else ("spec",)


def _priority(table: JobKind, document: Document, roles: Iterable[RoleSpec]) -> tuple[str, FieldPath]:
    """Return the priority class of the job, else of its first pod template that has one."""
    name, path = _first_text(document.data, table.priority)
    if name:
        return name, path
    for role in roles:
        at = (*role.template_path, "spec", "priorityClassName")
        if (found := value_at(document.data, at)) and isinstance(found, str):
            return found, at
    return "", path
