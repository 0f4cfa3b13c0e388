"""Writes without an answer: each holds up only itself, sends nothing more, and is taken up when it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeResult
from reconciler.cluster.client import LostLease
from reconciler.cluster.objects import Ref, ref_of
from reconciler.cluster.write_threads import NO_ANSWER, Task, WriteThreads
from reconciler.inventory.store import Inventory
from reconciler.timings import TIMINGS, WriteTimings
from tests.builders.scripted_server import ScriptedAnswer, error_answer
from tests.builders.threads import HASTY_WRITES, wait_for_answers
from tests.builders.writing import CONFIGMAPS, JOBS, Writing, config_map, manifest_of, volcano_job

INVENTORY = "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-inventory"
Answer = ScriptedAnswer | None


class HangingServer(Writing):
    """A cluster whose answers to some requests wait until a test lets them go; then they are the cluster's own, or
    `answer`."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: Answer = None
        self.hangs: Callable[[str, str], bool] = lambda method, path: False
        self.gate, self.ended = threading.Event(), threading.Event()
        self.cluster.before = self._wait
        self.writer.threads = WriteThreads(HASTY_WRITES, self.ended.set)

    def _wait(self, method: str, path: str, body: Any) -> Answer:
        if not self.hangs(method, path):
            return None
        self.gate.wait()
        return self.answer

    def asked(self, *names: str) -> int:
        """How many writes there were of these objects."""
        return sum(path.rpartition("/")[2] in names for _, path in self.cluster.writes)

    def is_each_done(self, *changes: Change) -> bool:
        return {result.outcome for result in self.apply(*changes)} == {"done"}

    def let_go(self, answer: Answer = None) -> None:
        """Let what hangs have its answer, and wait until nothing is under way."""
        self.answer = answer
        self.gate.set()
        wait_for_answers(self.writer.threads)


@pytest.fixture
def server() -> Iterator[HangingServer]:
    server = HangingServer()
    yield server
    server.let_go()


def creation(name: str, kind: str = "ConfigMap", namespace: str = "default") -> Change:
    """All in one wave."""
    item = volcano_job(name) if kind == "Job" else config_map(name, namespace=namespace)
    return Change("create", ref_of(item), replace(manifest_of(item), wave=5))


def test_a_write_that_hangs_holds_up_no_other_and_is_taken_up_when_it_has_ended(server: HangingServer) -> None:
    server.hangs = lambda method, path: path.startswith(f"{JOBS}/bad")
    bad, good = creation("bad", "Job"), creation("good", "Job")
    assert [(each.outcome, each.message) for each in server.apply(bad, good)] == [("left", NO_ANSWER), ("done", "")]
    assert not server.writer.is_due(bad), "it is under way"
    assert (server.writer.memory.failures[bad.ref.key].outcome, server.writer.retry_times()) == ("left", []), "told"
    assert not server.writer.settle()
    assert not server.inventory.entries[bad.ref.key].uid
    server.let_go()
    assert server.ended.is_set(), "a pass is made for it"
    assert server.writer.settle() == [ChangeResult(bad, "done")]
    assert server.inventory.entries[bad.ref.key].uid == server.live("bad")["metadata"]["uid"]
    assert not server.writer.memory.failures
    assert server.asked("bad") == 1


def test_what_is_left_and_fails_is_told_and_tried_again(server: HangingServer) -> None:
    server.hangs = lambda method, path: path.startswith(f"{JOBS}/bad")
    bad, reason = creation("bad", "Job"), "the webhook gave no answer"
    server.apply(bad)
    server.let_go(error_answer(500, reason))
    (settled,) = server.writer.settle()
    assert (settled.outcome, reason in settled.message) == ("retry", True)
    server.time = 100.0
    assert server.writer.is_due(bad)
    server.gate.clear()
    server.apply(bad)
    told = server.writer.memory.failures[bad.ref.key].message
    assert reason in told, "the last answer says more than that there is none"


def test_a_write_that_was_left_sends_nothing_more(server: HangingServer) -> None:
    """It would be sent long after the loop looked: its object may be given up by then."""
    server.put(config_map("there", {"theirs": "1"}))
    server.hangs = lambda method, path: path.startswith(f"{CONFIGMAPS}/there")
    server.apply(creation("there"))
    before = len(server.cluster.requests)
    server.let_go()
    (settled,) = server.writer.settle()
    assert (settled.outcome, len(server.cluster.requests)) == ("retry", before)


def test_many_that_hang_take_no_thread_from_objects_of_other_kinds(server: HangingServer) -> None:
    server.hangs = lambda method, path: path.startswith(f"{CONFIGMAPS}/bad")
    bad = [creation(f"bad-{at}") for at in range(60)]
    names = [change.ref.name for change in bad]
    results = server.apply(*bad, creation("good", "Job"))
    assert {result.change.ref.name for result in results if result.outcome == "done"} == {"good"}
    asked = server.asked(*names)
    assert TIMINGS.writes.most_left_of_group <= asked <= 2 * TIMINGS.writes.writers
    server.apply(*filter(server.writer.is_due, bad))
    assert server.asked(*names) == asked, "no more of its kind while so many have none"
    server.let_go()
    assert len(server.writer.settle()) == asked


def test_what_was_not_begun_has_not_failed_and_is_due_as_soon_as_others_have_ended(server: HangingServer) -> None:
    """Each write of a slow server was left, and those behind it paused as if they had failed: ever longer."""
    server.hangs = lambda method, path: path.startswith(CONFIGMAPS)
    left = [creation(f"slow-{at}") for at in range(60)]
    made, passes = 0, 0
    while left:
        due = [change for change in left if server.writer.is_due(change)]
        assert {result.outcome for result in server.apply(*due)} <= {"left", "put off"}
        server.let_go()
        done = {each.change.ref for each in server.writer.settle() if isinstance(each, ChangeResult)}
        left = [change for change in left if change.ref not in done]
        made, passes = made + len(done), passes + 1
        assert len(due) == len(left) + len(done), "although the clock stands still"
        server.gate.clear()
    assert (made, passes) == (60, 60 // TIMINGS.writes.writers)
    assert not server.writer.memory.failures


def test_a_kind_that_hangs_in_many_namespaces_holds_the_loop_no_longer_than_in_one(server: HangingServer) -> None:
    """Eight of each namespace had to hang first, each for as long as the loop is patient."""
    server.hangs = lambda method, path: "/configmaps/" in path and "gangplan-system" not in path
    spread = [creation(f"bad-{at}", namespace=f"team-{at % 20}") for at in range(200)]
    results = server.apply(*spread, creation("good", "Job"))
    assert {result.change.ref.name for result in results if result.outcome == "done"} == {"good"}
    left = sum(result.outcome == "left" for result in results)
    assert TIMINGS.writes.most_left_of_kind <= left < TIMINGS.writes.most_left_of_kind + TIMINGS.writes.writers
    assert not any(map(server.writer.is_due, spread)), "no more of its kind while so many have no answer"


def test_no_more_writes_are_left_than_may_be_whatever_their_kinds() -> None:
    """Those that have ended took the room of others until they were taken up, and the loop waited for the rest."""
    gate, threads = threading.Event(), WriteThreads(WriteTimings(patience=0.01))

    def task(at: int) -> Task:
        ref = Ref("v1", f"Kind{at % 40}", "default", f"o-{at}")
        return Task(ref, lambda proceed: partial(str, gate.wait()), lambda outcome, message: outcome)

    outcomes = threads.run([task(at) for at in range(200)])
    assert TIMINGS.writes.most_left - TIMINGS.writes.writers < outcomes.count("left") <= TIMINGS.writes.most_left
    assert outcomes.count("put off") == 200 - outcomes.count("left")
    gate.set()
    wait_for_answers(threads)
    assert threads.run([task(1000)]) == ["True"], "what has ended keeps nothing from being begun"
    assert threads.take_ended() == ["True"] * outcomes.count("left")
    assert not threads.is_any_open()


@pytest.mark.parametrize(("threads", "made"), [(5, 40), (0, 0)])
def test_without_more_threads_each_write_is_made_once_or_not_at_all(
    server: HangingServer, monkeypatch: pytest.MonkeyPatch, threads: int, made: int
) -> None:
    """Those that could not be begun stayed behind, and were sent during the next pass, which sent them too."""
    limit_threads(server, monkeypatch, threads, are_given_back=True)
    server.writer.threads.timings = WriteTimings(patience=60.0)
    changes = [creation(f"o-{at}") for at in range(40)]
    with nullcontext() if made else pytest.raises(RuntimeError, match="new thread"):
        assert server.is_each_done(*changes)
    assert [server.asked(change.ref.name) for change in changes] == [bool(made)] * 40
    monkeypatch.undo()
    server.apply(creation("next"))
    assert server.asked(*(change.ref.name for change in changes)) == made, "nothing has stayed behind"


def test_a_thread_makes_one_write_after_the_other(server: HangingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """To start one for each took a tenth of the CPU of a wave; and those that there are do when there are no more."""
    limit_threads(server, monkeypatch, 3, are_given_back=False)
    server.writer.threads.timings = WriteTimings(patience=60.0)
    for round_of in range(2):
        changes = [creation(f"o-{round_of}-{at}") for at in range(10)]
        assert server.is_each_done(*changes)
        assert all(server.inventory.entries[change.ref.key].uid for change in changes)


def test_threads_end_when_there_is_nothing_to_write() -> None:
    threads, users = WriteThreads(WriteTimings(idle=0.02)), set[threading.Thread]()
    ref = Ref("v1", "ConfigMap", "default", "o")

    def send(proceed: Callable[[], None]) -> Callable[[], Ref]:
        users.add(threading.current_thread())
        return lambda: ref

    for _ in range(100):
        assert threads.run([Task(ref, send, lambda outcome, message: outcome)] * 2) == [ref, ref]
        time.sleep(0.019)  # an idle thread ends at about this time: none takes a write with it
    for user in users:
        user.join(10.0)
        assert not user.is_alive()


def limit_threads(
    server: HangingServer, monkeypatch: pytest.MonkeyPatch, threads: int, *, are_given_back: bool
) -> None:
    """So many threads can be started, where they are given back at a time."""
    start, free = threading.Thread.start, threading.Semaphore(threads)

    def start_within_limit(thread: threading.Thread) -> None:
        if thread.name == "writer" and not free.acquire(blocking=False):
            raise RuntimeError("can't start new thread")
        start(thread)

    def answer(method: str, path: str, body: Any) -> None:
        if path.startswith(CONFIGMAPS):
            time.sleep(0.01)
            if are_given_back:
                free.release()

    monkeypatch.setattr(threading.Thread, "start", start_within_limit)
    server.cluster.before = answer


def test_what_ended_well_beside_one_that_ends_the_pass_is_noted(server: HangingServer) -> None:
    def lose_lease(method: str, path: str, body: Any) -> None:
        if path.startswith(f"{CONFIGMAPS}/bad"):
            raise LostLease("another replica leads")

    server.cluster.before = lose_lease
    bad, good = creation("bad"), creation("good")
    with pytest.raises(LostLease):
        server.apply(bad, good)
    assert [bool(server.inventory.entries[change.ref.key].uid) for change in (bad, good)] == [False, True]


@pytest.mark.parametrize("is_note", [False, True])
def test_what_one_that_was_left_raises_ends_no_pass(
    server: HangingServer, monkeypatch: pytest.MonkeyPatch, is_note: bool
) -> None:
    """Nobody waits for it; what others came to meanwhile was lost. is_note: it raises when its answer is noted."""

    def break_down(method: str, path: str, body: Any) -> None:
        if path.startswith(CONFIGMAPS):
            server.gate.wait()
        if path.startswith(f"{CONFIGMAPS}/bad") and not is_note:
            raise LostLease("another replica led")

    server.cluster.before = break_down
    server.apply(creation("bad"), creation("good"))
    if is_note:
        monkeypatch.setattr(Inventory, "enter", Mock(side_effect=[LostLease("another replica led"), None]))
    server.let_go()
    told = [(each.outcome, each.message) for each in server.writer.settle()]
    assert told == [("retry", "LostLease: another replica led"), ("done", "")]


def test_an_inventory_whose_write_hangs_is_not_waited_for_again_at_once(server: HangingServer) -> None:
    """What needs no new entry went on only after four attempts, each as long as the webhook's time limit."""
    writer = server.writer

    def answer(method: str, path: str, body: Any) -> Answer:
        if "gangplan-system" not in path or method == "GET":
            return None
        server.time += 3 * TIMINGS.objects.slow_save
        return error_answer(500, "the webhook gave no answer")

    server.cluster.before = answer
    live = server.put(config_map("old"))
    server.enter(live)
    outcomes = {each.change.ref.name: each.outcome for each in server.apply(server.update(live, live), creation("new"))}
    assert outcomes == {"old": "done", "new": "retry", "gangplan-test-inventory": "retry"}
    assert server.time == 3 * TIMINGS.objects.slow_save, "one attempt"
    assert writer.save_inventory(server.inventory)
    assert server.time == 3 * TIMINGS.objects.slow_save, "and none for longer than it took"
    server.cluster.recover()
    server.time = 13 * TIMINGS.objects.slow_save
    assert not writer.save_inventory(server.inventory)


def test_a_write_of_the_inventory_whose_answer_came_too_late_is_no_other_replica(server: HangingServer) -> None:
    """It took the next attempt, a minute later, for another writer's: the inventory was forgotten, and the log said
    that another replica leads."""
    writer, inventory = server.writer, server.inventory
    assert not writer.save_inventory(inventory)

    def lose(method: str, path: str, body: Any) -> None:
        if method == "PUT":
            server.time += 3 * TIMINGS.objects.slow_save
            raise TimeoutError("no answer")

    server.cluster.after = lose
    inventory.bring_into_force("c0ffee")
    assert writer.save_inventory(inventory)
    server.cluster.after, server.time = lambda method, path, body: None, 20 * TIMINGS.objects.slow_save
    assert not writer.save_inventory(inventory)
    assert writer.failed_save[0] == ""
    server.cluster.objects[INVENTORY]["metadata"]["resourceVersion"] += "0"
    inventory.bring_into_force("f00d")
    with pytest.raises(LostLease):
        writer.save_inventory(inventory)
