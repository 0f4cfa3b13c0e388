"""Faults of a document alone: by the schema of its kind (`compiler.openapi`), and by rules on values
(`compiler.validation`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule, to_write
from compiler.fields.models import MISSING_FIELD, MISSPELT_POD_FIELD, UNKNOWN_FIELD, WRONG_TYPE
from compiler.fields.texts import dotted_path
from compiler.kinds.kind import Kind, kinds
from compiler.openapi.schemas import Node, Schema, find_schema, kinds_named, known_versions, plain_schema
from compiler.openapi.shape import Flaw, shape_flaws
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at
from compiler.validation.judge import Judge, pod_spec_paths
from compiler.validation.object_rules import metadata, objects, pod_flaws, pod_names

WRONG_VERSION = declare_rule("GP212", "error")
_MOST_FIELDS = 3
"""Fields that one message names."""
_MOVING = """
    grove.io jobset.x-k8s.io leaderworkerset.x-k8s.io ray.io serving.kserve.io sparkoperator.k8s.io
    trainer.kubeflow.org training.volcano.sh workload.serving.volcano.sh kubeflow.org/v2beta1
"""
_MOVING_GROUPS = frozenset(_MOVING.split())
"""Groups (or one version) of operators whose kinds get new fields within a version of the API."""
_NEWER = "keep it only if a newer version has it"


@dataclass(frozen=True, slots=True)
class Flaws:
    """Faults of a document alone: its shape, and its values where their shape is valid."""

    shape: tuple[Flaw, ...]
    values: tuple[Flaw, ...]


def document_flaws(document: Document, kind: Kind | None) -> Flaws:
    """Return the faults of a document of this kind, None for an unplanned kind."""
    schema = schema_of(document, kind)
    shape = tuple(_placed(document, flaw, schema) for flaw in shape_flaws(document.data, schema))
    meant = as_meant(document, shape) if shape else document
    found = _value_flaws(meant) if kind is None or kind.is_written else ()
    values = tuple(flaw for flaw in found if not any(_is_within(flaw.path, each.path) for each in shape))
    return Flaws(shape, values)


def schema_of(document: Document, kind: Kind | None) -> Schema:
    """Return the schema by which a document is judged."""
    version = document.api_version.rpartition("/")[2]
    found = find_schema(f"{document.kind}.{document.group}", version) if kind is None else kind.schema_of(version)
    return found or plain_schema()


def read_model(document: Document, kind: Kind) -> tuple[Any, list[Flaw]]:
    """Return the model of a document that has the shape of its schema, and its faults; None if it cannot be read
    nevertheless."""
    try:
        model = kind.read(document)
    except ValidationError as error:
        paths = [tuple(each["loc"]) for each in error.errors(include_url=False)]
        return None, [Flaw(path, WRONG_TYPE, f"{dotted_path(path)} cannot be read", "correct it") for path in paths]
    return model, list(kind.flaws(model)) if kind.flaws is not None else []


def as_meant(document: Document, flaws: Iterable[Flaw], *, keep: bool = True) -> Document:
    """Return the document with the fields that misspelt ones were meant to be, and misplaced ones in their places.
    keep: whether other flawed fields stay."""
    data, positions = document.data, dict(document.positions)
    for flaw in flaws:
        place, value = flaw.explains, value_at(document.data, flaw.path)
        is_misplaced = bool(place) and place != flaw.path[: len(place)]
        if is_misplaced and value is None:
            continue  # it is in its place already
        if is_misplaced:
            is_around = place[:-1] == flaw.path[:-1] and isinstance(value, dict) and place[-1] in value
            own = {key: value[key] for key in value if key not in flaw.taken_in} if flaw.taken_in else value
            data = _with(_changed(data, flaw.path, value if is_around else {}), place, own)
            for name in flaw.taken_in:
                data = _with(data, (*place[:-1], name), value[name])
            positions |= {place: positions.get(flaw.path, (document.line, 1))}
        elif not keep:
            data = _changed(data, _removable_path(document.data, flaw.path), {})
    return document if data is document.data else replace(document, data=data, positions=positions)


def _removable_path(data: Any, path: FieldPath) -> FieldPath:
    """Return the longest part of the path that leads to a key of a mapping in `data`, so that no list loses an item;
    empty for none."""
    found: FieldPath = ()
    for length, step in enumerate(path, start=1):
        if isinstance(data, dict) and step in data:
            found = path[:length]
        elif not (isinstance(data, list) and isinstance(step, int) and step < len(data)):
            break
        data = data[step]
    return found


def _changed(data: Any, path: FieldPath, added: Mapping[Any, Any]) -> Any:
    """Return a copy of `data` that has these fields instead of that at `path`, if there still is one."""
    if isinstance(data, list):
        return [_changed(item, path[1:], added) if at == path[0] else item for at, item in enumerate(data)]
    if not path or not isinstance(data, dict) or path[0] not in data:
        return data
    if len(path) == 1:
        return {**{key: each for key, each in data.items() if key != path[0]}, **added}
    return {key: _changed(each, path[1:], added) if key == path[0] else each for key, each in data.items()}


def _with(data: Any, path: FieldPath, value: Any) -> Any:
    """Return a copy of `data` that has the value at the path, if nothing is there; the step "tasks[]" is the one item
    of tasks."""
    if not path:
        return value if data is None else data
    if isinstance(data, list):
        return [_with(item, path[1:], value) if at == path[0] else item for at, item in enumerate(data)]
    name = str(path[0]).removesuffix("[]")
    inner = data.get(name) if isinstance(data, dict) else None
    if not isinstance(data, dict | None) or (name != path[0] and not (isinstance(inner, list) and len(inner) == 1)):
        return data
    return {**(data or {}), name: _with(inner, (*((0,) if name != path[0] else ()), *path[1:]), value)}


def flaw_diagnostics(document: Document, flaws: Iterable[Flaw]) -> Iterator[Diagnostic]:
    """Yield the flaws as findings."""
    for flaw in flaws:
        severity = flaw.severity
        found = document.diagnostic(
            flaw.rule, flaw.path, flaw.message, flaw.help, explains=flaw.explains, severity=severity
        )
        newer = replace(found, severity="warning", help=f"{_NEWER}; else {found.help}", edit=None)
        yield newer if _may_be_newer(document, flaw) else found


def without_consequences(document: Document, found: list[Diagnostic]) -> list[Diagnostic]:
    """Return the findings without those on a missing field that is there, misspelt or elsewhere: one cause, one
    error."""
    left, causes = list[Diagnostic](), [each for each in found if each.explains]
    errors = set[Diagnostic]()
    for each in found:
        explaining = [cause for cause in causes if _explains(document, cause, each)]
        left += [] if explaining else [each]
        errors |= set(explaining if each.severity == "error" else ())
    return [replace(each, severity="error") if each in errors else each for each in left]


def _explains(document: Document, cause: Diagnostic, each: Diagnostic) -> bool:
    is_of_object = (cause.position.file, cause.object) == (each.position.file, each.object)
    if each.code != MISSING_FIELD.code or not is_of_object:
        return False
    taken_in = value_at(document.data, cause.path)
    return _is_within(each.path, cause.explains) or (isinstance(taken_in, dict) and each.path[-1] in taken_in)


def other_kind_diagnostic(document: Document) -> Diagnostic | None:
    """Return the error on an object whose fields are those of another kind of its name: its apiVersion is the
    mistake."""
    spec, key = document.data.get("spec"), f"{document.kind}.{document.group}"
    version = document.api_version.rpartition("/")[2]
    own = _spec_fields(key, version)
    if not isinstance(spec, dict) or not own:
        return None
    strangers = [name for name in spec if name not in own]
    for other in kinds_named(document.kind) if strangers else ():
        for at in known_versions(other):
            fields = _spec_fields(other, at)
            if (other, at) != (key, version) and fields and not any(name not in fields for name in spec):
                right = f"{other.partition('.')[2]}/{at}".lstrip("/")
                what = ", ".join(f"spec.{name}" for name in strangers[:_MOST_FIELDS])
                are = "is a field" if len(strangers) == 1 else "are fields"
                message = f"{what} {are} of a {document.kind} of {right}"
                return document.diagnostic(
                    WRONG_VERSION, ("apiVersion",), message, to_write(right, help=f"write apiVersion: {right}")
                )
    return None


def _spec_fields(kind_key: str, version: str) -> Mapping[str, int]:
    schema = find_schema(kind_key, version)
    at = schema.root.get("properties", {}).get("spec") if schema is not None else None
    found: Mapping[str, int] = schema.nodes[at].get("properties", {}) if schema is not None and at is not None else {}
    return found


def _placed(document: Document, flaw: Flaw, schema: Schema) -> Flaw:
    """Return the flaw of an unknown field with the place where it belongs, where its help does not know better: a field
    that it resembles, and that can hold its value."""
    if flaw.rule not in (UNKNOWN_FIELD, MISSPELT_POD_FIELD) or not flaw.path:
        return flaw
    if flaw.explains and _has_field(schema, flaw.explains, value_at(document.data, flaw.path)):
        return flaw
    help, place = _right_place(document, flaw.path, schema)
    taken_in = tuple(_taken_in(schema, place, value_at(document.data, flaw.path))) if help.startswith(_MOVE) else ()
    help += f", without {', '.join(taken_in)}" if taken_in else ""
    return replace(flaw, rule=UNKNOWN_FIELD, help=help, explains=place, taken_in=taken_in) if help else flaw


def _taken_in(schema: Schema, place: FieldPath, value: Any) -> Iterator[str]:
    """Yield fields in a misplaced mapping that belong next to its right place: a wrong indentation has moved them into
    it."""
    own, next_to_it = (schema.node_at(_plain(path)) or {} for path in (place, place[:-1]))
    for key in value if isinstance(value, dict) else ():
        if key not in own.get("properties", ()) and key in next_to_it.get("properties", ()):
            yield key


def _plain(path: FieldPath) -> Iterator[str | int]:
    """Return the path by which a schema finds what the message shows as an item of a list."""
    return (0 if step is None else step for step in _item_steps(path))


Place = tuple[str, FieldPath]
"""The fix for an unknown field, and the place that explains missing fields; both empty if unknown."""


def _right_place(document: Document, path: FieldPath, schema: Schema) -> Place:
    """Return where the kind has an unknown field: further out, in a sibling, or in the items of another list; or where
    its contents belong, further out."""
    if path[-1] in ("apiVersion", "kind"):  # of an object where none is
        return "", ()
    name, around, inside = str(path[-1]), path[:-1], value_at(document.data, path)
    outer = [around[:length] for length in range(len(around) - 1, -1, -1)]
    for place in ((*start, name) for start in (*outer, ("spec",))):
        if _has_field(schema, place, inside) and value_at(document.data, place) is None:
            return _belongs_at(place), place
    for start in (around, ("spec",)):
        present = value_at(document.data, start)
        if (node := schema.node_at(start)) is not None and (below := _place_below(schema, node, name, inside, present)):
            return _belongs_at((*start, *below)), (*start, *below)
    if below := _place_among_amounts(schema, schema.node_at(around) or {}, name):
        return _belongs_at((*around, *below)), (*around, *below)
    lifts = isinstance(inside, dict) and inside and all(_has_field(schema, (*around, key)) for key in inside)
    if lifts and inside.keys().isdisjoint(value_at(document.data, around) or ()):
        return f"write {', '.join(inside)} in its place", (*around, next(iter(inside)))
    return _place_in_other_list(schema, path, inside)


def _belongs_at(place: FieldPath) -> str:
    return f"{_MOVE}{dotted_path(place)}"


_MOVE = "move it to "


def _has_field(schema: Schema, path: FieldPath, value: Any = None) -> bool:
    return _takes(schema, schema.node_at(path[:-1]) or {}, str(path[-1]), value)


def _takes(schema: Schema, node: Node, name: str, value: Any) -> bool:
    """Return whether the node has this field, and the field may hold what such a value does; None holds nothing."""
    if (index := node.get("properties", {}).get(name)) is None:
        return False
    field = schema.nodes[index]
    if isinstance(value, dict):
        own = field.get("properties", value).keys()
        is_partly_its_own = value.keys() <= own | node["properties"].keys() and not own.isdisjoint(value)
        return bool(field["type"] == "object" and (is_partly_its_own or not value))
    is_alike = (field["type"] == "array") == isinstance(value, list) and field["type"] != "object"
    return value is None or is_alike


def _place_in_other_list(schema: Schema, path: FieldPath, value: Any) -> Place:
    """Return the one list next to the field's whose items have it: an item of the wrong list lacks fields of that."""
    *around, key, number, name = ("", "", *path)
    outer = tuple(around[2:])
    if not isinstance(number, int) or (node := schema.node_at(outer)) is None:
        return "", ()
    lists = [other for other in node.get("properties", {}) if other != key]
    found = [other for other in lists if _has_field(schema, (*outer, other, 0, name), value)]
    return (_belongs_at((*outer, f"{found[0]}[]", name)), path[:-1]) if len(found) == 1 else ("", ())


_DEEPEST = 3
"""Levels below a misplaced field that are looked at: spec.template.spec, or the containers next to it."""


def _place_below(schema: Schema, node: Node, name: str, value: Any, present: Any) -> FieldPath:
    """Return the nearest field of that name below the node, if there is one and no other as near; else empty.

    present: the document's value there. Of several places the one in a written part that is not taken counts.
    """
    level: list[tuple[FieldPath, Node]] = [((), node)]
    for _ in range(_DEEPEST):
        inner: list[tuple[FieldPath, Node]] = []
        for before, each in level:
            for key, index in each.get("properties", {}).items():
                child, shown = schema.nodes[index], key
                if "items" in child:
                    child, shown = schema.nodes[child["items"]], f"{key}[]"
                inner.append(((*before, shown), child))
        found = [(*before, name) for before, each in inner if _takes(schema, each, name, value)]
        if found:
            usual = [place for place in found if "containers[]" in place] or found
            usual = [place for place in usual if _is_free(present, place)]
            if len(usual) > 1 and isinstance(present, dict):
                written = [place for place in usual if str(place[0]).removesuffix("[]") in present]
                usual = [place for place in written if value_at(present, place) is None]
            return usual[0] if len(usual) == 1 else ()
        level = inner
    return ()


def _is_free(present: Any, place: FieldPath) -> bool:
    """Return whether a part of the document, or one that is not written yet, lacks the field at the place."""
    if not place or not isinstance(present, dict):
        return bool(place)
    step = str(place[0])
    if not step.endswith("[]"):
        return present.get(step) is None or _is_free(present[step], place[1:])
    entries = present.get(step.removesuffix("[]"))
    return entries is None or (isinstance(entries, list) and any(_is_free(each, place[1:]) for each in entries))


def _place_among_amounts(schema: Schema, node: Node, name: str) -> FieldPath:
    """Return the one mapping of resources next to a field named like one; empty where there are none or several."""
    fields = {key: schema.nodes[index] for key, index in node.get("properties", {}).items()}
    found = [key for key, field in fields.items() if _holds_amounts(schema, field)]
    is_resource = "/" in name or name in ("cpu", "memory", "ephemeral-storage", "pods")
    return (found[0], name) if len(found) == 1 and is_resource else ()


def _holds_amounts(schema: Schema, node: Node) -> bool:
    return "values" in node and schema.nodes[node["values"]]["type"] == "quantity"


def _may_be_newer(document: Document, flaw: Flaw) -> bool:
    """Return whether an unknown field may be one of a newer operator's than the schema's, being like none that it
    has."""
    is_unlike = flaw.rule is UNKNOWN_FIELD and not flaw.explains and not flaw.help.startswith("remove it: ")
    is_moving = document.group in _MOVING_GROUPS or document.api_version in _MOVING_GROUPS
    return is_unlike and is_moving and "containers" not in flaw.path


def _is_within(left: FieldPath, right: FieldPath) -> bool:
    """Return whether one path begins with the other; the step "tasks[]" is each item of tasks."""
    steps = zip(_item_steps(left), _item_steps(right), strict=False)
    return all(step == other or None in (step, other) for step, other in steps)


def _item_steps(path: FieldPath) -> Iterator[str | int | None]:
    for step in path:
        yield step.removesuffix("[]") if isinstance(step, str) else step
        if isinstance(step, str) and step.endswith("[]"):
            yield None


def _value_flaws(document: Document) -> list[Flaw]:
    judge = Judge()
    kind_key = f"{document.kind}.{document.group}"
    objects(judge, kind_key, document.data)
    pod_names(judge, kind_key, document.data)
    for path in pod_spec_paths(document, without_schema=kind_key in kinds()):
        if path != ("spec",):
            metadata(judge, value_at(document.data, (*path[:-1], "metadata")), (*path[:-1], "metadata"))
        pod, added = value_at(document.data, path), _added_volumes(document, path)
        judge.take(pod_flaws(pod, path, document.group, added))
    return judge.flaws


_VOLUMES_OF_OPERATORS = {
    "kubeflow.org/v1 MPIJob": ("mpi-job-config", "mpi-job-kubectl"),
    "kubeflow.org/v2beta1 MPIJob": ("mpi-job-config", "ssh-auth"),
    **{
        f"ray.io/{version} Ray{name}": ("ray-logs", "shared-mem")
        for version in ("v1", "v1alpha1")
        for name in ("Cluster", "Job", "Service")
    },
    **{
        f"trainer.kubeflow.org/v1alpha1 {name}": ("mpi-hostfile", "mpi-ssh-auth")
        for name in ("ClusterTrainingRuntime", "TrainingRuntime", "TrainJob")
    },
}
"""API version and kind -> the volumes that the operator adds to each pod, which containers may mount."""


def _added_volumes(document: Document, path: FieldPath) -> frozenset[str]:
    """Return the volumes that its operator adds to the pods, and those of volumeClaimTemplates around a pod template
    (of a StatefulSet, a LeaderWorkerSet, a Workflow)."""
    found = set(_VOLUMES_OF_OPERATORS.get(f"{document.api_version} {document.kind}", ()))
    for length in range(len(path)):
        around = value_at(document.data, path[:length])
        claims = around.get("volumeClaimTemplates") if isinstance(around, dict) else None
        for claim in claims if isinstance(claims, list) else ():
            if isinstance(name := value_at(claim, ("metadata", "name")), str):
                found.add(name)
    return frozenset(found)
