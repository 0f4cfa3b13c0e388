"""Where independent parts of a plan are computed: in this process, in worker processes, or on any
`concurrent.futures.Executor`, e.g. a Dask cluster's.

    mapper.map(function, shared, tasks, work, clock) == [function(shared, task) for task in tasks]

with any mapper: `function` is at module level and depends only on its arguments, workers run the same code
(`code_fingerprint`), and results come back in the order of the tasks. A part without an answer from a remote executor
is computed here; `RemoteExecutor.faults` has the cause.
"""

from __future__ import annotations

import concurrent.futures
import gc
import hashlib
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, TypeVar

from solver.clock import Clock
from solver.options import Budget

S = TypeVar("S")  # the shared argument
T = TypeVar("T")  # a task
R = TypeVar("R")  # its result

log = logging.getLogger(__name__)
BUDGET = Budget()

POLL_SECONDS = 1.0
"""Seconds between two checks that a worker is alive."""


class Mapper(Protocol):
    """work: a deterministic estimate of all tasks, about microseconds of one core; it decides where, never what.

    clock: of all tasks; in `shared` the function finds the same one. None: no time limit.

    faults: why remote parts were computed here after all, for people; empty without faults.
    """

    @property
    def faults(self) -> Sequence[str]: ...

    def prepare(self, work: int, clock: Clock | None = None) -> None:
        """Announce this much work, so that workers which take time to start do so meanwhile."""

    def map(
        self, function: Callable[[S, T], R], shared: S, tasks: Sequence[T], work: int, clock: Clock | None = None
    ) -> list[R]: ...


class LocalExecutor:
    """Runs tasks in this process, one after another."""

    faults: Sequence[str] = ()

    def prepare(self, work: int, clock: Clock | None = None) -> None:
        """Do nothing: there are no workers."""

    def map(
        self, function: Callable[[S, T], R], shared: S, tasks: Sequence[T], work: int, clock: Clock | None = None
    ) -> list[R]:
        return [function(shared, task) for task in tasks]


LOCAL_EXECUTOR = LocalExecutor()


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """A running executor. parallelism: tasks that it runs at once. stop: shuts it down in any state.

    is_alive: whether an answer may still come, asked while waiting; None for an executor that itself ends lost tasks.
    """

    executor: concurrent.futures.Executor
    parallelism: int
    stop: Callable[[], object]
    is_alive: Callable[[], bool] | None = None


@dataclass
class RemoteExecutor:
    """Runs tasks on an executor, which is started by the first work large enough and given up at its first fault.

    start_pool: any exception of it is a fault. min_work: the least work for which it is started.
    """

    start_pool: Callable[[], WorkerPool]
    min_work: int = BUDGET.remote_work
    faults: list[str] = field(default_factory=list)
    _pool: WorkerPool | None = None

    def prepare(self, work: int, clock: Clock | None = None) -> None:
        if self._is_worth_it(work, clock or Clock()):
            with self._recording_faults():
                pool = self._running_pool()
                for _ in range(pool.parallelism):
                    pool.executor.submit(code_fingerprint)

    def _is_worth_it(self, work: int, clock: Clock) -> bool:
        starts_in_time = self._pool is not None or clock.seconds_left() > BUDGET.worker_start_seconds
        least = self.min_work if self._pool is None else min(self.min_work, BUDGET.sent_work)
        return work >= least and not self.faults and starts_in_time

    def map(
        self, function: Callable[[S, T], R], shared: S, tasks: Sequence[T], work: int, clock: Clock | None = None
    ) -> list[R]:
        clock, found = clock or Clock(), dict[int, R]()
        if len(tasks) > 1 and self._is_worth_it(work, clock):
            with self._recording_faults():
                self._collect_results(function, shared, tasks, clock, found)
        return [found[i] if i in found else function(shared, task) for i, task in enumerate(tasks)]

    def open(self) -> None:
        """Start now, so that a fault shows at once."""
        with self._recording_faults():
            self._running_pool()

    def open_with(self, start_pool: Callable[[], WorkerPool]) -> None:
        """Start a pool of another kind now, with its workers, which are then as this process is."""
        with self._recording_faults():
            code_fingerprint()  # worked out here, the copies know it
            self._pool = start_pool()
            self._pool.executor.submit(code_fingerprint)  # a pool starts its processes at the first task

    @contextmanager
    def _recording_faults(self) -> Iterator[None]:
        """Record any exception of the executor. An error of the function itself is raised again when it is called
        here."""
        try:
            yield
        except Exception as error:
            log.debug("an executor failed", exc_info=True)
            text = " ".join(str(error).split())
            self.faults.append(f"{type(error).__name__}: {text}" if text else type(error).__name__)
            self.close()

    def _running_pool(self) -> WorkerPool:
        if self._pool is None:
            self._pool = self.start_pool()
        return self._pool

    def _collect_results(
        self,
        function: Callable[[Any, Any], R],
        shared: object,
        tasks: Sequence[object],
        clock: Clock,
        found: dict[int, R],
    ) -> None:
        """Fill `found`, index of the task -> result, while answers come."""
        pool = self._running_pool()
        sent = pickle.dumps((clock, shared), pickle.HIGHEST_PROTOCOL)
        number = min(len(tasks), BUDGET.worker_chunks * pool.parallelism)
        chunks = [range(len(tasks) * n // number, len(tasks) * (n + 1) // number) for n in range(number)]
        code, submit = code_fingerprint(), pool.executor.submit
        futures = [submit(run_chunk, code, sent, function, [tasks[i] for i in chunk]) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            answers, struck = _await_chunk(future, pool.is_alive)
            found.update(zip(chunk, answers, strict=True))
            if struck:
                clock.strike()

    def close(self) -> None:
        """Shut the executor down; the next work large enough starts one again."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.stop()

    def __enter__(self) -> RemoteExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _await_chunk(
    future: concurrent.futures.Future[tuple[list[R], bool]], is_alive: Callable[[], bool] | None
) -> tuple[list[R], bool]:
    """Return the chunk's result. Raises the exception of the executor or the function; ConnectionError without any
    worker."""
    while is_alive is not None:
        try:
            return future.result(timeout=POLL_SECONDS)
        except TimeoutError:
            if not future.done() and not is_alive():
                raise ConnectionError("no worker is left to answer") from None
    return future.result()


def process_executor(
    number: int | None = None, min_work: int = BUDGET.remote_work, forks: bool = False
) -> RemoteExecutor:
    """Worker processes of this machine, one for each available core; with a single core nothing is sent.

    forks: the workers are copies of this process, made at once, so that they need not import anything: for a process
    that has imported all and has no threads yet. Else a script that solves with processes needs the usual
    `if __name__ == "__main__":`, since a new process imports it.
    """
    cores = number or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

    def start(method: str = "spawn") -> WorkerPool:
        # A forked copy of a process with threads (HiGHS, numpy) may hang, so later workers start afresh.
        context = multiprocessing.get_context(method)
        pool = concurrent.futures.ProcessPoolExecutor(cores, context, _start_worker, (gc.get_threshold(),))
        return WorkerPool(pool, cores, partial(_shut_down, pool))

    executor = RemoteExecutor(start, min_work if cores > 1 else sys.maxsize)
    if forks and cores > 1 and sys.platform.startswith("linux"):
        executor.open_with(partial(start, "fork"))
    return executor


def _shut_down(pool: concurrent.futures.ProcessPoolExecutor) -> None:
    """End the workers. Once all were killed nobody reads the pipe of tasks, and before 3.11.5 Python waits for ever for
    the thread that writes to it (CPython issue 94777); with its last reader closed that thread ends."""
    queue = pool._call_queue  # type: ignore[attr-defined]
    if sys.version_info < (3, 11, 5) and queue is not None:
        with suppress(OSError):  # that thread closes it too, at times at the same moment
            queue._reader.close()
    pool.shutdown(cancel_futures=True)


def _start_worker(gc_threshold: tuple[int, int, int]) -> None:
    """Collect garbage in this worker as rarely as its parent does, and end it with that: if the parent was killed, the
    worker would wait for work for ever; an interrupt of both needs no message of its own."""
    gc.set_threshold(*gc_threshold)
    gc.enable()  # a copy of a process that has just read its files has it off
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class VersionMismatch(Exception):
    """A worker has other code than the caller, so its results might differ."""


def run_chunk(
    code: str, payload: bytes, function: Callable[[Any, Any], R], tasks: Sequence[object]
) -> tuple[list[R], bool]:
    """Return a worker's results, and whether the clock cut anything off. payload: the clock and the shared argument,
    pickled together, so that both have the same clock. Raises VersionMismatch."""
    if code != code_fingerprint():
        raise VersionMismatch("the workers have another version of gangplan or of what it needs")
    clock, shared = _load_shared(payload)
    return [function(shared, task) for task in tasks], clock.has_struck


_THREAD_CACHE = threading.local()


def _load_shared(payload: bytes) -> Any:
    """Return the clock and the shared argument, kept from one chunk to the next; per thread, as its caches are not
    thread-safe."""
    if getattr(_THREAD_CACHE, "sent", None) != payload:
        _THREAD_CACHE.shared = pickle.loads(payload)  # noqa: S301 - from our own parent, as the executor itself does
        _THREAD_CACHE.sent = payload
    return _THREAD_CACHE.shared


@cache
def code_fingerprint() -> str:
    """Digest of everything that a result depends on: this package's sources and the versions of its libraries."""
    digest, folder = hashlib.sha256(), Path(__file__).parents[1]
    for package in ("numpy", "pulp", "highspy"):
        with suppress(PackageNotFoundError):
            digest.update(f"{package} {version(package)}\n".encode())
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
