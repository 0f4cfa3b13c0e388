"""Drift: what differs between an object as wanted and as it lives, in the fields that are ours, as data.

Compared is what we want to say, at the paths where we say it; what defaults, webhooks and other managers add beside it
is not ours. A field that we applied earlier (our entry in managedFields) and no longer want is a difference too.
Quantities are compared by value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compiler.emit.manifest import JOB_KINDS
from compiler.fields.quantity import QuantityError, parse_quantity
from reconciler.cluster.objects import DIGEST_ANNOTATION, REPLACE_ANNOTATION, Object, Ref, annotations_of, final_phase

FieldPath = tuple[str | int, ...]
ChangeAction = Literal["create", "update", "in-place", "replace", "held", "forbidden", "prune"]

_QUANTITY_FIELDS = frozenset(
    {
        "capability",
        "deserved",
        "guarantee",
        "requests",
        "limits",
        "hard",
        "capacity",
        "allocatable",
        "minResources",
        "overhead",
    }
)
"""Fields whose values are quantities, directly or one level below (guarantee.resource)."""

_IN_PLACE_FIELDS: Mapping[str, re.Pattern[str]] = {
    "Job.batch.volcano.sh": re.compile(
        r"metadata\..*|spec\.(minAvailable|priorityClassName|tasks\[\d+\]\.(replicas|minAvailable))"
    ),
    "Job.batch": re.compile(
        r"metadata\..*|spec\.(parallelism|suspend|activeDeadlineSeconds|ttlSecondsAfterFinished|backoffLimit)"
    ),
    "PyTorchJob.kubeflow.org": re.compile(
        r"metadata\..*|spec\.(runPolicy|elasticPolicy)\..*|spec\.pytorchReplicaSpecs\.\w+\.replicas"
    ),
}
"""What a live job lets be changed; Volcano's admission (pkg/webhooks/admission/jobs/validate) refuses everything else."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One differing field: the way to it, what we want (None: that it goes) and what is there (None: nothing)."""

    steps: FieldPath
    desired: Any
    live: Any

    @property
    def path_text(self) -> str:
        return format_path(self.steps)


@dataclass(frozen=True, slots=True)
class DesiredObject:
    """An object to be held in the cluster. digest: of one run of a job, empty for everything that does not run.
    position: file:line."""

    wave: int
    ref: Ref
    object: Object
    digest: str = ""
    position: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to do to one object, or (held, forbidden) one thing not done and why."""

    action: ChangeAction
    ref: Ref
    desired: DesiredObject | None = None
    live: Object | None = None
    fields: tuple[FieldDifference, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        paths = ", ".join(field.path_text for field in self.fields)
        return (
            f"{self.action} {self.ref}" + (f" ({paths})" if paths else "") + (f": {self.reason}" if self.reason else "")
        )


def field_differences(desired: Object, live: Object) -> tuple[FieldDifference, ...]:
    """All fields of ours in which `live` is not what we want, in the order of the wanted object, removed ones last."""
    owned = _owned_fields(live)
    body = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "status")}
    meta = {key: value for key, value in desired["metadata"].items() if key in ("labels", "annotations")}
    return (
        *_compare_values({**body, "metadata": meta}, live, owned, ()),
        *_removed_fields({**body, "metadata": meta}, live, owned, ()),
    )


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
            found = next((other for other in live if all(other.get(k) == item.get(k) for k in keys if k in item)), None)
            yield from _compare_values(item, found, {}, (*path, at))
    elif len(desired) != len(live):
        yield FieldDifference(path, desired, live)
    else:
        for at, (item, other) in enumerate(zip(desired, live, strict=True)):
            yield from _compare_values(item, other, {}, (*path, at))


def _removed_fields(desired: Any, live: Any, owned: Mapping[str, Any], path: FieldPath) -> Iterator[FieldDifference]:
    """Fields in our applied set that are still there and that we no longer want. Inside atomic lists there are none:
    they are compared whole."""
    for name, below in owned.items():
        if not name.startswith("f:") or not isinstance(live, dict) or name[2:] not in live:
            continue
        key = name[2:]
        if not isinstance(desired, dict) or desired.get(key) is None:
            yield FieldDifference((*path, key), None, live[key])
        else:
            yield from _removed_fields(desired[key], live[key], below, (*path, key))


def _owned_fields(live: Object) -> Mapping[str, Any]:
    """Our applied field set, without metadata beyond labels and annotations."""
    for entry in live["metadata"].get("managedFields") or ():
        fields = dict(entry.get("fieldsV1") or {})
        meta = fields.get("f:metadata") or {}
        fields["f:metadata"] = {k: v for k, v in meta.items() if k in ("f:labels", "f:annotations")}
        return fields
    return {}


def _is_same_value(desired: Any, live: Any, path: FieldPath) -> bool:
    """true is not 1. Amounts are equal by value; elsewhere 1 and "1" are two things."""
    if desired == live:
        return isinstance(desired, bool) == isinstance(live, bool)
    if not any(name in _QUANTITY_FIELDS for name in path[-3:-1]):
        return False
    try:
        return parse_quantity(desired) == parse_quantity(live)
    except QuantityError:
        return False


def format_path(path: FieldPath) -> str:
    """spec.tasks[0].replicas"""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else str(step)
    return out


def without_fields(thing: Object, paths: Sequence[str]) -> Object:
    """A copy without the fields at these dotted paths (those that the user leaves to other managers)."""
    copied: Object = json.loads(json.dumps(thing))
    for path in paths:
        *steps, last = path.split(".")
        at: Any = copied
        for step in steps:
            at = at.get(step) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at.pop(last, None)
    return copied


def classify_change(
    desired: DesiredObject,
    live: Object | None,
    *,
    finished_digest: str | None,
    has_started: bool,
    is_update_refused: bool,
) -> Change | None:
    """What is to be done about one wanted object; None when nothing is.

    done: the digest of the run of this job that is known to be over. started: its pods have been given nodes.
    refused: the API server has already refused to change this live job in place.
    """
    ref = desired.ref
    if desired.digest and finished_digest == desired.digest:
        return None
    if live is None:
        return Change("create", ref, desired)
    if live["metadata"].get("deletionTimestamp"):
        return Change("held", ref, desired, live, reason="it is being deleted; it returns when it is gone")
    fields = field_differences(desired.object, live)
    if ref.group_kind not in JOB_KINDS:
        return Change("update", ref, desired, live, fields) if fields else None
    return _classify_job_change(desired, live, fields, has_started=has_started, is_update_refused=is_update_refused)


def _classify_job_change(
    desired: DesiredObject,
    live: Object,
    fields: tuple[FieldDifference, ...],
    *,
    has_started: bool,
    is_update_refused: bool,
) -> Change | None:
    ref = desired.ref
    allowed = _IN_PLACE_FIELDS[ref.group_kind]
    fixed = tuple(field for field in fields if not allowed.fullmatch(field.path_text))
    movable = tuple(field for field in fields if allowed.fullmatch(field.path_text))
    over = final_phase(live)
    before = annotations_of(live).get(DIGEST_ANNOTATION)
    if before is not None and before != desired.digest and (fixed or is_update_refused or over):
        if over or not has_started:
            return Change("replace", ref, desired, live, fixed, "the specification changed: a new run")
        if annotations_of(desired.object).get(REPLACE_ANNOTATION) == "true":
            return Change(
                "replace",
                ref,
                desired,
                live,
                fixed,
                f"the specification changed and {REPLACE_ANNOTATION} allows to end the running job",
            )
        reason = (
            f"the specification changed while the job runs; its new run waits for the end, or for {REPLACE_ANNOTATION}"
        )
        return Change("held", ref, desired, live, fixed, reason)
    if over:
        return None
    if movable:
        keep = (
            desired
            if not fixed
            else DesiredObject(
                desired.wave, ref, _with_live_values(desired.object, live, fixed), desired.digest, desired.position
            )
        )
        return Change("in-place", ref, keep, live, movable)
    if fixed:
        return Change("forbidden", ref, desired, live, fixed, "a live job does not let these fields be changed")
    return None


def _with_live_values(desired: Object, live: Object, fixed: Sequence[FieldDifference]) -> Object:
    """The wanted object with the fields that cannot be changed as they are in the cluster, so that the rest can be
    written."""
    copied: Object = json.loads(json.dumps(desired))
    for field in fixed:
        steps: list[Any] = list(field.steps[:-1])
        last: Any = field.steps[-1]
        at: Any = copied
        for step in steps:
            at = at[step] if isinstance(at, list) else at.setdefault(step, {})
        if field.live is None:
            at.pop(last, None)
        else:
            at[last] = field.live
    return copied
