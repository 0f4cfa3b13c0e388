"""`--executor`: where independent parts of a plan are worked out."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from solver.mip.executors import LOCAL_EXECUTOR, Mapper, RemoteExecutor, WorkerPool, process_executor

NO_WORKER_TIMEOUT = "30 s"
"""After this time without any Dask worker none is waited for, unless Dask's own `no-workers-timeout` is set; a nanny
needs a few seconds to start one again."""

LEAST_SECONDS = 2.0
"""A --time-limit below which no worker is forked: reading takes most of it, and a worker costs 0.05 CPU seconds."""

MIN_REMOTE_WORK = 250_000
"""Least work that is sent to Dask (`solver.mip.executors.Mapper`): its workers run already, but everything passes its
scheduler."""


class ExecutorError(ValueError):
    """An unknown or unavailable executor; the message has the fix."""


def check_executor(name: str) -> None:
    """Raises ExecutorError for a name of no available executor."""
    if name in ("local", "processes"):
        return
    if not re.fullmatch(r"dask://\S+:\d+", name):
        raise ExecutorError(f"there is no executor {name!r}; use processes, local or dask://HOST:PORT")
    if importlib.util.find_spec("distributed") is None:
        raise ExecutorError(f"{name} needs the package distributed: pip install 'gangplan[dask]'")


@contextmanager
def open_executor(name: str, forks: bool = False) -> Iterator[Mapper]:
    """The executor of that name: `local`, `processes`, or `dask://host:port` for a Dask cluster that runs already.
    forks: as in `process_executor`.

    Raises ExecutorError as `check_executor`. A Dask cluster that does not answer is a fault of the mapper, and the plan
    is made without it.
    """
    check_executor(name)
    if name == "local":
        yield LOCAL_EXECUTOR
        return
    found = (
        process_executor(forks=forks)
        if name == "processes"
        else RemoteExecutor(partial(_dask_pool, name.removeprefix("dask://")), MIN_REMOTE_WORK)
    )
    if name != "processes":
        found.open()
    try:
        yield found
    finally:
        found.close()


def _dask_pool(address: str) -> WorkerPool:
    """Return the workers of a Dask cluster. Raises OSError when its scheduler does not answer in the time that Dask's
    own configuration gives it, ConnectionError when it has none."""
    dask: Any = importlib.import_module("dask")
    distributed: Any = importlib.import_module("distributed")
    timeout = dask.config.get("distributed.scheduler.no-workers-timeout", None) or NO_WORKER_TIMEOUT
    patience = float(dask.utils.parse_timedelta(timeout))
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lost work is reported once, as a diagnostic
    client = distributed.Client(f"tcp://{address}", set_as_default=False)
    threads = sum(client.nthreads().values())
    if not threads:
        client.close()
        raise ConnectionError(f"the Dask scheduler {address} has no workers")
    pool = client.get_executor(pure=False)
    lonely = 0

    def alive() -> bool:
        """Asked about once a second: whether the scheduler answers, and has had workers of late."""
        nonlocal lonely
        if client.status != "running":
            return False
        lonely = 0 if client.nthreads() else lonely + 1
        return lonely < patience

    def stop() -> None:
        with suppress(Exception):  # it may be gone, in any of many ways
            pool.shutdown(wait=False)
        with suppress(Exception):
            client.close()

    return WorkerPool(pool, threads, stop, alive)
