"""The process that compiles: all modules are loaded once, and each compile is a fork of it with limits of its own.

It reads one order a line (paths of request, answer and errors, bytes of memory, seconds, and seconds after which it is
idle) and says two numbers for each: the child's process id, and how the child ended. It ends with its parent. A request
is read by a child first; when that has ended well the worker holds its files and its state as well, so that the next
child deals only with what has changed. An order without a path for the answer tells only the state: the worker reads
that itself, and says 0, or 1 where it cannot. While no order comes it works out what the next plan rests on.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

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
"""What a compile imports when it begins."""
PAGE_NICENESS = 10
GC_THRESHOLD = 100_000, 50, 100
"""When the worker and its children look for reference cycles: much of what they make stays."""


def main() -> None:
    answers = _take_output()
    gc.set_threshold(*GC_THRESHOLD)
    for name in _MODULES:
        importlib.import_module(name)
    gc.freeze()
    session, held, idle = Session(), NO_REQUEST, 0.0
    while line := _next_order(held, session, idle):
        order = json.loads(line)
        idle = order.get("idle", idle)
        if "answer" not in order:
            told = _read_state(order, held)
            _say(answers, int(told is None))
            held = told or held
            continue
        if (pid := os.fork()) == 0:
            os.close(answers)  # a worker that is killed is seen to be gone, though its child goes on
            _compile_and_exit(order, session, held)
        _say(answers, pid)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # Read before the status is said: the next request is written then.
        text = Path(order["request"]).read_bytes() if status == 0 else b""
        _say(answers, status)
        if status == 0:
            former, held = held, decode_request(text, held)
            if held.files != former.files:
                read_files(held.files, session)
            del text
            gc.freeze()


def _next_order(held: CompileRequest, session: Session, idle: float) -> bytes:
    """The next line. Where none comes for `idle` seconds, what the next compile needs of the last request is worked out
    meanwhile."""
    if held is not NO_REQUEST and not select.select([sys.stdin], [], [], idle)[0]:
        with contextlib.suppress(Exception):
            prepare_next(held, session)
        gc.freeze()
    return sys.stdin.buffer.readline()


def _read_state(order: Mapping[str, Any], held: CompileRequest) -> CompileRequest | None:
    """The request of an order that tells the state; its files are held."""
    with contextlib.suppress(Exception):
        return decode_request(Path(order["request"]).read_bytes(), held)
    return None


def _take_output() -> int:
    """A descriptor for the answers alone: what a library prints goes to standard error from now on."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _say(answers: int, number: int) -> None:
    try:
        os.write(answers, b"%d\n" % number)
    except BrokenPipeError:
        sys.exit("nobody waits for the answers of this compile any more")


def _compile_and_exit(order: Mapping[str, Any], session: Session, held: CompileRequest) -> NoReturn:
    """The child: in a process group of its own, so that what it starts ends with it."""
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
