"""Each thread says that it turns, and no exception ends one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import ConfigException

from reconciler.cluster.client import Client
from reconciler.cluster.lease import Lease
from reconciler.git.mirror import Mirror
from reconciler.git.poller import GitPoller
from reconciler.threads.heartbeat import Heartbeat, repeat_step
from reconciler.timings import LeaseTimings
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer

OFTEN = LeaseTimings(period=0.01)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.threads.heartbeat.ERROR_PAUSE", 0.0)


def test_a_step_is_repeated_whatever_it_raises() -> None:
    stop, heartbeat = threading.Event(), Heartbeat("test", 10)
    errors = [MemoryError(), OSError(28, "No space left on device"), TypeError(), KeyError("x"), RecursionError()]

    def step() -> float:
        if errors:
            raise errors.pop()
        stop.set()
        return 0.0

    repeat_step(step, stop, heartbeat)
    assert heartbeat.errors == 5


def test_a_heartbeat_is_late_after_its_limit_and_not_before_it_began() -> None:
    now = 100.0
    heartbeat = Heartbeat("test", 10, clock=lambda: now)
    assert heartbeat.seconds_late() == 0
    heartbeat.beat()
    now = 110.0
    assert heartbeat.seconds_late() == 0
    now = 113.0
    assert heartbeat.seconds_late() == 3
    heartbeat.beat()
    assert heartbeat.seconds_late() == 0
    now = 200.0
    heartbeat.rest()
    assert heartbeat.seconds_late() == 0, "it has nothing to do"
    heartbeat.beat_as_of(185.0)
    assert heartbeat.seconds_late() == 5


class Replies:
    """What a lease meets: each reply once, then a server that keeps the lease."""

    def __init__(self, *errors: Exception | ScriptedAnswer) -> None:
        self.errors, self.kept, self.version = list(errors), None, 0

    def script(self, method: str, path: str, body: Any) -> ScriptedAnswer:
        if self.errors:
            error = self.errors.pop(0)
            if isinstance(error, ScriptedAnswer):
                return error
            raise error
        self.version += 1
        spec = {} if body is None else body["spec"]
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        metadata = {"namespace": "n", "name": "l", "resourceVersion": str(self.version)}
        return ScriptedAnswer(200, {**lease, "metadata": metadata})


@pytest.mark.parametrize(
    "reply",
    [
        ConfigException("Invalid kube-config file"),
        MemoryError(),
        TypeError("null"),
        ScriptedAnswer(200, None),
        ScriptedAnswer(200, []),
        ScriptedAnswer(200, {"kind": "Lease"}),
        ScriptedAnswer(200, {"kind": "Lease", "metadata": None, "spec": None}),
    ],
    ids=["credentials", "memory", "type", "null", "list", "bare", "nulls"],
)
def test_the_lease_is_won_whatever_the_first_answer_was(reply: Exception | ScriptedAnswer) -> None:
    won = threading.Event()
    client = ScriptedServer(Replies(reply).script).client()
    lease = Lease(client, "n", "l", "one", OFTEN, on_change=lambda held: won.set() if held else None)
    lease.start()
    assert won.wait(60)
    lease.release()


def test_the_lease_is_won_after_its_credentials_could_not_be_read() -> None:
    failures = iter((ConfigException("empty"), OSError("gone"), ValueError("yaml")))
    server = ScriptedServer(Replies().script)
    won = threading.Event()

    def connect() -> ScriptedServer:
        if (error := next(failures, None)) is not None:
            raise error
        return server

    lease = Lease(Client(connect), "n", "l", "one", OFTEN, on_change=lambda held: won.set() if held else None)
    lease.start()
    assert won.wait(60)
    lease.release()


def test_the_git_thread_survives_what_it_did_not_expect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = [MemoryError(), TypeError("null"), OSError(28, "No space left on device")]
    mirror = Mirror(str(tmp_path), "main", tmp_path / "mirror")

    def fetch(self: Mirror) -> str:
        raise errors.pop(0) if errors else ValueError("still no good")

    monkeypatch.setattr(Mirror, "fetch", fetch)
    poller = GitPoller(mirror, 30.0, lambda: None)
    for _ in range(4):
        poller.poll_once()
    assert poller.head.problem == "ValueError: still no good"
    assert poller.heartbeat.errors == 3
