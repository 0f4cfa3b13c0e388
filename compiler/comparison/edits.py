"""Jobs of which the text differs between two revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from compiler.emit.live_changes import differing_places
from compiler.explain.names import compact_names
from compiler.fields.texts import dotted_path
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, JobKey
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.runs import run_digest

_MAX_FIELDS, _MAX_TEXT = 2, 40
_OUTSIDE = ("status", "apiVersion")
_METADATA = ("labels", "annotations")
"""The parts of a job's metadata that are written to the cluster in addition to its name."""
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Edit:
    """text: what differs, a field or two with their values where they are short. path: of the first of them.
    is_new_run: the specification differs, so that its pods are another run's."""

    text: str
    path: FieldPath = ()
    is_new_run: bool = True


def edited_jobs(base: Specs, head: Specs) -> dict[JobKey, Edit]:
    """Return the jobs of which the specification, a label or an annotation differs, their bare pods included."""
    _, _, common = paired({gang.key: gang for gang in base.gangs}, {gang.key: gang for gang in head.gangs})
    found = {key: _edit_of(*pair) for key, pair in common.items()}
    return {key: edit for key, edit in found.items() if edit is not None}


def _edit_of(before: GangSpec, after: GangSpec) -> Edit | None:
    old, new = ([each.data for each in _documents(gang)] for gang in (before, after))
    if old == new:
        return None
    is_new_run = run_digest(old[0]) != run_digest(new[0])
    places = _differences(old[0], new[0])
    if places or is_new_run:
        return _edit(places, is_new_run)
    if before.step is not None and after.step is not None and before.step.flow.data != after.step.flow.data:
        flow = _edit(_differences(before.step.flow.data, after.step.flow.data), True)
        return Edit(f"{after.step.flow.display_name}: {flow.text}")
    pods = [pod.name for pod in after.pod_documents if pod.data not in old]
    pods += [pod.name for pod in before.pod_documents if pod.name not in {each.name for each in after.pod_documents}]
    return Edit(f"other pods: {compact_names(pods, _MAX_FIELDS)}", ("metadata", "name"), is_new_run=False)


def _documents(gang: GangSpec) -> list[Document]:
    """Return the job's own, its pods', and that of the object which makes it."""
    return [gang.document, *gang.pod_documents, *((gang.step.flow,) if gang.step is not None else ())]


def _edit(places: Sequence[tuple[FieldPath, Any, Any]], is_new_run: bool) -> Edit:
    texts = [_difference_text(*place) for place in places[:_MAX_FIELDS]]
    if len(places) > _MAX_FIELDS:
        texts.append(f"{len(places) - _MAX_FIELDS} more")
    return Edit(", ".join(texts), places[0][0], is_new_run)


def _written(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are written to the cluster; the specification first."""
    found = {key: value for key, value in data.items() if key not in (*_OUTSIDE, "metadata")}
    return {**found, "metadata": {key: data["metadata"].get(key) or {} for key in _METADATA}}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[FieldPath, Any, Any]]:
    """Return the written fields that differ, with `_NOTHING` for absence."""
    return list(differing_places(_written(before), _written(after), lambda old, new, _: bool(old == new), _NOTHING))


def _difference_text(path: FieldPath, before: Any, after: Any) -> str:
    where = dotted_path(path)
    if before is _NOTHING or after is _NOTHING:
        return f"{where} is {'new' if before is _NOTHING else 'gone'}"
    values = [str(each) for each in (before, after)]
    is_short = all(len(each) <= _MAX_TEXT and "\n" not in each for each in values)
    is_plain = not any(isinstance(each, dict | list) for each in (before, after))
    return f"{where} {' -> '.join(values)}" if is_short and is_plain else f"{where} differs"


K = TypeVar("K")
V = TypeVar("V")


def paired(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[dict[K, V], dict[K, V], dict[K, tuple[V, V]]]:
    """Return new entries, removed entries, and both versions of common entries."""
    new = {key: value for key, value in after.items() if key not in before}
    gone = {key: value for key, value in before.items() if key not in after}
    return new, gone, {key: (before[key], value) for key, value in after.items() if key in before}
