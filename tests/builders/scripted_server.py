"""An API server that answers from a script: for faults that a real one does not produce on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.cluster.client import Client
from reconciler.timings import Limits


class ScriptedAnswer:
    def __init__(
        self, status: int, body: Any, headers: Mapping[str, str] | None = None, breaks_off: bool = False
    ) -> None:
        self.status, self.headers, self.breaks_off = status, dict(headers or {}), breaks_off
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.closed = False

    def read(self) -> bytes:
        if self.breaks_off:
            raise ConnectionResetError("the wire was cut")
        return self.body

    def lines(self) -> Iterator[bytes]:
        yield from self.body.split(b"\n")
        if self.breaks_off:
            raise ConnectionResetError("the wire was cut")

    def close(self) -> None:
        self.closed = True


Script = Callable[[str, str, Any], ScriptedAnswer]


class ScriptedServer:
    """`script` answers (method, path, body); every request is kept in `asked`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[tuple[str, str, Any]] = []
        self.connections = 0

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> ScriptedAnswer:
        assert min(limits.connect, limits.read, limits.total) > 0, "no request without a time limit"
        said = json.loads(body) if body else None
        self.requests.append((method, path, said))
        return self.script(method, path, said)

    def client(self) -> Client:
        def connect() -> ScriptedServer:
            self.connections += 1
            return self

        return Client(connect)


def answers_in_order(*answers: ScriptedAnswer) -> Script:
    """One answer after the other, whatever is asked."""
    left = iter(answers)
    return lambda method, path, body: next(left)


def error_answer(
    status: int,
    message: str = "no",
    causes: list[dict[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> ScriptedAnswer:
    return ScriptedAnswer(status, {"kind": "Status", "message": message, "details": {"causes": causes or []}}, headers)


def served(*kinds: str) -> ScriptedAnswer:
    """What discovery says of a group version with these kinds, all of them in namespaces."""
    rows = [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": True} for kind in kinds]
    return ScriptedAnswer(200, {"kind": "APIResourceList", "resources": rows})


def manager_conflict(manager: str, field: str) -> ScriptedAnswer:
    """Server-side apply does not take this field from this manager."""
    cause = {"reason": "FieldManagerConflict", "field": field, "message": f'conflict with "{manager}" using v1'}
    return error_answer(409, "conflict", [cause])
