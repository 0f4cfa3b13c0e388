"""Decides how a live object with a changed text is treated: it is changed in place, or its job has another run.

The reconciler and `gangplan diff` use the same rules. They compare the fields of a manifest, without additions of
defaults, webhooks and other managers. Quantities are compared by value.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from compiler.fields.quantity import is_same_quantity
from compiler.fields.texts import dotted_path, short_list
from compiler.kubernetes import REPLACE_ANNOTATION, Object, annotations_of
from compiler.run_kinds import run_kind_of
from compiler.syntax.documents import FieldPath

_QUANTITY_FIELDS = re.compile(
    "capability|deserved|guarantee|requests|limits|hard|capacity|allocatable|minResources|overhead"
)
"""Fields whose values are quantities, directly or one level below (guarantee.resource)."""

_TABLES = tomllib.loads((files("compiler.emit") / "live_changes.toml").read_text("utf-8"))
_DEFAULTS = _TABLES.pop("defaults")
_FIELDS = {name: {kind: re.compile(fields) for kind, fields in rows.items()} for name, rows in _TABLES.items()}
"""Fields of live objects that are changed in place, and that servers refuse to change, by kinds."""
_KUBEFLOW_FIELDS = re.compile(
    r"metadata\..*|spec\.(runPolicy|elasticPolicy)(\..*)?|spec\.\w+ReplicaSpecs\.\w+\.replicas"
)
_TEXT_MAPS = frozenset(("labels", "annotations", "matchLabels", "nodeSelector", "data"))
"""Mappings in which an empty text is a value."""
_PASSED_THROUGH_FIELDS = re.compile(r"metadata\..*|spec\.suspend|spec\.runPolicy(\..*)?")
"""Fields of a live job that may change, and of one of a kind that only passes through. Volcano's admission
(pkg/webhooks/admission/jobs/validate) refuses others."""
RunAction = Literal["none", "in-place", "replace", "held", "forbidden"]
"""held: the new run waits for the end of the live one. forbidden: no field that differs may be changed."""
NEVER_REPLACED = frozenset(
    {"Namespace", "CustomResourceDefinition.apiextensions.k8s.io", "Queue.scheduling.volcano.sh"}
)
"""Kind.group of objects with which others would be deleted that may not be ours."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One differing field. steps: the path to it. desired: None to remove it. live: None where there is nothing."""

    steps: FieldPath
    desired: Any
    live: Any

    @property
    def path_text(self) -> str:
        return dotted_path(self.steps)


@dataclass(frozen=True, slots=True)
class RunChange:
    """The treatment of a live job. movable: the differing fields that may be changed. fixed: the others."""

    action: RunAction
    movable: tuple[FieldDifference, ...] = ()
    fixed: tuple[FieldDifference, ...] = ()
    reason: str = ""


def run_change(
    desired: Object,
    fields: Sequence[FieldDifference],
    *,
    is_new_run: bool,
    is_over: bool,
    has_started: bool,
    is_update_refused: bool = False,
) -> RunChange:
    """Return the treatment of a live job that differs in these fields. is_new_run: its specification changed. is_over:
    it has ended. has_started: its pods have been given nodes. is_update_refused: the server refused to change it."""
    kind = run_kind_of(desired)
    others = _KUBEFLOW_FIELDS if kind.partition(".")[2] == "kubeflow.org" else _PASSED_THROUGH_FIELDS
    allowed = _FIELDS["in_place"].get(kind, others)
    fixed = tuple(field for field in fields if not allowed.fullmatch(field.path_text))
    movable = tuple(field for field in fields if field not in fixed)
    stays = all(field.steps[-1] == "schedulingGates" and field.desired is None for field in fixed)  # it was suspended
    if is_new_run and (not stays or is_update_refused or is_over):
        action, reason = _new_run_action(desired, may_end_live=is_over or not has_started)
        return RunChange(action, movable, fixed, reason)
    if is_over or (stays and not movable):
        return RunChange("none")
    if not movable:
        names = short_list([field.path_text for field in fixed])
        return RunChange("forbidden", movable, fixed, f"these fields of a live job cannot be changed: {names}")
    return RunChange("in-place", movable, fixed)


def _new_run_action(desired: Object, *, may_end_live: bool) -> tuple[RunAction, str]:
    """Replace the live job, or hold the new run until the live job is over."""
    if may_end_live:
        return "replace", "the specification changed: a new run"
    if may_be_replaced(desired):
        return "replace", f"the specification changed and {REPLACE_ANNOTATION} allows to end the running job"
    reason = f"the specification changed while the job runs; its new run waits for the end, or for {REPLACE_ANNOTATION}"
    return "held", reason


def may_be_replaced(item: Object) -> bool:
    """Return whether its owner allows to delete the object and to recreate it, where it cannot be changed."""
    return annotations_of(item).get(REPLACE_ANNOTATION) == "true"


def refused_fields(fields: Sequence[FieldDifference], kind: str) -> tuple[FieldDifference, ...]:
    """Return the fields that the API server is known to refuse to change on a live object of this Kind.group."""
    refused = _FIELDS["refused"].get(kind)
    return () if refused is None else tuple(field for field in fields if refused.fullmatch(field.path_text))


def written_differences(desired: Object, former: Object) -> tuple[FieldDifference, ...]:
    """Return the fields in which two manifests differ, including removed ones in lists. Fields of others are in
    neither."""
    places = differing_places(_body(desired), _body(former), _is_same_written)
    return tuple(FieldDifference(*place) for place in places)


def _body(item: Object) -> dict[str, Any]:
    body = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "status")}
    metadata = item["metadata"]
    return {**body, "metadata": {key: metadata[key] for key in ("labels", "annotations") if key in metadata}}


def differing_places(
    one: Any, other: Any, is_same: Callable[[Any, Any, FieldPath], bool], missing: Any = None, path: FieldPath = ()
) -> Iterator[tuple[FieldPath, Any, Any]]:
    """Yield the places at which two values differ, with both values. Lists of one length are compared item by item.
    missing: represents an absent value."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            inside = one.get(key, missing), other.get(key, missing)
            yield from differing_places(*inside, is_same, missing, (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, inside in enumerate(zip(one, other, strict=True)):
            yield from differing_places(*inside, is_same, missing, (*path, at))
    elif not is_same(one, other, path):
        yield path, one, other


def differences_of_owned(desired: Object, live: Object, owned: Mapping[str, Any]) -> tuple[FieldDifference, ...]:
    """Return all fields of ours in which `live` differs from `desired`, in the order of the latter, removed ones last.
    owned: the field set (fieldsV1) that was applied."""
    body = _body(desired)
    return *_compare_values(body, live, owned, ()), *_removed_fields(body, live, owned, ())


def _compare_values(desired: Any, live: Any, owned: Mapping[str, Any], path: FieldPath) -> Iterator[FieldDifference]:
    if isinstance(desired, dict) and isinstance(live, dict):
        for key, value in desired.items():
            if value is not None:
                yield from _compare_values(value, live.get(key), owned.get(f"f:{key}") or {}, (*path, key))
    elif isinstance(desired, list) and isinstance(live, list):
        yield from _compare_lists(desired, live, owned, path)
    elif not _is_same_value(desired, live, path):
        yield FieldDifference(path, desired, live)


def _compare_lists(
    desired: list[Any], live: list[Any], owned: Mapping[str, Any], path: FieldPath
) -> Iterator[FieldDifference]:
    """Yield a list that the server merges by keys (our field set then names its items) item by item; any other
    whole."""
    keys = next((tuple(json.loads(name[2:])) for name in owned if name.startswith("k:")), ())
    if keys:
        for at, item in enumerate(desired):
            yield from _compare_values(item, _item_with_keys(live, item, keys), {}, (*path, at))
    elif len(desired) != len(live):
        yield FieldDifference(path, desired, live)
    else:
        for at, (item, other) in enumerate(zip(desired, live, strict=True)):
            yield from _compare_values(item, other, {}, (*path, at))


def _item_with_keys(items: list[Any], like: Any, keys: Sequence[str]) -> Any:
    """Return the first item that agrees with `like` in those of `keys` that it has; None where none does."""
    wanted = {key: like[key] for key in keys if key in like}
    return next((item for item in items if item.items() >= wanted.items()), None)


def _removed_fields(desired: Any, live: Any, owned: Mapping[str, Any], path: FieldPath) -> Iterator[FieldDifference]:
    """Yield fields in our applied set that still exist and are no longer wanted. Atomic lists are compared as a
    whole."""
    for name, below in owned.items():
        if not name.startswith("f:") or not isinstance(live, dict) or name[2:] not in live:
            continue
        key = name[2:]
        if not isinstance(desired, dict) or desired.get(key) is None:
            yield FieldDifference((*path, key), None, live[key])
        else:
            yield from _removed_fields(desired[key], live[key], below, (*path, key))


def _is_same_written(desired: Any, former: Any, path: FieldPath) -> bool:
    """Return whether the server makes the same of two values. None: nothing is written."""
    default = _DEFAULTS.get(path[-1])
    one, other = (default if value is None else value for value in (desired, former))
    return _is_same_value(one, other, path)


def _is_same_value(desired: Any, live: Any, path: FieldPath) -> bool:
    """Return whether two values are equal. true is not 1. Quantities are compared by value; elsewhere 1 is not "1".
    false, 0, an empty text or list are as good as nothing."""
    if desired == live:
        return isinstance(desired, bool) == isinstance(live, bool)
    if live is None and path[:1] == ("spec",) and _TEXT_MAPS.isdisjoint(path):  # the API server leaves such values out
        return not desired and not isinstance(desired, dict)
    return any(_QUANTITY_FIELDS.fullmatch(str(name)) for name in path[-3:-1]) and is_same_quantity(desired, live)
