"""The compile has a process of its own, and limits: its own memory, none of its secrets, and an answer that
is whole or not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.syntax.runs import run_digest
from reconciler.planning.compile.process import (
    LEAST,
    MOST,
    CompileProcess,
    CompileRequest,
    _receive,
    available_memory,
    child_environment,
    child_memory_limit,
    compile_request,
    encode_request,
)
from reconciler.planning.plan_pages import read_page
from reconciler.planning.snapshot import CompileBreakdown, FormerPlan, Snapshot, write_whole
from reconciler.timings import TIMINGS, CompileTimings
from solver.verify import Violation
from tests.builders import declared
from tests.builders.compiles import ASKED, CLUSTER, JOB, OTHER, Compiler, node, request
from tests.builders.processes import child_processes, ends
from tests.builders.threads import no_new_thread


@pytest.fixture
def compiler(tmp_path: Path) -> Iterator[Compiler]:
    made = Compiler(tmp_path / "compile")
    yield made
    made.stop()


def test_a_plan_that_the_verifier_refuses_is_no_snapshot_to_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "compiler.pipeline.verify", lambda problem, plan: [Violation("capacity", ("nodes", 0), "holds too much")]
    )
    found = compile_request(ASKED)
    assert (found.ok, found.manifests, found.plan, found.moments) == (False, (), {}, ())
    assert [(said["code"], said["message"]) for said in found.diagnostics] == [("GP502", "capacity: holds too much")]


def test_a_clock_is_passed_on_and_moments_come_back() -> None:
    window = CLUSTER.replace(
        b"  topology:", b'  maintenance: [{start: "1970-01-01T00:01:40Z", duration: 100s}]\n  topology:', 1
    )
    asked = replace(ASKED, commit_dates={"jobs/train.yaml": 50})
    asked = replace(asked, files={**asked.files, "cluster-specs/test/cluster.yaml": window})

    def decided(clock: int) -> tuple[str, tuple[int, ...]]:
        found = compile_request(replace(asked, clock=clock))
        return found.plan["gangs"][0]["decision"], found.moments[:1]

    assert decided(150) == ("wait", (200,))
    assert decided(200) == ("start", ())


def test_a_snapshot_holds_what_the_loop_needs() -> None:
    """What the plan counts for a pod of each job as well: so it is known when pods that come ask for something else."""
    found = compile_request(ASKED)
    assert (found.ok, found.gated) == (True, True)
    (gang,) = found.plan["gangs"]
    assert gang["decision"] == "start"
    (job,) = (manifest for manifest in found.manifests if manifest.run_digest)
    assert (job.pods, job.position) == (2, "jobs/train.yaml:1")
    assert job.object["spec"]["tasks"][0]["template"]["spec"]["schedulingGates"]
    assert job.run_digest != run_digest(job.object), "a run keeps its name whatever the emitter adds"
    assert (len(found.leaves), len(set(found.leaves.values()))) == (2, 1)
    assert found.requests == {key: [{"nvidia.com/gpu": 4, "pods": 1}] for key in found.gangs}
    assert Snapshot.from_json(found.as_json()).as_json() == found.as_json()


@pytest.mark.parametrize(
    ("asked", "file"),
    [(request(train=JOB, broken=b"kind: [\n"), "jobs/broken.yaml"), (replace(ASKED, cluster="elsewhere"), "")],
    ids=["one error in one file", "an unknown cluster"],
)
def test_an_error_rejects_the_whole_commit(asked: CompileRequest, file: str) -> None:
    found = compile_request(asked)
    assert (found.ok, found.manifests) == (False, ())
    assert any(file in d["file"] and d["severity"] == "error" for d in found.diagnostics)


def test_a_queue_that_the_cluster_refuses_now_holds_up_only_itself() -> None:
    """It is in the manifests: the dry run asks the server, and a commit in force goes on without it."""
    queue = b"""\
apiVersion: scheduling.volcano.sh/v1beta1
kind: NamespaceQueue
metadata: {name: train, namespace: default}
"""
    newer = CLUSTER.replace(
        b"metadata: {name: test}\n", b"metadata: {name: test}\nspec: {volcano: '1.16', namespaceQueues: true}\n", 1
    )
    parent = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    files = {**ASKED.files, "cluster-specs/test/cluster.yaml": newer, "cluster-specs/test/queues.yaml": queue}
    found = compile_request(replace(ASKED, files=files, state=(parent,)))
    assert (found.ok, [each["code"] for each in found.diagnostics if each["severity"] == "error"]) == (True, ["GP530"])
    assert found.local_queue_parents == {"default/train": "default"}


def test_the_release_of_the_plan_in_force_counts_while_no_scheduler_is_seen() -> None:
    """Queues of namespaces are errors in 1.15."""
    gate = CLUSTER.replace(b"metadata: {name: test}\n", b"metadata: {name: test}\nspec: {namespaceQueues: true}\n", 1)
    queue = declared.queue("science", allowedNamespaces=["ml"])
    files = {"cluster-specs/test/cluster.yaml": gate, "cluster-specs/test/science.json": json.dumps(queue).encode()}
    asked = replace(ASKED, files={**ASKED.files, **files}, former=FormerPlan(volcano="1.16.0"))
    spec = {"containers": [{"image": "docker.io/volcanosh/vc-scheduler:v1.15.2"}]}
    pod = declared.declared("Pod", "volcano-scheduler-0", spec, namespace="volcano-system")
    for each, follows in ((asked, "1.16.0"), (replace(asked, state=(pod,)), "1.15.2"), (ASKED, "1.15")):
        found = compile_request(each)
        assert (found.settings.volcano, found.settings.names_volcano) == (follows, False)
        assert found.ok == (follows != "1.15.2")


def test_one_worker_serves_all_compiles_and_a_killed_one_is_replaced(compiler: Compiler) -> None:
    worker = compiler.worker
    for number, job in enumerate((JOB, OTHER)):
        asked = replace(request(train=job), commit=f"commit-{number}")
        assert compiler.plan(asked) == compile_request(asked)
        assert compiler.worker is worker
    worker.kill()
    worker.wait()
    assert compiler.plan().ok


def child_ahead(compiler: Compiler) -> int:
    """The process that waits for the next order."""
    while not (found := child_processes(compiler.worker.pid)):
        time.sleep(0.01)
    return found[0]


def test_the_next_child_is_there_before_its_order(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path / "compile", timings=CompileTimings(idle=0.05))
    asked, pids = list[int](), list[int]()
    more = request(train=JOB, other=OTHER)
    try:
        assert compiler.plan().ok
        for wanted in (more, ASKED):
            pids.append(child_ahead(compiler))
            assert compiler.plan(wanted) == compile_request(wanted)
            asked.append(compiler.child)
        assert asked == pids, "it had waited"
        killed = child_ahead(compiler)
        os.kill(killed, signal.SIGKILL)
        assert ends(killed)
        assert compiler.plan(more) == compile_request(more), "another is made in its place"
        old, told = child_ahead(compiler), replace(more, clock=1_800_000_000, state=[node("gpu-0")])
        compiler.send_state(told)
        assert compiler.plan(told) == compile_request(told)
        assert compiler.child != old, "one that does not know the state is dropped"
        left = child_ahead(compiler)
        compiler.worker.kill()
        assert ends(left)
    finally:
        compiler.stop()


def test_a_state_that_was_told_is_not_sent_again(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = list[bytes]()

    def note_and_encode(wanted: CompileRequest, held: CompileRequest) -> bytes:
        sent.append(encode_request(wanted, held))
        return sent[-1]

    monkeypatch.setattr("reconciler.planning.compile.process.encode_request", note_and_encode)
    empty = replace(ASKED, clock=1_800_000_000)
    told = replace(empty, state=[node("gpu-0"), node("gpu-1")])
    more = replace(told, files={**told.files, "jobs/other.yaml": OTHER})
    compiler.send_state(told)
    assert not sent, "there is no worker yet"
    assert compiler.plan(empty).ok
    compiler.send_state(more)
    assert len(sent) == 1, "only a child reads new files"
    compiler.send_state(told)
    assert compiler.plan(more) == compile_request(more), "it waits until the state was read"
    assert [b"gpu-1" in text for text in sent] == [False, True, False]
    worker = compiler.worker
    (compiler.directory / "state.json").unlink()
    (compiler.directory / "state.json").mkdir()  # nothing can be written there
    compiler.send_state(replace(more, state=[node("gpu-0")]))
    assert compiler.plan(more) == compile_request(more)
    assert compiler.worker is not worker, "what it holds is not known"


def test_a_worker_that_is_killed_under_a_compile_gives_a_failure_and_no_hang(compiler: Compiler) -> None:
    worker = compiler.worker
    # So many jobs keep it busy for seconds.
    compiler.start_compile(request(**{f"j{n}": JOB.replace(b"name: train", b"name: j%d" % n) for n in range(1000)}))
    while not compiler._child:
        assert not compiler.done.is_set()
        time.sleep(0.001)
    worker.kill()
    found = compiler.wait()
    assert isinstance(found, CompileBreakdown)
    assert "SIGKILL" in found.message
    assert compiler.plan().ok


def test_a_compile_that_fails_on_a_live_object_names_it(compiler: Compiler) -> None:
    odd = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "uid": "u"}, "spec": {"containers": [5]}}
    found = compiler.answer(replace(ASKED, state=[node("gpu-0"), odd]))
    assert isinstance(found, CompileBreakdown)
    assert [*found.culprits[0]] == ["Pod//odd", "u"]
    assert compiler.plan().ok


def test_a_library_that_prints_as_it_is_loaded_spoils_no_answer(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The worker answers on its standard output; whatever it printed there was taken for an answer."""
    (tmp_path / "highspy.py").write_text(
        "import os, sys\n"
        "os.write(1, b'a banner\\n'); os.write(2, b'a complaint\\n')\n"
        f"sys.path.remove({str(tmp_path)!r}); del sys.modules['highspy']\n"
        "import highspy\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert compiler.plan().ok
    assert capfd.readouterr() == ("", "a banner\na complaint\n")


def test_the_worker_ends_with_its_parent(compiler: Compiler) -> None:
    assert compiler.worker.stdin is not None
    compiler.worker.stdin.close()
    assert compiler.worker.wait(60) == 0


def test_the_compile_of_a_process_that_was_killed_answers_nobody(compiler: Compiler, tmp_path: Path) -> None:
    """Its child went on, and could write its answer, of an older commit, over that of the process after it."""
    former = Compiler(tmp_path / "compile")
    former.directory.mkdir(parents=True)
    assert compiler.plan().ok
    with pytest.raises(FileNotFoundError):
        write_whole(former.directory / "compiled.json", Snapshot("0ld", ok=True).as_json().encode())


def test_a_worker_that_says_what_is_no_number_is_replaced(compiler: Compiler) -> None:
    """What it said next was taken for the end of the compile after that, and so on."""
    noisy = ["/bin/sh", "-c", "read order; echo some library speaks; sleep 60"]
    compiler._worker = subprocess.Popen(
        noisy, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    )
    assert isinstance(compiler.answer(), CompileBreakdown)
    assert compiler.plan().ok


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"timings": CompileTimings(time_limit=0.01)}, "it was stopped after 0.01 s"),
        ({"memory_limit": 64 << 20}, "it ended "),  # by MemoryError, or where Rust allocates by SIGABRT
    ],
    ids=["time", "memory"],
)
def test_a_child_that_takes_too_much_is_stopped_and_says_nothing_about_the_repository(
    tmp_path: Path, limits: dict[str, Any], message: str
) -> None:
    compiler = Compiler(tmp_path, **limits)
    found = compiler.answer()
    compiler.stop()
    assert isinstance(found, CompileBreakdown)
    assert found.message.startswith(message)


def test_two_numbers_that_a_worker_says_at_once_are_two_answers() -> None:
    """Seen once: on a busy machine a compile that ended at once counted as broken down, and was made again after ten
    seconds."""
    with subprocess.Popen(["/usr/bin/printf", "6040\\n0\\n"], stdout=subprocess.PIPE, bufsize=0) as worker:
        worker.wait()
        deadline = time.monotonic() + 60.0
        assert [_receive(worker, deadline), _receive(worker, deadline)] == [6040, 0]


def test_a_thread_that_cannot_be_started_keeps_no_compile_from_being_made(compiler: Compiler) -> None:
    """It counted as busy for ever: no plan was made any more, and /healthz said that all is well."""
    compiler.plan()
    for start in (compiler.start_compile, compiler.send_state):
        with no_new_thread(), pytest.raises(RuntimeError):
            start(ASKED)
        assert not compiler.is_busy
    assert compiler.plan().ok


def test_a_compile_shows_that_it_goes_on_and_rests_after(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    during, compile_it = list[bool](), CompileProcess._compile

    def look(compiler: CompileProcess, asked: CompileRequest) -> Snapshot | CompileBreakdown:
        during.append(compiler.heartbeat.last_beat is not None)
        return compile_it(compiler, asked)

    monkeypatch.setattr(CompileProcess, "_compile", look)
    compiler.plan()
    assert (during, compiler.heartbeat.last_beat) == ([True], None)
    assert compiler.heartbeat.limit > TIMINGS.compile.time_limit


@pytest.mark.parametrize(
    ("content", "expected"), [("4294967296\n", 4 << 30), ("max\n", None), ("9223372036854771712\n", None)]
)
def test_the_limit_of_the_container_is_found(content: str, expected: int | None, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(content)
    whole_machine = available_memory(())
    assert available_memory((tmp_path / "absent", limit)) == min(expected or whole_machine, whole_machine)


def test_a_child_stays_below_the_containers_limit() -> None:
    """Seen once: a child might use more memory than the pod, and saw its secrets."""
    assert child_memory_limit(4 << 30) == 3 << 30
    assert child_memory_limit(1 << 20) == LEAST
    assert child_memory_limit(1 << 50) == MOST
    assert CompileProcess(Path("/nowhere"), lambda: None).memory_limit == child_memory_limit()


def test_no_credentials_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "here")
    environment = child_environment()
    assert environment["PYTHONPATH"] == "here"
    assert not {"KUBECONFIG", "AWS_SECRET_ACCESS_KEY"} & environment.keys()


def test_the_page_of_a_plan_is_written_behind_its_answer(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    compiler = Compiler(tmp_path / "compile", pages=pages)
    try:
        digest = compiler.plan().plan["digest"]
        until = time.monotonic() + 60
        while read_page(pages, digest) is None:
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        compiler.stop()
