"""What may happen to one request: each is a fault for a `Rule` of the proxy."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping

from tests.faults.proxy import CutError, Exchange, Fault

REASONS: Mapping[int, str] = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def _named(name: str, fault: Fault) -> Fault:
    fault.__name__ = name
    return fault


def refuse(status: int, **headers: str) -> Fault:
    """The error, and the API server never hears of the request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return _named(f"refuse {status}", lambda exchange: exchange.reply_error(status, REASONS[status], named))


def fail_after(status: int = 500) -> Fault:
    """The API server does it, and the reconciler is told an error."""

    def fault(exchange: Exchange) -> None:
        exchange.forward_whole()
        exchange.reply_error(status, REASONS[status])

    return _named(f"{status} after", fault)


def answer_null(exchange: Exchange) -> None:
    """The API server does it, and the answer is the JSON text null."""
    if not exchange.request.is_watch:
        exchange.forward_whole()
    exchange.reply(200, {"Content-Type": "application/json"}, b"null")


def truncate(exchange: Exchange) -> None:
    """Half of the answer, then the end of the connection."""
    if exchange.request.is_watch:
        raise CutError
    status, headers, body = exchange.forward_whole()
    exchange.reply(status, headers, body[: len(body) // 2], len(body))
    raise CutError


def cut(exchange: Exchange) -> None:
    """The connection ends before the API server hears of the request."""
    raise CutError


def cut_after(exchange: Exchange) -> None:
    """The API server does it, and the connection ends without an answer."""
    exchange.forward_whole()
    raise CutError


def drip(pause: float = 0.2, size: int = 1) -> Fault:
    """The answer comes a few bytes at a time: no read ever times out, and it takes for ever."""

    def fault(exchange: Exchange) -> None:
        if exchange.request.is_watch:
            exchange.relay()
            return
        status, headers, body = exchange.forward_whole()
        exchange.reply(status, headers, b"", len(body))
        for at in range(0, len(body), size):
            time.sleep(pause)
            exchange.write_raw(body[at : at + size])

    return _named("drip", fault)


def delay(seconds: float) -> Fault:
    """The API server hears of it late."""

    def fault(exchange: Exchange) -> None:
        time.sleep(seconds)
        exchange.relay()

    return _named(f"{seconds:g} s late", fault)


def late_watch(seconds: float) -> Fault:
    """What comes on a watch comes late."""

    def fault(exchange: Exchange) -> None:
        if exchange.request.is_watch:
            exchange.relay_stream(late=seconds)
        else:
            exchange.relay()

    return _named(f"watch {seconds:g} s late", fault)


def expire_watch(exchange: Exchange) -> None:
    """A watch begins with the error event of a resource version that is too old."""
    if not exchange.request.is_watch:
        exchange.relay()
        return
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
    exchange.reply(200, {"Content-Type": "application/json"}, json.dumps({"type": "ERROR", "object": said}).encode())


def end_watch(exchange: Exchange) -> None:
    """A watch that is over at once."""
    if exchange.request.is_watch:
        exchange.reply(200, {"Content-Type": "application/json"}, b"")
    else:
        exchange.relay()


class Hold:
    """Holds a request before or after the API server has done it, calls `reached`, and lets it go on when told."""

    def __init__(self, reached: Callable[[], None] = lambda: None, *, after: bool = False, drop: bool = False) -> None:
        self._reached, self._after, self._drop = reached, after, drop
        self._gate = threading.Event()
        self._gate.set()
        self._called = threading.Event()
        self.__name__ = f"hold {'after' if after else 'before'}"

    def close_gate(self) -> None:
        """Hold from now on until `open_gate`."""
        self._gate.clear()

    def open_gate(self) -> None:
        self._gate.set()

    def wait_called(self) -> None:
        """Return when `reached` has returned; a rule's hit only says that the request has come."""
        self._called.wait(300)

    def __call__(self, exchange: Exchange) -> None:
        try:
            answer = exchange.forward_whole() if self._after else None
            self._reached()
        finally:
            self._called.set()
        self._gate.wait(300)
        if self._drop:
            raise CutError
        if answer is None:
            exchange.relay()
        else:
            exchange.reply(*answer)
