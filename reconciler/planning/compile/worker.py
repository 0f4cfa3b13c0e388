"""The process that compiles: all modules are loaded once, and each compile is a fork of it with its own limits.

It reads one order a line (paths of request, answer and errors, bytes of memory, seconds, and seconds after which it is
idle) and prints two numbers for each: the child's process id, and its exit status. It exits with its parent. A child
reads a request first; when the child has succeeded, the worker holds its files and its state as well, so that the next
child handles only changes. An order without a path for the answer carries only the state: the worker reads it itself,
and prints 0, or 1 if it cannot. Between orders it prepares the inputs of the next plan, and forks the next child: a
child copies each page of memory that it touches, which is a fifth of its time where little has changed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from compiler.session import Session
from reconciler.observation.culprits import objects_at_hand
from reconciler.planning.compile.process import (
    NO_REQUEST,
    CompileRequest,
    compile_with_outcome,
    decode_request,
    prepare_next,
    read_files,
)
from reconciler.planning.plan_pages import write_page
from reconciler.planning.snapshot import write_whole

_MODULES = (
    "compiler.cli.executor",
    "compiler.emit.waves",
    "compiler.pipeline",
    "compiler.views.data",
    "highspy",
    "numpy.ma",
)
"""Modules that a compile imports at its begin."""
PAGE_NICENESS = 10
GC_THRESHOLD = 100_000, 50, 100
"""When the worker and its children look for reference cycles: most of their objects are long-lived."""


class Child(NamedTuple):
    """A fork of the worker that waits for its order. orders: the descriptor to write it to."""

    pid: int
    orders: int

    def start(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it was killed, and its exit status is read
            os.write(self.orders, line)
        os.close(self.orders)

    def is_alive(self) -> bool:
        """Return whether it waits: what has ended it, as a lack of memory, must not cost a compile."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def drop(self) -> None:
        """End it without an order."""
        os.close(self.orders)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def main() -> None:
    answers = _take_output()
    gc.set_threshold(*GC_THRESHOLD)
    for name in _MODULES:
        importlib.import_module(name)
    gc.freeze()
    session, held, idle = Session(), NO_REQUEST, 0.0
    while True:
        ready = None
        if held is not NO_REQUEST and _is_idle(idle):
            _prepare(held, session)
            ready = _fork_child(answers, session, held, is_early=True)
        if not (line := sys.stdin.buffer.readline()):
            return
        order = json.loads(line)
        idle = order.get("idle", idle)
        if ready is not None and ("answer" not in order or not ready.is_alive()):
            ready.drop()
            ready = None
        if "answer" not in order:
            received = _read_state(order, held)
            _send(answers, int(received is None))
            held = received or held
            continue
        child = ready or _fork_child(answers, session, held)
        child.start(line)
        _send(answers, child.pid)
        status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        # Read before the status is printed: the next request is written then.
        text = Path(order["request"]).read_bytes() if status == 0 else b""
        _send(answers, status)
        if status == 0:
            former, held = held, decode_request(text, held)
            if held.files != former.files:
                read_files(held.files, session)
            del text
            gc.freeze()


def _is_idle(seconds: float) -> bool:
    """Return whether no line arrives for so long."""
    return not select.select([sys.stdin], [], [], seconds)[0]


def _prepare(held: CompileRequest, session: Session) -> None:
    """Prepare the next compile of the last request. An error is one of that compile, if it is still one then."""
    with contextlib.suppress(Exception):
        prepare_next(held, session)
    gc.freeze()


def _fork_child(answers: int, session: Session, held: CompileRequest, *, is_early: bool = False) -> Child:
    """is_early: there is no order yet, and time to copy the worker's memory."""
    receiving, orders = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(answers)  # closed, so that a killed worker is noticed while its child runs
        os.close(orders)
        if is_early:
            _copy_memory()
        _serve_one(receiving, session, held)
    os.close(receiving)
    return Child(pid, orders)


def _copy_memory() -> None:
    """Count one reference more to each object for a moment, which copies its page."""
    gc.unfreeze()
    gc.get_objects()
    gc.freeze()


def _serve_one(orders: int, session: Session, held: CompileRequest) -> NoReturn:
    with os.fdopen(orders, "rb") as pipe:
        line = pipe.readline()
    if not line:
        os._exit(0)  # the worker has ended
    _compile_and_exit(json.loads(line), session, held)


def _read_state(order: Mapping[str, Any], held: CompileRequest) -> CompileRequest | None:
    """Return the request of an order that carries only the state, with the held files; None if it cannot be read."""
    with contextlib.suppress(Exception):
        return decode_request(Path(order["request"]).read_bytes(), held)
    return None


def _take_output() -> int:
    """Return a descriptor for the answers alone: from now on, a library's output goes to standard error."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _send(answers: int, number: int) -> None:
    try:
        os.write(answers, b"%d\n" % number)
    except BrokenPipeError:
        sys.exit("nobody waits for the answers of this compile any more")


def _compile_and_exit(order: Mapping[str, Any], session: Session, held: CompileRequest) -> NoReturn:
    """Compile in the child, in a process group of its own, so that its children are killed with it."""
    status = 1
    try:
        os.setsid()
        for descriptor, path in ((0, os.devnull), (1, os.devnull), (2, order["errors"])):
            opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        _set_limits(order["memory"], order["seconds"])
        request = decode_request(Path(order["request"]).read_bytes(), held)
        snapshot, outcome = compile_with_outcome(request, session)
        write_whole(Path(order["answer"]), snapshot.as_json().encode())
        status = 0
        if "pages" in order and snapshot.ok and os.fork() == 0:  # who waits for the answer does not wait for the page
            os.nice(PAGE_NICENESS)
            write_page(outcome, Path(order["pages"]))
    except BaseException as error:
        with contextlib.suppress(Exception):
            traceback.print_exc()
            sys.stderr.flush()
            if isinstance(error, Exception) and not isinstance(error, MemoryError):
                write_whole(Path(order["culprits"]), json.dumps([*objects_at_hand(error)]).encode())
    finally:
        os._exit(status)


def _set_limits(memory: int, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    cores = os.cpu_count() or 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds * cores, seconds * cores + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
