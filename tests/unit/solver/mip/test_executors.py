"""Parts that are worked out elsewhere: the same results in the same order, also when elsewhere fails."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from solver.clock import Clock
from solver.mip.executors import (
    BUDGET,
    LOCAL_EXECUTOR,
    RemoteExecutor,
    VersionMismatch,
    WorkerPool,
    code_fingerprint,
    process_executor,
    run_chunk,
)
from tests.builders.processes import ends

ROOT = Path(__file__).parents[4]


def plus(shared: int, task: int) -> int:
    return shared + task


def where(_shared: object, _task: int) -> int:
    return os.getpid()


def dies_elsewhere(parent: int, task: int) -> int:
    """Kills the process that it runs in, unless it runs in `parent`."""
    if os.getpid() != parent and task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * task


def broken(_shared: object, task: int) -> int:
    if task == 2:
        raise ZeroDivisionError("task two")
    return task


@pytest.fixture(scope="module")
def pool() -> Iterator[RemoteExecutor]:
    with process_executor(2, min_work=0) as mapper:
        yield mapper
        assert mapper.faults == []


def test_results_come_in_the_order_of_the_tasks(pool: RemoteExecutor) -> None:
    tasks = list(range(50, 0, -1))
    assert pool.map(plus, 1000, tasks, 1) == LOCAL_EXECUTOR.map(plus, 1000, tasks, 1) == [1000 + task for task in tasks]


def test_the_tasks_really_run_in_other_processes_and_what_they_share_may_change(pool: RemoteExecutor) -> None:
    pids = set(pool.map(where, "one", [1, 2, 3, 4], 1))
    assert os.getpid() not in pids
    assert pool.map(plus, 1, [1, 2], 1) == [2, 3]
    assert pool.map(plus, 2, [1, 2], 1) == [3, 4]


def test_forked_workers_are_copies_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "plus", where)  # a process that starts afresh would not know it
    with process_executor(2, min_work=0, forks=True) as mapper:
        assert os.getpid() not in mapper.map(replaced, None, [1, 2, 3, 4], 1)
        assert mapper.faults == []


def replaced(shared: object, task: int) -> int:
    function: Callable[[object, int], int] = vars(sys.modules[__name__])["plus"]
    return function(shared, task)


def test_work_that_is_not_worth_it_stays_here_and_starts_nothing() -> None:
    def never() -> WorkerPool:
        raise AssertionError("started")

    mapper = RemoteExecutor(never, min_work=100)
    assert mapper.map(where, None, [1, 2], 99) == [os.getpid()] * 2
    assert mapper.map(where, None, [1], 100) == [os.getpid()]
    assert mapper.faults == []
    assert mapper.map(where, None, [1, 2], 100) == [os.getpid()] * 2
    assert mapper.faults == ["AssertionError: started"]


def test_workers_that_run_get_work_that_would_start_none() -> None:
    with process_executor(2, forks=True) as mapper:
        assert mapper.min_work > BUDGET.sent_work
        assert os.getpid() not in mapper.map(where, None, [1, 2], BUDGET.sent_work)
        assert mapper.map(where, None, [1, 2], BUDGET.sent_work - 1) == [os.getpid()] * 2
        assert mapper.faults == []


def test_a_single_core_is_no_crew() -> None:
    with process_executor(1) as mapper:
        assert mapper.map(where, None, [1, 2], 1 << 40) == [os.getpid()] * 2


def test_a_killed_worker_is_a_fault_and_the_rest_is_done_here() -> None:
    with process_executor(2, min_work=0) as mapper:
        assert mapper.map(dies_elsewhere, os.getpid(), [1, 2, 3, 4], 1) == [10, 20, 30, 40]
        (fault,) = mapper.faults
        assert fault.startswith("BrokenProcessPool: ")
        # Once is enough: nobody is asked again.
        assert mapper.map(where, None, [1, 2], 1) == [os.getpid()] * 2
        assert len(mapper.faults) == 1


@pytest.mark.skipif(sys.version_info >= (3, 11, 5), reason="such a Python closes the pipe itself")
def test_a_pipe_of_tasks_that_is_closed_already_is_no_error() -> None:
    """The thread that writes to it may close it at the same moment."""
    with process_executor(2, min_work=0) as mapper:
        mapper.open()
        assert mapper._pool is not None
        os.close(mapper._pool.executor._call_queue._reader.fileno())  # type: ignore[attr-defined]


def test_an_exception_of_the_function_is_raised_as_without_workers() -> None:
    with process_executor(2, min_work=0) as mapper, pytest.raises(ZeroDivisionError, match="task two"):
        mapper.map(broken, None, [1, 2, 3], 1)


def test_workers_with_other_code_are_not_believed() -> None:
    sent = pickle.dumps((Clock(), 1))
    assert run_chunk(code_fingerprint(), sent, plus, [1, 2]) == ([2, 3], False)
    with pytest.raises(VersionMismatch):
        run_chunk("something else", sent, plus, [1, 2])


def test_each_thread_of_a_worker_has_its_own_copy_of_what_is_shared() -> None:
    sent = pickle.dumps((Clock(), ["shared"]))
    found: list[object] = []

    def run() -> None:
        (first, second), _ = run_chunk(code_fingerprint(), sent, itself, [1, 2])
        assert first is second
        found.append(first)

    for thread in [threading.Thread(target=run) for _ in range(2)]:
        thread.start()
        thread.join()
    assert found[0] == found[1]
    assert found[0] is not found[1]


def itself(shared: object, _task: int) -> object:
    return shared


ORPHAN = """
import os, signal
from solver.mip.executors import process_executor
from tests.unit.solver.mip.test_executors import where
if __name__ == "__main__":
    mapper = process_executor(2, min_work=0)
    print(*mapper.map(where, None, list(range(8)), 1), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == -signal.SIGKILL
    left = {int(pid) for pid in done.stdout.split()}
    assert left
    assert {pid for pid in left if not ends(pid)} == set()
