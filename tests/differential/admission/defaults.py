"""An object as it is written and as the API server keeps it, with the defaults of Kubernetes and of Volcano's webhooks
filled in: to gangplan both mean the same, and the reconciler finds nothing to write."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from compiler.emit.manifest import Manifest
from compiler.emit.waves import fill_job_defaults, fill_queue_defaults
from compiler.kubernetes import DIGEST_ANNOTATION
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.run_kinds import RUN_KINDS
from compiler.syntax.runs import run_digest
from reconciler.changes.diff import classify_change
from tests.controlplane import ApiError, ControlPlane
from tests.differential.admission.objects import RESOURCES, Object, valid_object

MANAGER = "gangplan"
_OPTIONAL_NAMES = """
    queue schedulerName minAvailable maxRetry policies plugins networkTopology partitionPolicy minPartitions
    replicas parallelism completions completionMode backoffLimit weight reclaimable parent minMember minTaskMember
    subGroupPolicy subGroupSize minSubGroups mode highestTierAllowed priorityClassName requests restartPolicy
    dequeueStrategy strategy updateStrategy operator effect annotations labels tierName scopes suspend
"""
_OPTIONAL = frozenset(_OPTIONAL_NAMES.split())
_FILLED_IN = frozenset(("queue", "schedulerName", "minAvailable", "maxRetry", "weight", "name"))
"""Of which an empty text or 0 is as good as nothing."""
_NOTHINGS: tuple[Object, ...] = (
    {"hostPID": False},
    {"tolerations": []},
    {"nodeName": ""},
    {"activeDeadlineSeconds": None},
)
"""What the server leaves out of a pod."""
_POSITIONS = ("document", "documents", "made_by", "path", "paths")
_ADDED_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FOREIGN = frozenset(("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"))


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """An object as it is written, and as the API server keeps it."""

    kind: str
    written: Object
    kept: Object


def kept_objects(plane: ControlPlane, seed: int, number: int, *, by_gangplan: bool) -> list[Kept]:
    """Objects that the server takes, with some of their optional fields left out. by_gangplan: applied as the
    reconciler does, else as written."""
    rng = Random(seed)  # noqa: S311
    drawn = [_with_less(rng, *valid_object(rng, f"it-{at}")) for at in range(number)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda each: _applied(plane, *each, by_gangplan=by_gangplan), drawn))
    return [Kept(kind, made, kept) for (kind, made), kept in zip(drawn, answers, strict=True) if kept is not None]


def _with_less(rng: Random, kind: str, made: Object) -> tuple[str, Object]:
    made = copy.deepcopy(made)
    share = rng.choice((0.0, 0.2, 0.5))
    for holder, key in list(_optional_fields(made)):
        if rng.random() < share:
            holder.pop(key, None)
        elif key in _FILLED_IN and rng.random() < share / 2:
            holder[key] = type(holder[key])()
    for part in list(_mappings(made)):
        if "containers" in part and rng.random() < share:
            part |= rng.choice(_NOTHINGS)
    if kind.startswith("Queue.") and rng.random() < share:
        made["metadata"]["annotations"] = {"volcano.sh/hierarchy": "eng/dev", "volcano.sh/hierarchy-weights": "2/3"}
    return kind, made


def _optional_fields(value: Any, parent: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    """Mappings with those of their keys that may be missing."""
    if isinstance(value, list):
        for child in value:
            yield from _optional_fields(child, parent)
    for key, child in value.items() if isinstance(value, dict) else ():
        if (key in _OPTIONAL and parent) or (key == "name" and parent == "tasks"):
            yield value, key
        if key not in ("metadata", "env", "volumes", "volumeMounts", "ports"):
            yield from _optional_fields(child, key)


def _applied(plane: ControlPlane, kind: str, made: Object, *, by_gangplan: bool) -> Object | None:
    """What a server-side apply without effect gives; None where it is refused."""
    url = f"{RESOURCES[kind].url()}/{made['metadata']['name']}?fieldManager={MANAGER}&force=true&dryRun=All"
    text = json.dumps(emitted(kind, made).object if by_gangplan else made)
    try:
        found: Object = plane.api("PATCH", url, text, "application/apply-patch+yaml")
    except ApiError as error:
        if error.status >= 500:
            raise
        return None
    return found


def misread(found: Kept) -> str:
    """What gangplan reads otherwise from the object as it is kept; empty where there is nothing."""
    written, kept = _meaning(found.written), _meaning(_as_text(found.kept))
    return (
        ""
        if written == kept
        else f"{found.kind}: {json.dumps(found.written)}\n  " + "\n  ".join(_differences(written, kept))
    )


def drift(found: Kept) -> str:
    """What the reconciler would write, or say that it may not; empty where there is nothing."""
    change = classify_change(
        emitted(found.kind, found.written), found.kept, finished_digest=None, has_started=True, is_update_refused=False
    )
    changes = "".join(f"\n  {field.desired!r} is kept as {field.live!r}" for field in change.fields) if change else ""
    return f"{change}{changes}" if change else ""


def emitted(kind: str, made: Object) -> Manifest:
    """As the reconciler applies it."""
    found = json.loads(json.dumps(made))
    if kind == "Job.batch.volcano.sh":
        fill_job_defaults(found, "default")
    elif kind == "Queue.scheduling.volcano.sh":
        fill_queue_defaults(found)
    digest = run_digest(made) if kind in RUN_KINDS else ""
    if digest:
        found["metadata"]["annotations"] = {**(found["metadata"].get("annotations") or {}), DIGEST_ANNOTATION: digest}
    return Manifest(0, found, "it:1", digest)


def _as_text(kept: Object) -> Object:
    """As somebody would write it: without what only the server can say."""
    found: Object = json.loads(json.dumps(kept))
    found.pop("status", None)
    for key in _FOREIGN:
        found["metadata"].pop(key, None)
    for part in _mappings(found):
        if part.get("schedulerName") == "default-scheduler":  # to gangplan nobody has chosen yet
            del part["schedulerName"]
        if "containers" in part:
            part.pop("priority", None)
            added = [row for row in part.get("tolerations") or () if row.get("key") in _ADDED_TOLERATIONS]
            part["tolerations"] = [row for row in part.get("tolerations") or () if row not in added]
        if found["kind"] in ("Job", "CronJob") and not {"template", "selector"} - part.keys():
            del part["selector"]
    return found


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _mappings(child)


def _meaning(made: Object) -> Any:
    specs = read_specs(Repository({"cluster-specs/c/it.yaml": json.dumps(made).encode()}))
    errors = sorted({each.code for each in specs.diagnostics if each.severity == "error"} - {"GP302", "GP320", "GP354"})
    parts = (specs.gangs, specs.queues, specs.priority_classes, specs.hypernodes, specs.unplanned_pods)
    return {"errors": errors, **{f"part {number}": _plain(part) for number, part in enumerate(parts)}}


def _plain(value: Any) -> Any:
    """As plain data, without where it stands; no queue is the default one."""
    if dataclasses.is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        found = {key: _plain(child) for key, child in named.items() if not key.endswith(_POSITIONS)}
        return {**found, "queue": found["queue"] or "default"} if "queue" in found else found
    if isinstance(value, Mapping):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    return value if isinstance(value, (int, str, type(None))) else str(value)


def _differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from _differences(left.get(key), right.get(key), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif left != right:
        yield f"{path}: {left!r} is read as {right!r}"


def disagreements(plane: ControlPlane, seed: int, number: int) -> tuple[list[str], int]:
    """What is misread or would be written again and again, and how many objects the server took."""
    as_written = kept_objects(plane, seed, number, by_gangplan=False)
    as_applied = kept_objects(plane, seed, number, by_gangplan=True)
    found = [*map(misread, as_written), *map(drift, as_applied)]
    return [each for each in found if each], min(len(as_written), len(as_applied))
