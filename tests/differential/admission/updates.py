"""Changes of live objects, one field at a time: what the reconciler makes of each, and if the API server takes it."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reconciler.changes.diff import Change, classify_change
from tests.controlplane import ApiError, ControlPlane
from tests.differential.admission.defaults import MANAGER, emitted
from tests.differential.admission.objects import RESOURCES, Object

_DATA: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())["objects"]
_EVERYWHERE = (("metadata.labels.a", "b"), ("metadata.annotations.a", "b"))


def _marked(mark: str) -> frozenset[str]:
    return frozenset(
        f"{kind} {path}" for kind, found in _DATA.items() for path, _, *marks in found["changes"] if mark in marks
    )


LEFT_TO_THE_SERVER = _marked("server")
"""Asked for as updates, and refused: the dry run says so before a commit is written."""
NEW_RUNS_ALL_THE_SAME = _marked("alone")
"""Which the server would take, and no pod would follow."""


class Update(NamedTuple):
    """A change, what the reconciler makes of it, and what the server says to that; empty if it takes it."""

    name: str
    change: Change | None
    refusal: str


def updates(plane: ControlPlane) -> list[Update]:
    """Every change, each of the object as it was made."""
    made = {kind: _made(plane, kind) for kind in _DATA}
    time.sleep(0.5)  # controllers write into their objects once
    found = []
    for kind, written in made.items():
        live = plane.api("GET", _url(kind))
        for path, value, *_ in (("metadata.name", written["metadata"]["name"]), *_EVERYWHERE, *_DATA[kind]["changes"]):
            found.append(_update(plane, f"{kind} {path}", kind, _with_value(written, path, value), live))
    for kind in _DATA:
        plane.api("DELETE", f"{_url(kind)}?propagationPolicy=Background")
    pods = RESOURCES["Pod."].url()
    plane.wait_until(lambda: not plane.api("GET", pods)["items"], what="the pods to go")
    return found


def _made(plane: ControlPlane, kind: str) -> Object:
    api_version, body = _DATA[kind]["apiVersion"], _DATA[kind]["body"]
    metadata: Object = {"name": _name(kind), **({"namespace": "default"} if RESOURCES[kind].namespaced else {})}
    written = {"apiVersion": api_version, "kind": kind.partition(".")[0], "metadata": metadata, **body}
    _apply(plane, kind, emitted(kind, written).object, "")
    return written


def _url(kind: str) -> str:
    return f"{RESOURCES[kind].url()}/{_name(kind)}"


def _name(kind: str) -> str:
    return f"it-{kind.partition('.')[0].lower()}{kind.count('.')}"


def _apply(plane: ControlPlane, kind: str, thing: Object, more: str) -> None:
    url = f"{_url(kind)}?fieldManager={MANAGER}&force=true{more}"
    plane.api("PATCH", url, json.dumps(thing), "application/apply-patch+yaml")


def _update(plane: ControlPlane, name: str, kind: str, wanted: Object, live: Object) -> Update:
    desired = emitted(kind, wanted)
    change = classify_change(desired, live, finished_digest=None, has_started=True, is_update_refused=False)
    sent = change.desired if change is not None and change.action in ("in-place", "update") else desired
    assert sent is not None
    try:
        _apply(plane, kind, sent.object, "&dryRun=All")
    except ApiError as error:
        return Update(name, change, str(error))
    return Update(name, change, "")


def _with_value(made: Object, path: str, value: Any) -> Object:
    found = copy.deepcopy(made)
    at: Any = found
    *steps, last = path.split(".")
    for step in steps:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[int(step)]
    at[last] = value
    return found
