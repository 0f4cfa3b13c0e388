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

from compiler.fields.quantity import QuantityError, parse_quantity
from reconciler.objects import DIGEST, JOBS, REPLACE, Object, Ref, annotations_of, finished

Path = tuple[str | int, ...]
Action = Literal["create", "update", "in-place", "replace", "held", "forbidden", "prune"]

_AMOUNTS = frozenset(
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

_IN_PLACE: Mapping[str, re.Pattern[str]] = {
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
class Field:
    """One differing field: the way to it, what we want (None: that it goes) and what is there (None: nothing)."""

    steps: Path
    want: Any
    live: Any

    @property
    def path(self) -> str:
        return text(self.steps)


@dataclass(frozen=True, slots=True)
class Wanted:
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

    action: Action
    ref: Ref
    wanted: Wanted | None = None
    live: Object | None = None
    fields: tuple[Field, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        paths = ", ".join(field.path for field in self.fields)
        return (
            f"{self.action} {self.ref}" + (f" ({paths})" if paths else "") + (f": {self.reason}" if self.reason else "")
        )


def differences(want: Object, live: Object) -> tuple[Field, ...]:
    """All fields of ours in which `live` is not what we want, in the order of the wanted object, removed ones last."""
    owned = _owned(live)
    body = {key: value for key, value in want.items() if key not in ("apiVersion", "kind", "status")}
    meta = {key: value for key, value in want["metadata"].items() if key in ("labels", "annotations")}
    return (
        *_compare({**body, "metadata": meta}, live, owned, ()),
        *_removed({**body, "metadata": meta}, live, owned, ()),
    )


def _compare(want: Any, live: Any, owned: Mapping[str, Any], path: Path) -> Iterator[Field]:
    if isinstance(want, dict) and isinstance(live, dict):
        for key, value in want.items():
            if value is not None:
                yield from _compare(value, live.get(key), owned.get(f"f:{key}") or {}, (*path, key))
    elif isinstance(want, list) and isinstance(live, list):
        yield from _compare_lists(want, live, owned, path)
    elif not _same(want, live, path):
        yield Field(path, want, live)


def _compare_lists(want: list[Any], live: list[Any], owned: Mapping[str, Any], path: Path) -> Iterator[Field]:
    """A list that the server merges by keys (our field set then names its items) item by item; any other whole."""
    keys = next((tuple(json.loads(name[2:])) for name in owned if name.startswith("k:")), ())
    if keys:
        for at, item in enumerate(want):
            found = next((other for other in live if all(other.get(k) == item.get(k) for k in keys if k in item)), None)
            yield from _compare(item, found, {}, (*path, at))
    elif len(want) != len(live):
        yield Field(path, want, live)
    else:
        for at, (item, other) in enumerate(zip(want, live, strict=True)):
            yield from _compare(item, other, {}, (*path, at))


def _removed(want: Any, live: Any, owned: Mapping[str, Any], path: Path) -> Iterator[Field]:
    """Fields in our applied set that are still there and that we no longer want. Inside atomic lists there are none:
    they are compared whole."""
    for name, below in owned.items():
        if not name.startswith("f:") or not isinstance(live, dict) or name[2:] not in live:
            continue
        key = name[2:]
        if not isinstance(want, dict) or want.get(key) is None:
            yield Field((*path, key), None, live[key])
        else:
            yield from _removed(want[key], live[key], below, (*path, key))


def _owned(live: Object) -> Mapping[str, Any]:
    """Our applied field set, without metadata beyond labels and annotations."""
    for entry in live["metadata"].get("managedFields") or ():
        fields = dict(entry.get("fieldsV1") or {})
        meta = fields.get("f:metadata") or {}
        fields["f:metadata"] = {k: v for k, v in meta.items() if k in ("f:labels", "f:annotations")}
        return fields
    return {}


def _same(want: Any, live: Any, path: Path) -> bool:
    """true is not 1. Amounts are equal by value; elsewhere 1 and "1" are two things."""
    if want == live:
        return isinstance(want, bool) == isinstance(live, bool)
    if not any(name in _AMOUNTS for name in path[-3:-1]):
        return False
    try:
        return parse_quantity(want) == parse_quantity(live)
    except QuantityError:
        return False


def text(path: Path) -> str:
    """spec.tasks[0].replicas"""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else str(step)
    return out


def without(thing: Object, paths: Sequence[str]) -> Object:
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


def classify(wanted: Wanted, live: Object | None, *, done: str | None, started: bool, refused: bool) -> Change | None:
    """What is to be done about one wanted object; None when nothing is.

    done: the digest of the run of this job that is known to be over. started: its pods have been given nodes.
    refused: the API server has already refused to change this live job in place.
    """
    ref = wanted.ref
    if wanted.digest and done == wanted.digest:
        return None
    if live is None:
        return Change("create", ref, wanted)
    if live["metadata"].get("deletionTimestamp"):
        return Change("held", ref, wanted, live, reason="it is being deleted; it returns when it is gone")
    fields = differences(wanted.object, live)
    if ref.group_kind not in JOBS:
        return Change("update", ref, wanted, live, fields) if fields else None
    return _job(wanted, live, fields, started=started, refused=refused)


def _job(wanted: Wanted, live: Object, fields: tuple[Field, ...], *, started: bool, refused: bool) -> Change | None:
    ref = wanted.ref
    allowed = _IN_PLACE[ref.group_kind]
    fixed = tuple(field for field in fields if not allowed.fullmatch(field.path))
    movable = tuple(field for field in fields if allowed.fullmatch(field.path))
    over = finished(live)
    before = annotations_of(live).get(DIGEST)
    if before is not None and before != wanted.digest and (fixed or refused or over):
        if over or not started:
            return Change("replace", ref, wanted, live, fixed, "the specification changed: a new run")
        if annotations_of(wanted.object).get(REPLACE) == "true":
            return Change(
                "replace",
                ref,
                wanted,
                live,
                fixed,
                f"the specification changed and {REPLACE} allows to end the running job",
            )
        reason = f"the specification changed while the job runs; its new run waits for the end, or for {REPLACE}"
        return Change("held", ref, wanted, live, fixed, reason)
    if over:
        return None
    if movable:
        keep = (
            wanted
            if not fixed
            else Wanted(wanted.wave, ref, _as_live(wanted.object, live, fixed), wanted.digest, wanted.position)
        )
        return Change("in-place", ref, keep, live, movable)
    if fixed:
        return Change("forbidden", ref, wanted, live, fixed, "a live job does not let these fields be changed")
    return None


def _as_live(want: Object, live: Object, fixed: Sequence[Field]) -> Object:
    """The wanted object with the fields that cannot be changed as they are in the cluster, so that the rest can be
    written."""
    copied: Object = json.loads(json.dumps(want))
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
