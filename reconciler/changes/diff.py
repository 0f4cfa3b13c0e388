"""Differences between a manifest and the live object, in the fields that are ours, as data.

Compared are the fields of the manifest; what defaults, webhooks and other managers add beside them is not ours. A field
that we applied earlier (our entry in managedFields) and no longer want is a difference too. Quantities are compared by
value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from compiler.emit.manifest import Manifest
from compiler.fields.quantity import QuantityError, parse_quantity
from compiler.kubernetes import (
    DIGEST_ANNOTATION,
    NOT_READY_TAINT,
    REPLACE_ANNOTATION,
    UNREACHABLE_TAINT,
    annotations_of,
    is_terminating,
)
from compiler.run_kinds import RUN_KINDS, end_of_run
from reconciler.changes.managed_fields import FieldPath, applied_fields, format_path
from reconciler.cluster.objects import Object, Ref, ref_of

ChangeAction = Literal["create", "update", "in-place", "replace", "held", "forbidden", "prune", "release"]

# Fields whose values are quantities, directly or one level below (guarantee.resource).
_QUANTITIES = re.compile(
    "capability|deserved|guarantee|requests|limits|hard|capacity|allocatable|minResources|overhead"
)
_IN_PLACE_FIELDS: Mapping[str, re.Pattern[str]] = {
    "Job.batch.volcano.sh": re.compile(
        r"metadata\..*|spec\.(minAvailable|priorityClassName|tasks\[\d+\]\.(replicas|minAvailable))"
    ),
    "Job.batch": re.compile(
        r"metadata\..*"
        r"|spec\.(parallelism|suspend|activeDeadlineSeconds|ttlSecondsAfterFinished|backoffLimit|podReplacementPolicy)"
    ),
}
_KUBEFLOW_FIELDS = re.compile(r"metadata\..*|spec\.((runPolicy|elasticPolicy)(\..*)?|\w+ReplicaSpecs\.\w+\.replicas)")
_TEXT_MAPS = frozenset(("labels", "annotations", "matchLabels", "nodeSelector", "data"))  # an empty text is a value
_ADDED_TOLERATIONS = frozenset((NOT_READY_TAINT, UNREACHABLE_TAINT))  # by the API server, to each pod
_BINDING_FIELDS = (("spec", "schedulingGates"), ("spec", "nodeSelector"), ("spec", "schedulerName"))
_PASSED_THROUGH_FIELDS = re.compile(r"metadata\..*|spec\.suspend|spec\.runPolicy(\..*)?")
"""Fields of a live job that may change, and of one of a kind that only passes through. Volcano's admission
(pkg/webhooks/admission/jobs/validate) refuses others."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One differing field. steps: the path to it. desired: None to remove it. live: None where there is nothing."""

    steps: FieldPath
    desired: Any
    live: Any

    @property
    def path_text(self) -> str:
        return format_path(self.steps)


@dataclass(frozen=True, slots=True)
class Change:
    """What to do to one object, or what is not done and why. is_deferred: held as intended: it waits, or is
    suspended."""

    action: ChangeAction
    ref: Ref
    desired: Manifest | None = None
    live: Object | None = None
    fields: tuple[FieldDifference, ...] = ()
    reason: str = ""
    is_deferred: bool = False

    @property
    def run_digest(self) -> str:
        return "" if self.desired is None else self.desired.run_digest

    def __str__(self) -> str:
        paths = ", ".join(field.path_text for field in self.fields)
        detail = f" ({paths})" if paths else ""
        return f"{self.action} {self.ref}{detail}" + (f": {self.reason}" if self.reason else "")


def field_differences(desired: Object, live: Object) -> tuple[FieldDifference, ...]:
    """All fields of ours in which `live` differs from `desired`, in the order of the latter, removed ones last."""
    owned = applied_fields(live)
    body = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "status")}
    metadata = desired["metadata"]
    body["metadata"] = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
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
    """A list that the server merges by keys (our field set then names its items) item by item; any other whole."""
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
    wanted = {key: like[key] for key in keys if key in like}
    return next((item for item in items if item.items() >= wanted.items()), None)


def _removed_fields(desired: Any, live: Any, owned: Mapping[str, Any], path: FieldPath) -> Iterator[FieldDifference]:
    """Fields that we applied and no longer want. Inside atomic lists there are none: they are compared whole."""
    for name, below in owned.items():
        if not name.startswith("f:") or not isinstance(live, dict) or name[2:] not in live:
            continue
        key = name[2:]
        if not isinstance(desired, dict) or desired.get(key) is None:
            yield FieldDifference((*path, key), None, live[key])
        else:
            yield from _removed_fields(desired[key], live[key], below, (*path, key))


def _is_same_value(desired: Any, live: Any, path: FieldPath) -> bool:
    """Whether two values are equal; quantities by value. false, 0, an empty text or list are as good as nothing."""
    if desired == live:
        return isinstance(desired, bool) == isinstance(live, bool)
    if live is None and path[:1] == ("spec",) and _TEXT_MAPS.isdisjoint(path):  # the API server leaves such values out
        return not desired and not isinstance(desired, dict)
    if not any(re.fullmatch(_QUANTITIES, str(name)) for name in path[-3:-1]):
        return False
    try:
        return parse_quantity(desired) == parse_quantity(live)
    except QuantityError:
        return False


def without_fields(item: Object, paths: Sequence[str]) -> Object:
    """A copy without the fields at these dotted paths (those that the user leaves to other managers)."""
    copied: Object = json.loads(json.dumps(item))
    for path in paths:
        *steps, last = path.split(".")
        at: Any = copied
        for step in steps:
            at = at.get(step) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at.pop(last, None)
    return copied


def classify_change(
    desired: Manifest,
    live: Object | None,
    *,
    finished_digest: str | None = None,
    has_started: bool = False,
    is_update_refused: bool = False,
) -> Change | None:
    """What is to be done about one manifest; None when nothing is.

    finished_digest: of the run of this job that is known to be over. has_started: its pods have been given nodes.
    is_update_refused: the API server refused to change this live object so; it would take one that is no job anew.
    """
    ref = ref_of(desired.object)
    if desired.run_digest and finished_digest == desired.run_digest:
        return None
    if live is None:
        return Change("create", ref, desired)
    if is_terminating(live):
        finalizers = ", ".join(live["metadata"].get("finalizers") or ("its dependents",))
        reason = f"it is being deleted and waits for {finalizers}; it returns when it is gone"
        return Change("held", ref, desired, live, reason=reason)
    fields = field_differences(desired.object, live)
    if ref.group_kind == "Pod":  # no gate comes back, no selector of a node goes, and its scheduler is never another
        bound = tuple(field for field in fields if _comes_of_running(field))
        fields = tuple(field for field in fields if field not in bound)
        desired = replace(desired, object=_with_live_values(desired.object, bound)) if bound else desired
    if ref.group_kind not in RUN_KINDS and not desired.run_digest:
        if not fields or not is_update_refused:
            return Change("update", ref, desired, live, fields) if fields else None
        reason = f"the server lets it not be changed so, and {REPLACE_ANNOTATION} allows to make it anew"
        return Change("replace", ref, desired, live, fields, reason)
    others = _KUBEFLOW_FIELDS if ref.group_kind.partition(".")[2] == "kubeflow.org" else _PASSED_THROUGH_FIELDS
    allowed = _IN_PLACE_FIELDS.get(ref.group_kind, others)
    fixed = tuple(field for field in fields if not allowed.fullmatch(field.path_text))
    digest = annotations_of(live).get(DIGEST_ANNOTATION)
    is_over = end_of_run(live) is not None
    is_new_run = digest is not None and digest != desired.run_digest
    if is_new_run and (fixed or is_update_refused or is_over):
        return _classify_new_run(Change("replace", ref, desired, live, fixed), is_over or not has_started)
    if is_over or not fields:
        return None
    movable = tuple(field for field in fields if field not in fixed)
    if not movable:
        return Change("forbidden", ref, desired, live, fixed, "a live job does not let these fields be changed")
    kept = _with_claim_names(_with_live_values(desired.object, fixed), live)
    return Change("in-place", ref, replace(desired, object=kept), live, movable)


def _comes_of_running(field: FieldDifference) -> bool:
    """Whether a live pod differs there because it was bound, or got the tolerations of every pod."""
    if field.steps[:2] in _BINDING_FIELDS:
        return True
    if field.steps != ("spec", "tolerations") or not isinstance(field.live, list):
        return False
    wanted = field.desired or []
    added = field.live[len(wanted) :]
    return field.live[: len(wanted)] == wanted and {row.get("key") for row in added} <= _ADDED_TOLERATIONS


def _with_claim_names(desired: Object, live: Object) -> Object:
    """The desired job with the claim names that Volcano gave it: without them it would make other claims."""
    wanted, known = ((item.get("spec") or {}).get("volumes") or () for item in (desired, live))
    if "tasks" not in desired.get("spec", {}) or not wanted or len(wanted) != len(known):
        return desired
    pairs = zip(wanted, known, strict=True)
    volumes = [{**old, **volume} if volume.get("volumeClaim") else volume for volume, old in pairs]
    return {**desired, "spec": {**desired["spec"], "volumes": volumes}}


def _classify_new_run(change: Change, may_end_live: bool) -> Change:
    if may_end_live:
        return replace(change, reason="the specification changed: a new run")
    if change.desired and annotations_of(change.desired.object).get(REPLACE_ANNOTATION) == "true":
        return replace(
            change, reason=f"the specification changed and {REPLACE_ANNOTATION} allows to end the running job"
        )
    reason = f"the specification changed while the job runs; its new run waits for the end, or for {REPLACE_ANNOTATION}"
    return replace(change, action="held", reason=reason)


def _with_live_values(desired: Object, fixed: Sequence[FieldDifference]) -> Object:
    """The manifest's object, with the fields that cannot be changed as they are in the cluster."""
    copied: Object = json.loads(json.dumps(desired))
    for field in fixed:
        steps: list[Any] = [*field.steps]
        last = steps.pop()
        at: Any = copied
        for step in steps:
            at = at[step] if isinstance(at, list) else at.setdefault(step, {})
        if field.live is None:
            at.pop(last, None)
        else:
            at[last] = field.live
    return copied
