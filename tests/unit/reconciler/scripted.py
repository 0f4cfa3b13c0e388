"""An API server that answers from a script: for faults that a real one does not produce on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.kube import Client


class Answer:
    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None, breaks: bool = False) -> None:
        self.status, self.headers, self.breaks = status, dict(headers or {}), breaks
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.closed = False

    def read(self) -> bytes:
        if self.breaks:
            raise ConnectionResetError("the wire was cut")
        return self.body

    def lines(self) -> Iterator[bytes]:
        yield from self.body.split(b"\n")
        if self.breaks:
            raise ConnectionResetError("the wire was cut")

    def close(self) -> None:
        self.closed = True


Script = Callable[[str, str, Any], Answer]


class Server:
    """`script` answers (method, path, body); every request is kept in `asked`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[tuple[str, str, Any]] = []
        self.connections = 0

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: tuple[float, float]
    ) -> Answer:
        assert all(limit > 0 for limit in timeout), "no request without a time limit"
        said = json.loads(body) if body else None
        self.asked.append((method, path, said))
        return self.script(method, path, said)

    def client(self) -> Client:
        def connect() -> Server:
            self.connections += 1
            return self

        return Client(connect)


def in_turn(*answers: Answer) -> Script:
    """One answer after the other, whatever is asked."""
    left = iter(answers)
    return lambda method, path, body: next(left)


def refusal(
    status: int,
    message: str = "no",
    causes: list[dict[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    return Answer(status, {"kind": "Status", "message": message, "details": {"causes": causes or []}}, headers)
