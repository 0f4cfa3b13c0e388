"""What a compile needs, and how it is written for the worker: only what differs from the inputs that the worker holds.

A running cluster of ten thousand nodes is 20 MB of JSON, of which the next compile needs a few objects anew.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.specs import JobKey
from reconciler.cluster.objects import Object


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """files, commit_dates, problems: of the tree at `commit`. state: the cluster's objects. finished_jobs: (namespace,
    name, kind) of jobs that are over. executor: as in `compiler.cli.executor.open_executor`. clock: as in
    `compiler.cluster_state.state.ClusterState`. held_jobs, closed_nodes: such a job with the reason, and with the names
    of the nodes. former_places: job -> role -> node name -> pods, of the jobs that the plan in force starts or
    keeps."""

    commit: str
    cluster: str
    files: Mapping[str, bytes]
    commit_dates: Mapping[str, int]
    problems: Sequence[Mapping[str, Any]] = ()
    state: Sequence[Object] = ()
    finished_jobs: Sequence[tuple[str, str, str]] = ()
    executor: str = "processes"
    clock: int | None = None
    held_jobs: Sequence[tuple[JobKey, str]] = ()
    closed_nodes: Sequence[tuple[JobKey, Sequence[str]]] = ()
    former_places: Sequence[tuple[JobKey, Mapping[str, Mapping[str, int]]]] = ()


@dataclass(frozen=True, slots=True)
class HeldInputs:
    """The files and the state of a former request, as both ends know them."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    state: Sequence[Object] = ()

    @classmethod
    def of(cls, request: CompileRequest) -> HeldInputs:
        return cls(request.files, request.state)


def encode_request(request: CompileRequest, held: HeldInputs) -> bytes:
    """The request as JSON: a file that is held by its path alone, objects that are held as [from, to] of their list."""
    data = {name: getattr(request, name) for name in CompileRequest.__slots__}
    data["files"] = {
        path: None if held.files.get(path) == content else base64.b64encode(content).decode()
        for path, content in request.files.items()
    }
    data["state"] = _pieces(request.state, held.state)
    return json.dumps(data).encode()


def decode_request(text: bytes, held: HeldInputs) -> CompileRequest:
    """The request that was encoded for a worker with these inputs; of what it held, the same objects."""
    data = json.loads(text)
    data["files"] = {
        path: held.files[path] if content is None else base64.b64decode(content)
        for path, content in data["files"].items()
    }
    data["state"] = [item for piece in data["state"] for item in _objects_of(piece, held.state)]
    data["finished_jobs"] = [tuple(row) for row in data["finished_jobs"]]
    for name in ("held_jobs", "closed_nodes", "former_places"):
        data[name] = [(tuple(job), value) for job, value in data[name]]
    return CompileRequest(**data)


def _pieces(state: Sequence[Object], held: Sequence[Object]) -> list[Object | list[int]]:
    """The state as new objects, and as stretches of the held one."""
    place_of = {id(item): at for at, item in enumerate(held)}
    places_by_name: dict[tuple[Any, ...], int] = {}
    pieces: list[Object | list[int]] = []
    stretch: list[int] | None = None
    for item in state:
        at = place_of.get(id(item))
        if at is None:
            places_by_name = places_by_name or {_identity(each): at for at, each in enumerate(held)}
            at = places_by_name.get(_identity(item))
        if at is None or (held[at] is not item and held[at] != item):
            pieces.append(item)
            stretch = None
        elif stretch is not None and stretch[1] == at:
            stretch[1] += 1
        else:
            stretch = [at, at + 1]
            pieces.append(stretch)
    return pieces


def _identity(item: Object) -> tuple[Any, ...]:
    metadata = item["metadata"]
    return item.get("apiVersion"), item.get("kind"), metadata.get("namespace"), metadata.get("name")


def _objects_of(piece: Object | list[int], held: Sequence[Object]) -> Sequence[Object]:
    return held[piece[0] : piece[1]] if isinstance(piece, list) else (piece,)
