"""Differences between a manifest and the live object, in the fields that are ours, as data.

Compared are the fields of the manifest; what defaults, webhooks and other managers add to them is not ours. A field
that we applied earlier (our entry in managedFields) and no longer want is a difference too. Quantities are compared by
value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from compiler import kubernetes as k8s
from compiler.emit.live_changes import FieldDifference, differences_of_owned, run_change
from compiler.emit.manifest import Manifest
from compiler.run_kinds import RUN_KINDS, end_of_run
from reconciler.changes.managed_fields import applied_fields
from reconciler.cluster.objects import Object, Ref, ref_of

ChangeAction = Literal["create", "update", "in-place", "replace", "held", "forbidden", "prune", "release"]

_ADDED_TOLERATIONS = frozenset((k8s.NOT_READY_TAINT, k8s.UNREACHABLE_TAINT))
"""Keys that the API server adds to the tolerations of a pod."""
_PLACEMENT = ("metadata", "annotations", k8s.PLACEMENT_ANNOTATION)
_BINDING_FIELDS = (("spec", "schedulingGates"), ("spec", "nodeSelector"), ("spec", "schedulerName"))


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one object, or why it is not changed. is_deferred: not applied on purpose, as it waits or is
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
    """Return all our fields in which `live` differs from `desired`, including fields applied before and no longer
    wanted."""
    return differences_of_owned(desired, live, applied_fields(live))


def without_fields(item: Object, paths: Sequence[str]) -> Object:
    """Return a copy without the fields at these dotted paths, which the user leaves to other managers."""
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
    """Return the change that one manifest needs; None for no change.

    finished_digest: of the run of this job that is known to be over. has_started: its pods have been given nodes.
    is_update_refused: the API server refused this change of the live object. Unless it is a job, it may be recreated.
    """
    ref = ref_of(desired.object)
    if desired.run_digest and finished_digest == desired.run_digest:
        return None
    if live is None:
        return Change("create", ref, desired)
    if k8s.is_terminating(live):
        finalizers = ", ".join(live["metadata"].get("finalizers") or ("its dependents",))
        reason = f"it is being deleted and waits for {finalizers}; it returns when it is gone"
        return Change("held", ref, desired, live, reason=reason)
    fields = field_differences(desired.object, live)
    if ref.group_kind == "Pod":  # no gate returns, no node selector is removed, no scheduler changes
        bound = tuple(field for field in fields if _comes_of_running(field))
        fields = tuple(field for field in fields if field not in bound)
        desired = replace(desired, object=_with_live_values(desired.object, bound)) if bound else desired
    if ref.group_kind not in RUN_KINDS and not desired.run_digest:
        if not fields or not is_update_refused:
            return Change("update", ref, desired, live, fields) if fields else None
        reason = f"the server refuses this change, and {k8s.REPLACE_ANNOTATION} allows recreating it"
        return Change("replace", ref, desired, live, fields, reason)
    if has_started and (ended := tuple(field for field in fields if _is_placement_of_fewer(field))):
        fields = tuple(field for field in fields if field not in ended)
        desired = replace(desired, object=_with_live_values(desired.object, ended))
    digest = k8s.annotations_of(live).get(k8s.DIGEST_ANNOTATION)
    found = run_change(
        desired.object,
        fields,
        is_new_run=digest is not None and digest != desired.run_digest,
        is_over=end_of_run(live) is not None,
        has_started=has_started,
        is_update_refused=is_update_refused,
    )
    if found.action == "none":
        return None
    if found.action != "in-place":
        return Change(found.action, ref, desired, live, found.fixed, found.reason)
    kept = _with_claim_names(_with_live_values(desired.object, found.fixed), live)
    return Change("in-place", ref, replace(desired, object=kept), live, found.movable)


def _comes_of_running(field: FieldDifference) -> bool:
    """Return whether a live pod differs there because it was bound, or got the tolerations of every pod."""
    if field.steps[:2] in _BINDING_FIELDS:
        return True
    if field.steps != ("spec", "tolerations") or not isinstance(field.live, list):
        return False
    wanted = field.desired or []
    added = field.live[len(wanted) :]
    return field.live[: len(wanted)] == wanted and {row.get("key") for row in added} <= _ADDED_TOLERATIONS


def _is_placement_of_fewer(field: FieldDifference) -> bool:
    """Return whether the placement only loses pods, as it does when pods end.

    No gate needs such a write, and it would come at the moment at which Volcano acts on the end of a task: where its
    own write of the status is refused because the object has changed, its controller loses the action
    (killPods in pkg/controllers/job/job_controller_actions.go increments the version of the job that its cache shares,
    so the request tried again counts as outdated). A job with TaskCompleted -> CompleteJob would then run for ever.
    """
    if field.steps != _PLACEMENT:
        return False
    try:
        desired, live = _places(field.desired), _places(field.live)
    except (TypeError, ValueError, AttributeError):
        return False  # others may have written any text there
    return all(live.get(place, 0) >= pods for place, pods in desired.items())


def _places(text: str) -> dict[tuple[str, str], int]:
    """(role, node) -> pods of the annotation's text. Raises ValueError, TypeError and AttributeError for others."""
    return {(role, node): int(pods) for role, nodes in json.loads(text).items() for node, pods in nodes.items()}


def _with_claim_names(desired: Object, live: Object) -> Object:
    """Return the desired job with the claim names that Volcano gave it: without them it would make other claims."""
    wanted, known = ((item.get("spec") or {}).get("volumes") or () for item in (desired, live))
    if "tasks" not in desired.get("spec", {}) or not wanted or len(wanted) != len(known):
        return desired
    pairs = zip(wanted, known, strict=True)
    volumes = [{**old, **volume} if volume.get("volumeClaim") else volume for volume, old in pairs]
    return {**desired, "spec": {**desired["spec"], "volumes": volumes}}


def _with_live_values(desired: Object, fixed: Sequence[FieldDifference]) -> Object:
    """Return the manifest's object, with the fields that cannot be changed as they are in the cluster."""
    copied: Object = json.loads(json.dumps(desired))
    for field in reversed(fixed):  # of rows that are to go the last one first
        steps: list[Any] = [*field.steps]
        last = steps.pop()
        at: Any = copied
        for step in steps:
            at = at[step] if isinstance(at, list) else at.setdefault(step, {})
        if field.live is None and isinstance(at, list):
            del at[last]
        elif field.live is None:
            at.pop(last, None)
        else:
            at[last] = field.live
    return copied
