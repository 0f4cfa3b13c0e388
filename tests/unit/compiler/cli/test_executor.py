"""`--executor`: the same bytes from this process, from worker processes and from a Dask cluster, also when workers or
the scheduler die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import solver.diagnosis.explanations
import solver.mip.executors
from bench.worlds import generate_repository
from compiler.cli.executor import ExecutorError, check_executor, open_executor
from compiler.cli.root import cli
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views import data, machine
from solver.diagnosis.explanations import explain
from solver.mip.executors import Mapper, RemoteExecutor
from tests.builders import declared
from tests.builders.declared import GPU, Object, pod_spec

# They start worker processes and Dask clusters, and share one large world.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("executors")]

ROOT = Path(__file__).parents[4]
KINDS = 60
"""Jobs of different sizes that wait in the large world."""
SMALLER = 32
"""How many times less work than usual is sent to workers here, so that the world may be small."""
AT_REST: Mapping[str, object] = {
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "10s",
    "distributed.worker.memory.monitor-interval": "10s",
    "distributed.worker.profile.enabled": False,
}
"""Settings with which a process of Dask that waits takes no time. By its own, each takes 3 % of a core."""


@pytest.fixture(autouse=True)
def _less_work_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    initialise = RemoteExecutor.__init__

    def with_smaller_bound(self: RemoteExecutor, *arguments: Any, **named: Any) -> None:
        initialise(self, *arguments, **named)
        self.min_work //= SMALLER

    monkeypatch.setattr(RemoteExecutor, "__init__", with_smaller_bound)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """250 nodes in supernodes of 16, gangs that fit, gangs that are in one another's way, and many kinds of gangs in
    a closed queue."""
    repo = tmp_path_factory.mktemp("large")
    files = {
        name: text
        for name, text in generate_repository(nodes=250, gangs=0, load=0.5).files.items()
        if name.startswith("cluster-specs/")
    }
    closed = [job(f"closed-{n}", "closed", 2, cpu=n + 1) for n in range(KINDS)]
    open_jobs = [job(f"open-{n}", "team-0-0", 9 + n, hard=n % 2) for n in range(8)]
    queue = declared.queue("closed", {"gangplan.dev/closed": "true"})
    files["cluster-specs/bench/closed.yaml"] = declared.yaml_of(queue, *closed, *open_jobs).encode()
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(text)
    return repo


def job(name: str, queue: str, pods: int, hard: int = 0, cpu: int = 1000) -> Object:
    pod = pod_spec({GPU: 8}, {GPU: 8, "cpu": f"{cpu}m"}, restartPolicy="OnFailure")
    near = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if hard else {}
    more: Object = {"schedulerName": "volcano", "queue": queue, "minAvailable": pods, **near}
    return declared.job(name, pods, pod, namespace="default", **more)


@pytest.fixture(scope="module")
def here(large: Path) -> str:
    """The plan of the large world without any executor."""
    return run("plan", "--repo", large, "--executor", "local", "-o", "json").stdout


def run(command: str, *arguments: object) -> Result:
    """Without a time limit that a busy machine would reach."""
    arguments = (command, "--time-limit", 900, *arguments)
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A Dask cluster of two worker processes, as an executor's name."""
    distributed = pytest.importorskip("distributed")
    with (
        dask_settings(AT_REST),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as made,
    ):
        yield made.scheduler_address.replace("tcp://", "dask://")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks went elsewhere, each time."""
    found: list[int] = []
    ask = RemoteExecutor._collect_results

    def counted(mapper: RemoteExecutor, function: Any, shared: Any, tasks: Any, clock: Any, answers: Any) -> None:
        ask(mapper, function, shared, tasks, clock, answers)
        found.append(len(answers))

    monkeypatch.setattr(RemoteExecutor, "_collect_results", counted)
    return found


def written(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_a_large_world_gives_the_same_bytes_with_any_executor(
    large: Path, cluster: str, tmp_path: Path, sent: list[int]
) -> None:
    found = {}
    for name in ("local", "processes", cluster):
        plan = run("plan", "--repo", large, "--executor", name, "-o", "json")
        assert (plan.exit_code, plan.stderr) == (0, "")
        made = run("compile", "--repo", large, "--executor", name, "-o", tmp_path / "out")
        assert made.exit_code == 0
        found[name] = plan.stdout, written(tmp_path / "out")
    assert found["local"] == found["processes"] == found[cluster]
    assert "GW113" in found["local"][0]
    # local sent nothing, processes and the cluster once for plan and once for compile
    assert len(sent) == 4
    assert min(sent) >= KINDS


@pytest.fixture(scope="module")
def everywhere(cluster: str) -> Iterator[dict[str, Mapper]]:
    """Name -> executor that sends every bit."""
    with ExitStack() as opened:
        found = {name: opened.enter_context(open_executor(name)) for name in ("local", "processes", cluster)}
        for mapper in found.values():
            if isinstance(mapper, RemoteExecutor):
                mapper.min_work = 0
        yield found


@pytest.mark.parametrize("case", ["preempt", "deadlock", "queue-limit", "neighbours"])
def test_small_worlds_too_when_every_bit_is_sent(case: str, everywhere: dict[str, Mapper]) -> None:
    from compiler.cluster_state.cluster_state import load_state

    folder = ROOT / "tests" / "golden" / case
    tree = Repository.from_directory(folder / "repo")
    state = load_state((folder / "state.yaml").read_bytes()) if (folder / "state.yaml").is_file() else None
    said = []
    for mapper in everywhere.values():
        outcome = compile_repository(tree, state=state, mapper=mapper)
        assert list(mapper.faults) == []
        said.append(machine.to_json(data.plan_document(outcome)))
    assert said[0] == said[1] == said[2]


def faults(result: Result) -> list[str]:
    return [line for line in result.stderr.splitlines() if "GP503" in line]


def test_explain_takes_it_too(large: Path, cluster: str) -> None:
    alone, there = (run("explain", "closed-7", "--repo", large, "--executor", name) for name in ("local", cluster))
    assert alone.stdout == there.stdout
    assert "GW113  queue closed" in alone.stdout


def test_a_worker_process_that_is_killed_costs_a_warning_and_changes_nothing(
    large: Path, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver.diagnosis.explanations, "explain", dies_elsewhere)
    monkeypatch.setenv("GANGPLAN_TEST_PARENT", str(os.getpid()))
    broken = run("plan", "--repo", large, "--executor", "processes", "-o", "json")
    assert (broken.exit_code, broken.stdout) == (0, here)
    (fault,) = faults(broken)
    assert fault.startswith("cluster-specs/bench/")
    assert "warning GP503: the executor failed (BrokenProcessPool: " in fault
    assert fault.endswith("Fix: repair the executor, or use none: --executor local")


def dies_elsewhere(reasons: Any, j: int) -> Any:
    """As `explain`; kills the process that it runs in, unless that is the test's own."""
    if str(os.getpid()) != os.environ["GANGPLAN_TEST_PARENT"] and j % 20 == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    return explain(reasons, j)


def slowly(reasons: Any, j: int) -> Any:
    """As `explain`; long enough elsewhere for something to happen meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.05)
    return explain(reasons, j)


def processes_of(*arguments: str) -> subprocess.Popen[bytes]:
    settings = {**AT_REST, "distributed.comm.timeouts.connect": "5s"}
    dask = {f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": str(value) for name, value in settings.items()}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **dask}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dask_settings(settings: Mapping[str, object]) -> AbstractContextManager[Any]:
    pytest.importorskip("distributed")  # its defaults stand before they are changed for a while
    found: AbstractContextManager[Any] = pytest.importorskip("dask").config.set(settings)
    return found


@contextmanager
def separate(workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers as processes of their own: (executor's name, the processes, the scheduler first)."""
    pytest.importorskip("distributed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    scheduler = ("distributed.cli.dask_scheduler", "--host", f"tcp://{address}", "--no-dashboard", "--no-jupyter")
    started = [processes_of(*scheduler)]
    try:
        worker = ("distributed.cli.dask_worker", f"tcp://{address}", "--nthreads", "1", "--no-dashboard", "--no-nanny")
        started += [processes_of(*worker) for _ in range(workers)]
        waited(address, workers)
        yield f"dask://{address}", started
    finally:
        for process in started:
            process.kill()
            process.wait()


def waited(address: str, workers: int) -> None:
    import distributed

    client = distributed.Client(f"tcp://{address}", timeout=120, set_as_default=False)  # type: ignore[no-untyped-call]
    client.wait_for_workers(workers)
    client.close()  # type: ignore[no-untyped-call]


def during(monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object]) -> None:
    """Do it once the first answer has come from elsewhere."""
    answer = solver.mip.executors._await_chunk
    done: list[object] = []

    def then(*arguments: Any) -> Any:
        found = answer(*arguments)
        if not done:
            done.append(deed())
        return found

    monkeypatch.setattr(solver.mip.executors, "_await_chunk", then)
    monkeypatch.setattr(solver.diagnosis.explanations, "explain", slowly)


def test_dask_goes_on_without_a_worker_and_the_loss_of_the_last_one_costs_a_warning_and_changes_nothing(
    large: Path, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        dask_settings({"distributed.scheduler.no-workers-timeout": "3s"}),
        separate(workers=2) as (name, (_, *workers)),
    ):
        told = []
        for worker in workers:
            with monkeypatch.context() as patch:
                during(patch, worker.kill)
                there = run("plan", "--repo", large, "--executor", name, "-o", "json")
            assert worker.wait(60) == -signal.SIGKILL
            assert (there.exit_code, there.stdout) == (0, here)
            told.append(len(faults(there)))
        assert told == [0, 1]
        with open_executor(name) as mapper:
            (fault,) = mapper.faults
    assert "has no workers" in fault


def test_a_dask_scheduler_that_dies_costs_a_warning_and_changes_nothing(
    large: Path, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with separate(workers=1) as (name, (scheduler, _)):
        during(monkeypatch, scheduler.kill)
        there = run("plan", "--repo", large, "--executor", name, "-o", "json")
    assert (there.exit_code, there.stdout) == (0, here)
    assert len(faults(there)) == 1


def test_a_scheduler_that_does_not_answer_is_told_at_once() -> None:
    with dask_settings({"distributed.comm.timeouts.connect": "1s"}), open_executor("dask://127.0.0.1:1") as mapper:
        (fault,) = mapper.faults
        assert "tcp://127.0.0.1:1" in fault
        outcome = compile_repository(
            Repository.from_directory(ROOT / "tests" / "golden" / "five-gangs" / "repo"), mapper=mapper
        )
    assert outcome.ok
    assert [d.code for d in outcome.diagnostics if d.code == "GP503"] == ["GP503"]


@pytest.mark.parametrize("name", ["Processes", "dask://", "dask://host", "ray://host:1", ""])
def test_an_unknown_executor_is_refused(name: str) -> None:
    with pytest.raises(ExecutorError, match="use processes, local or dask://HOST:PORT"):
        check_executor(name)
    result = run("plan", "--executor", name)
    assert result.exit_code == 1
    assert "there is no executor" in result.stderr


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ExecutorError, match=r"pip install 'gangplan\[dask\]'"):
        check_executor("dask://somewhere:8786")
    check_executor("local")
