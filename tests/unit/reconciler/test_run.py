"""The life of a reconciler: whatever a pass meets, it goes on; it says so honestly, and it ends when it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes.config import ConfigException

from reconciler import run
from reconciler.assembly import build_parts
from reconciler.changes.results import Allowed, ChangeResult, Condition, Effects, ObjectEvent
from reconciler.cluster.client import ApiError, Client, Forbidden, LostLease, Retry
from reconciler.cluster.lease import Lease
from reconciler.cluster.objects import Object, Ref
from reconciler.git.mirror import GitPoller
from reconciler.inventory.keeper import OtherGangplanError
from reconciler.inventory.store import Inventory
from reconciler.loop import Parts
from reconciler.objects.part import Basis, Corrections
from reconciler.observation.informers import InformerSet
from reconciler.planning.snapshot import Snapshot
from reconciler.report.events import EventWriter
from reconciler.report.status import Report, StatusPublisher
from reconciler.requests.part import Requests
from reconciler.run import http_pages, run_reconciler
from reconciler.settings import Settings
from reconciler.timings import TIMINGS, LoopTimings
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUEUE = Ref("scheduling.volcano.sh/v1beta1", "Queue", "", "team")
WAIT_FOR_START = run._wait_for_start
SHORT = LoopTimings(first_failure_pause=0.001, longest_failure_pause=0.002)
IDLE = Report(commit="c0ffee", head="c0ffee", conditions=(), is_idle=True, next_wakeup=0.0)


class Life:
    """A reconciler whose pass is the test's. `steps`: one for each pass; it ends after the last."""

    def __init__(self, folder: Path) -> None:
        self.server = ScriptedServer(self.answer)
        settings = Settings(str(folder), "main", "test", "gangplan-system", folder / "data")
        self.parts = build_parts(settings, self.server.client(), "me", replace(TIMINGS, loop=SHORT))
        self.steps: list[Callable[[Parts], Report]] = []
        self.stopped = False

    def answer(self, method: str, path: str, body: object) -> ScriptedAnswer:
        if "watch=1" in path:
            return ScriptedAnswer(200, b"")
        if path.endswith("/gangplan-test-status") and method == "GET":
            return error_answer(404)
        return ScriptedAnswer(200, {"metadata": {"resourceVersion": "5"}, "items": []})

    def live(self, *steps: Callable[[Parts], Report]) -> Report | None:
        self.steps = list(steps)
        return run_reconciler(self.parts, lambda: self.stopped or not self.steps)

    def one_pass(self, parts: Parts) -> Report:
        return self.steps.pop(0)(parts)


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    made = Life(tmp_path)
    monkeypatch.setattr(run, "reconcile_once", made.one_pass)
    monkeypatch.setattr(run, "_wait_for_start", lambda *_: None)
    made.parts.hands.client.fence = lambda: None
    yield made
    made.parts.hands.watches.stop()


@pytest.fixture
def leading(life: Life, monkeypatch: pytest.MonkeyPatch) -> Life:
    monkeypatch.setattr(Lease, "is_held", lambda _: True)
    return life


def idle(parts: Parts) -> Report:
    return IDLE


def failing(error: BaseException) -> Callable[[Parts], Report]:
    def step(parts: Parts) -> Report:
        raise error

    return step


@pytest.mark.parametrize(("failures", "passes"), [(1, 1), (0, 2)])
def test_once_ends_where_nothing_is_known_of_the_repository(
    failures: int, passes: int, leading: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch that is not there: it waited ten minutes, and said that there is more to do. A first clone that comes in
    steps has not failed."""
    monkeypatch.setattr(GitPoller, "start", lambda _: None)
    leading.parts.planning.branch.poller.failures = failures
    problem = Condition("Fetched", False, "GitFailed", "no branch")
    leading.steps = [lambda _: Report("", "", (problem,), next_wakeup=0.0), idle, idle]
    run_reconciler(leading.parts, lambda: False, once=True)
    assert len(leading.steps) == 3 - passes


@pytest.mark.parametrize(("once", "passes"), [(False, 1), (True, 0)])
def test_a_git_server_that_does_not_answer_holds_up_the_first_pass_for_a_moment_only(
    once: bool, passes: int, leading: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart no drift was put back and no gate lifted for a minute, although the cluster has the plan."""
    monkeypatch.setattr(run, "_wait_for_start", WAIT_FOR_START)
    monkeypatch.setattr(GitPoller, "start", lambda _: None)
    monkeypatch.setattr(InformerSet, "wait_for_lists", lambda *_: True)
    timings = replace(SHORT, start=3600.0, first_fetch=0.0)
    leading.parts = replace(leading.parts, hands=replace(leading.parts.hands, timings=replace(TIMINGS, loop=timings)))
    assert leading.parts.planning.branch.head.problem == "the first fetch has not ended"
    leading.steps, looks = [idle, idle], iter(range(4))
    run_reconciler(leading.parts, lambda: len(leading.steps) < 2 or next(looks, None) is None, once=once)
    assert len(leading.steps) == 2 - passes


def test_whatever_a_pass_meets_the_next_one_comes(life: Life) -> None:
    errors = [
        ConfigException("Invalid kube-config file"),
        MemoryError(),
        OSError(28, "No space left on device"),
        TypeError("null"),
        KeyError("metadata"),
        Retry("500"),
        ValueError("the inventory cannot be read"),
        RecursionError(),
    ]
    assert life.live(*(failing(error) for error in errors), idle) == IDLE
    assert life.parts.voices.metrics.passes.labels(result="failed")._value.get() == len(errors)
    assert life.parts.hands.pulse.heartbeat.errors == 5, "what no API and no file explains is counted on its own"


@pytest.mark.parametrize(("error", "told"), [(Forbidden("may not patch configmaps"), True), (Retry("503"), False)])
def test_a_status_that_may_not_be_written_is_told_by_an_event(
    leading: Life, monkeypatch: pytest.MonkeyPatch, error: ApiError, told: bool
) -> None:
    """With the right to write it taken away, the status stood there as if all were as it says."""
    events: list[ObjectEvent] = []

    def refuse(self: Client, item: Object) -> Object:
        raise error

    monkeypatch.setattr(Client, "apply_anyway", refuse)
    monkeypatch.setattr(EventWriter, "put", lambda self, more: events.extend(more))
    leading.live(lambda parts: replace(IDLE, commit="new"), idle)
    found = {(each.reason, "may not patch configmaps" in each.message) for each in events}
    assert found == ({("StatusNotWritten", True)} if told else set())


def test_the_status_says_that_passes_fail_until_one_does_not(leading: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inventory that somebody had written into stopped everything, and the status still said that all is well."""
    said, written = list[tuple[str, str]](), list[Object]()
    good = replace(IDLE, conditions=(Condition("PassFailed", False, "None", ""), Condition("Fetched", True, "Fetched")))

    def look(parts: Parts) -> Report:
        conditions = {each["type"]: each for each in json.loads(written[-1]["data"]["status.json"])["conditions"]}
        assert "Fetched" in conditions, "what was said last stays"
        said.append((conditions["PassFailed"]["status"], conditions["PassFailed"]["message"]))
        return good

    def fail(parts: Parts) -> Report:
        look(parts)
        raise ValueError("ConfigMap x holds no inventory")

    monkeypatch.setattr(Client, "apply_anyway", lambda self, item: written.append(item))
    leading.live(lambda parts: good, fail, fail, fail, look, look)
    well, failed = ("False", ""), ("True", "ConfigMap x holds no inventory")
    assert said == [well, well, failed, failed, well]
    assert leading.parts.voices.metrics.condition.labels(type="PassFailed")._value.get() == 0


def test_a_status_that_waits_is_written_although_nothing_happens(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lease nothing is written, so nothing is due."""
    held: list[bool] = []
    due: list[bool] = []

    def seconds_due(_publisher: StatusPublisher) -> float:
        due.append(bool(held))
        return 0.05

    def take_over(_parts: Parts) -> Report:
        held.append(True)
        return replace(IDLE, next_wakeup=None)

    monkeypatch.setattr(Lease, "is_held", lambda self: bool(held))
    monkeypatch.setattr(StatusPublisher, "seconds_due", seconds_due)
    monkeypatch.setattr(StatusPublisher, "publish", lambda *_, **__: None)
    began_at = time.monotonic()
    life.live(idle, take_over, idle)
    assert time.monotonic() - began_at < SHORT.longest_pause
    assert due == [True, True]


def test_another_gangplan_in_the_cluster_ends_it(life: Life) -> None:
    with pytest.raises(OtherGangplanError):
        life.live(failing(OtherGangplanError("another")))


@pytest.mark.parametrize(("method", "path"), [("DELETE", f"{QUEUES}/team"), ("GET", "/version")])
def test_a_stop_is_obeyed_between_two_requests(life: Life, method: str, path: str) -> None:
    """A pass that looks up a hundred objects of a server that hangs outlived SIGTERM by an hour."""

    def many_requests(parts: Parts) -> Report:
        for _ in range(100):
            parts.hands.client.request(method, path)
            life.stopped = True
        return IDLE

    assert life.live(many_requests, idle) is None
    assert [asked for _, asked, _ in life.server.requests].count(path) == 1
    assert len(life.steps) == 1


def test_a_long_pass_that_writes_is_alive_and_one_that_hangs_is_not(life: Life) -> None:
    now = 0.0
    parts = life.parts
    parts.hands.pulse.heartbeat.clock = lambda: now
    healthz = http_pages(parts)["/healthz"]
    seen = []

    def long_pass(parts: Parts) -> Report:
        nonlocal now
        for _ in range(4):
            now += 100.0
            parts.hands.client.delete(QUEUE, "uid")
            seen.append(healthz()[0])
        now += 200.0
        seen.append(healthz()[0])
        return IDLE

    life.live(long_pass, idle)
    assert seen == [200, 200, 200, 200, 503]


def test_an_outage_of_the_api_server_is_no_reason_to_restart_and_each_thread_is(life: Life) -> None:
    """Seen once: an outage of the API server restarted the pod."""
    parts = life.parts
    pages = http_pages(parts)
    parts.hands.pulse.last_good_pass = time.monotonic() - 10_000
    names = {beat.name for beat in run._heartbeats(parts)}
    assert names >= {"loop", "lease", "events", "requests", "scheduler", "git"}
    assert names >= {"compile", "compile-state", "plan-copy"}
    parts.planning.candidacy.dry_run = parts.planning.candidacy.make_dry_run(())
    assert "dry-run" in {beat.name for beat in run._heartbeats(parts)}
    for beat in run._heartbeats(parts):
        beat.beat()
    assert pages["/healthz"]()[0] == 200
    assert pages["/readyz"]() == (503, "no plan yet\n")
    parts.planning.snapshot = Snapshot("c0ffee", True)
    assert "the last good pass was 10000 s ago" in pages["/readyz"]()[1]
    parts.hands.pulse.last_good_pass = time.monotonic()
    assert pages["/readyz"]()[0] == 200
    for beat in run._heartbeats(parts):
        beat.last_beat = time.monotonic() - beat.limit - 5
        assert pages["/healthz"]()[0] == 503
        assert beat.name in pages["/healthz"]()[1]
        beat.beat()


@pytest.mark.parametrize("error", [Retry("500"), LostLease("another replica"), TypeError("null")])
def test_objects_are_put_back_while_the_loop_rests_and_trouble_with_that_makes_a_pass(
    life: Life, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    parts, looks = life.parts, list[int]()

    def put_back(_: Corrections, now: Basis | None) -> list[ChangeResult]:
        if len(life.steps) == 1:
            looks.append(1)
            parts.hands.wake.stirred.set()
            if len(looks) == 3:
                raise error
        return []

    def first(parts: Parts) -> Report:
        parts.hands.keeper.inventory = Inventory()
        basis = Basis(Snapshot("c0ffee", True), parts.hands.keeper.inventory, Requests())
        parts.objects.corrections.note_pass(basis, Allowed(), Effects())
        return replace(IDLE, next_wakeup=None)

    def second(parts: Parts) -> Report:
        assert len(looks) >= 3
        assert parts.objects.corrections.basis is None
        assert (parts.hands.keeper.inventory is None) == isinstance(error, LostLease)
        return IDLE

    monkeypatch.setattr(Corrections, "put_back", put_back)
    assert life.live(first, second) == IDLE
    assert parts.voices.metrics.passes.labels(result="good")._value.get() == 2


def test_a_replica_that_cannot_read_the_cluster_is_not_ready(life: Life) -> None:
    parts = life.parts
    parts.planning.snapshot, parts.hands.pulse.last_good_pass = Snapshot("c0ffee", True), time.monotonic()
    parts.hands.watches.start()
    assert parts.hands.watches.wait_for_lists(60)
    health = parts.hands.watches.informers["Pod"].health
    health.is_synced, health.problem = False, "403: may not list pods"
    assert http_pages(parts)["/readyz"]() == (503, "Pod cannot be read: 403: may not list pods\n")
    health.is_synced, parts.hands.lease.trouble = True, ("403: may not get leases", -1e9)
    status, text = http_pages(parts)["/readyz"]()
    assert (status, "403: may not get leases" in text) == (503, True)
    health.is_synced = False
    metrics = http_pages(parts)["/metrics"]()[1]
    assert 'gangplan_watch_synced{kind="Pod"} 0.0' in metrics
    assert 'gangplan_watch_synced{kind="Node"} 1.0' in metrics


def test_only_what_is_urgent_cuts_a_rest_short(life: Life) -> None:
    wake = life.parts.hands.wake
    for tell, rest, least, most in ((wake.set, 0.3, 0.3, 60.0), (wake.hurry, 60.0, 0.0, 50.0)):
        wake.clear()
        tell()
        began_at = time.monotonic()
        run._pause(life.parts, lambda: False, 0.01, 1.0, began_at + rest)
        assert least <= time.monotonic() - began_at < most
