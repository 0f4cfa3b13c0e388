"""What is said is said once, and an idle cluster is not written to."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from reconciler.changes.events import Condition, ObjectEvent
from reconciler.changes.planned_gangs import PlannedGang
from reconciler.cluster.client import LostLease, NotFound
from reconciler.cluster.objects import Object, Ref
from reconciler.inventory.store import FinishedRun
from reconciler.report.events import MAX_WAITING, EventWriter
from reconciler.report.explain import condition_sentence
from reconciler.report.process_log import JsonFormatter
from reconciler.report.status import MAX_MESSAGES, Report, StatusPublisher, read_status, status_document, status_text
from reconciler.timings import TIMINGS
from tests.builders.fake_cluster import FakeCluster
from tests.builders.memory_server import stored_sizes
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer

GANG = PlannedGang(
    Ref("batch.volcano.sh/v1alpha1", "Job", "default", "train"),
    "wait",
    queue="team",
    reasons=("GW101: 8 GPUs are missing",),
)
HELD = ((Ref("v1", "ConfigMap", "default", "stays"), "it is protected"),)


def report(applied: bool = True) -> Report:
    return Report(
        "c0ffee",
        "c0ffee",
        (Condition("Applied", applied, "Applied" if applied else "Outstanding"),),
        digest="sha256:1",
        gangs=(GANG,),
        held=HELD,
    )


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    first = status_document(report(), {}, "10:00")
    assert status_document(report(), first, "11:00") == first
    turned = status_document(report(applied=False), first, "12:00")
    assert turned["conditions"][0]["lastTransitionTime"] == "12:00"


def test_the_status_is_written_only_when_it_says_something_new() -> None:
    server = ScriptedServer(
        lambda method, path, body: error_answer(404) if method == "GET" else ScriptedAnswer(200, body)
    )
    publisher = StatusPublisher(server.client(), "gangplan-system", "test")
    publisher.publish(report())
    publisher.publish(report())
    assert [method for method, _, _ in server.requests] == ["GET", "PATCH"]
    publisher.publish(report(applied=False))
    assert [method for method, _, _ in server.requests] == ["GET", "PATCH", "PATCH"]


def test_the_log_says_once_that_a_condition_has_turned(caplog: pytest.LogCaptureFixture) -> None:
    """A reconciler that stood still, as its inventory was lost, logged not one line on it."""
    caplog.set_level(logging.INFO)
    lost = Condition("InventoryLost", True, "Held", "the inventory is lost")
    publisher = StatusPublisher(FakeCluster().client(), "gangplan-system", "test")
    for condition in (lost, lost, Condition("InventoryLost", False, "Present")):
        publisher.publish(replace(report(), conditions=(Condition("Applied", True, "Applied"), condition)))
    said = [(line.levelname, vars(line)["reason"], vars(line)["detail"]) for line in caplog.records]
    assert said == [("WARNING", "Held", "the inventory is lost"), ("INFO", "Present", "")]


def test_gangs_that_start_wait_for_the_next_write_of_the_status_and_a_condition_does_not() -> None:
    now = 100.0
    server = FakeCluster()
    publisher = StatusPublisher(server.client(), "gangplan-system", "test", clock=lambda: now)
    started = replace(report(), gangs=(replace(GANG, decision="keep"),))
    publisher.publish(report())
    publisher.publish(started)
    assert (len(server.writes), publisher.due_at) == (1, 101.0)
    publisher.publish(replace(started, conditions=report(applied=False).conditions))
    assert (len(server.writes), publisher.due_at) == (2, None)
    publisher.publish(report(applied=False))
    assert (len(server.writes), publisher.due_at) == (2, 101.0)
    now = 101.0
    publisher.publish(report(applied=False))
    assert (len(server.writes), publisher.due_at) == (3, None)


def test_an_event_is_said_once_and_again_only_with_another_message() -> None:
    server = ScriptedServer(lambda method, path, body: ScriptedAnswer(201, body))
    events = EventWriter(server.client(), "me")
    queue: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "team", "uid": "u"},
    }
    for message in ("put back", "put back", "put back again"):
        events.put([ObjectEvent(queue, "Corrected", message, False)])
    assert not server.requests, "no pass waits for an event"
    for _ in range(2):
        events.write_next()
    names = [body["metadata"]["name"] for _, _, body in server.requests]
    assert len(set(names)) == len(names) == 2
    assert all(body["metadata"]["namespace"] == "default" for _, _, body in server.requests), (
        "events of cluster-scoped objects stand in default"
    )


def test_events_that_find_no_room_are_dropped_and_counted() -> None:
    events = EventWriter(ScriptedServer(lambda method, path, body: ScriptedAnswer(201, body)).client(), "me")
    queue: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team", "uid": "u"}}
    events.put(ObjectEvent(queue, "Corrected", str(at), False) for at in range(MAX_WAITING + 7))
    assert events.dropped == 7


def test_the_thread_of_events_writes_what_waits_and_ends() -> None:
    server = ScriptedServer(lambda method, path, body: error_answer(500))
    events = EventWriter(server.client(), "me")
    queue: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team", "uid": "u"}}
    events.start()
    events.put(ObjectEvent(queue, "Corrected", str(at), False) for at in range(3))
    events.stop(30)
    assert len({body["metadata"]["name"] for _, _, body in server.requests}) == 3


QUEUE: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team", "uid": "u"}}


def test_an_event_that_the_server_does_not_take_for_now_is_written_later_and_holds_up_no_other() -> None:
    """It was dropped with its first failure and never told again; with a Retry-After all were that waited."""
    taken: list[str] = []
    left = 5

    def answer(method: str, path: str, body: Any) -> ScriptedAnswer:
        nonlocal left
        if body["message"] == "first" and (left := left - 1) >= 0:
            return error_answer(429 if left else 500, headers={"Retry-After": "0.1"})
        taken.append(body["message"])
        return ScriptedAnswer(201, body)

    events = EventWriter(ScriptedServer(answer).client(), "me")
    events.put(ObjectEvent(QUEUE, "Placed", text, False) for text in ("first", "second"))
    pauses = [events.write_next() for _ in range(7)]
    assert taken == ["second", "first"]
    assert pauses[:2] == [0.5, 0.0], "one that is taken ends the count of failures"
    assert (pauses[2:6], pauses[6]) == ([0.5, 1.0, 2.0, 4.0], 0.0)
    events.put([ObjectEvent(QUEUE, "Placed", "first", False)])
    events.write_next()
    assert (taken, events.dropped) == (["second", "first"], 0), "each once"


def test_an_event_that_is_given_up_is_counted_and_may_be_told_again() -> None:
    server = ScriptedServer(lambda method, path, body: error_answer(500))
    events = EventWriter(server.client(), "me")
    for told in (1, 2):
        events.put([ObjectEvent(QUEUE, "Waiting", "no room", False)])
        for _ in range(TIMINGS.report.event_attempts):
            events.write_next()
        assert (len(server.requests), events.dropped) == (told * TIMINGS.report.event_attempts, told)


def test_an_event_that_the_fence_stops_may_be_told_again() -> None:
    server = ScriptedServer(lambda method, path, body: ScriptedAnswer(201, body))
    client = server.client()

    def closed() -> None:
        raise LostLease("another replica holds the lease")

    client.fence = closed
    events = EventWriter(client, "me")
    for _ in range(2):
        events.put([ObjectEvent(QUEUE, "Waiting", "no room", False)])
        events.write_next()
        client.fence = lambda: None
    assert len(server.requests) == 1


def test_events_give_way_to_gates_but_not_for_ever() -> None:
    now, lifted_at = 100.0, 100.0
    server = ScriptedServer(lambda method, path, body: ScriptedAnswer(201, body))
    events = EventWriter(server.client(), "me", lambda: lifted_at, lambda: now)
    queue: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team", "uid": "u"}}

    def written_at(time_now: float, time_lifted: float) -> int:
        nonlocal now, lifted_at
        now, lifted_at = time_now, time_lifted
        events.write_next()
        return len(server.requests)

    events.put([ObjectEvent(queue, "Placed", "first", False)])
    assert [written_at(at, 100.4) for at in (100.5, 101.3, 101.5)] == [0, 0, 1]
    events.put([ObjectEvent(queue, "Placed", "second", False)])
    assert [written_at(at, at) for at in (102.0, 131.9, 132.0)] == [1, 1, 2]


def test_failing_to_report_does_not_stop_the_loop() -> None:
    StatusPublisher(
        ScriptedServer(lambda method, path, body: error_answer(500)).client(), "gangplan-system", "test"
    ).publish(report())


def test_people_read_what_waits_and_what_is_held() -> None:
    text = status_text(status_document(report(), {}, "10:00"))
    assert "wait   default/train (team) GW101: 8 GPUs are missing" in text
    assert "ConfigMap default/stays: it is protected" in text
    assert "more" not in text
    cut = status_document(replace(report(), held=HELD * 60), {}, "10:00")
    assert (len(cut["held"]), cut["heldTotal"]) == (MAX_MESSAGES, 60)
    assert f"  and {60 - MAX_MESSAGES} more\n" in status_text(cut)


def test_people_read_when_a_job_is_expected_to_start() -> None:
    waiting = replace(GANG, starts_at="2026-03-02T12:00:00Z")
    found = status_document(replace(report(), gangs=(waiting,)), {}, "10:00")
    assert found["gangs"][0]["startsAt"] == "2026-03-02T12:00:00Z"
    assert "GW101: 8 GPUs are missing; expected to start about 2026-03-02T12:00:00Z" in status_text(found)


def test_log_lines_are_json_with_their_extras() -> None:
    record = logging.makeLogRecord({"msg": "gates lifted", "levelname": "INFO", "gang": "default/train"})
    line: dict[str, Any] = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["level"], line["gang"]) == ("gates lifted", "info", "default/train")


def large_report(gangs: int, note: str = "") -> Report:
    found = [
        replace(
            GANG,
            job=GANG.job._replace(name=f"train-{at}"),
            reasons=(f"GW101: {at} GPUs are missing{note if at == 3 else ''}", "GW114: room is held for another"),
            domains=tuple(f"supernode-{number}" for number in range(8)),
        )
        for at in range(gangs)
    ]
    runs = tuple(FinishedRun(GANG.job._replace(name=f"finished-{at}"), "a", "Completed") for at in range(10_000))
    return replace(report(), gangs=tuple(found), runs=runs)


def test_5000_gangs_are_spread_over_config_maps_below_the_limit_and_read_as_one() -> None:
    """S10: the status ended at about 4,500 gangs."""
    server = FakeCluster()
    publisher = StatusPublisher(server.client(), "gangplan-system", "test")
    publisher.publish(large_report(5000), at_once=True)
    assert max(stored_sizes(server.objects).values()) < 900 << 10
    found = read_status(server.client(), publisher.ref)
    assert found == status_document(large_report(5000), found, "later")
    assert (len(found["gangs"]), len(found["finished"]), found["finishedTotal"]) == (5000, 1000, 10_000)
    before = len(server.writes)
    publisher.publish(large_report(5000), at_once=True)
    assert len(server.writes) == before
    publisher.publish(large_report(5000, note=" now"), at_once=True)
    assert len(server.writes) == before + 1, "only the part that says something new"
    publisher.publish(large_report(3), at_once=True)
    assert len(read_status(server.client(), publisher.ref)["gangs"]) == 3


def test_conditions_of_a_large_commit_are_written_alone_and_its_gangs_once_in_a_while() -> None:
    """1,000 jobs that start one after another were written with each pass: 300 kB a second."""
    server, now = FakeCluster(), [100.0]
    publisher = StatusPublisher(server.client(), "gangplan-system", "test", lambda: now[0])
    publisher.publish(large_report(1000))
    now[0] += 0.3
    publisher.publish(replace(large_report(1000, note=" now"), commit="b" * 40))
    first, rest = sorted(stored_sizes(server.objects).values())
    assert (first < 64 << 10, rest > 256 << 10) == (True, True)
    found = read_status(server.client(), publisher.ref)
    assert (found["commit"], found["gangs"][3]["reasons"][0]) == ("b" * 40, "GW101: 3 GPUs are missing")
    assert publisher.seconds_due() == pytest.approx(4.7)
    now[0] += 4.7
    publisher.publish(replace(large_report(1000, note=" now"), commit="b" * 40))
    found = read_status(server.client(), publisher.ref)
    assert found["gangs"][3]["reasons"][0] == "GW101: 3 GPUs are missing now"


def test_a_part_of_the_status_that_is_missing_is_an_error_and_not_a_shorter_status() -> None:
    server = FakeCluster()
    publisher = StatusPublisher(server.client(), "gangplan-system", "test")
    publisher.publish(large_report(5000))
    del server.objects[next(path for path in server.objects if path.endswith("-status-1"))]
    with pytest.raises(NotFound):
        read_status(server.client(), publisher.ref)


OTHER_SHAPES = (
    '{"conditions": "x"}',
    '{"conditions": [null]}',
    '{"conditions": [{"type": "Applied"}]}',
    '{"commit": 7}',
    '{"gangs": 5}',
    '{"gangs": [{}]}',
    '{"held": {"a": 1}}',
    '{"continuedIn": 3}',
)


@pytest.mark.parametrize("text", OTHER_SHAPES)
def test_a_status_of_another_shape_ends_neither_passes_nor_the_report_that_they_fail(text: str) -> None:
    """A condition without its fields ended every pass, and before it began once two had failed."""
    server = FakeCluster()
    publisher = StatusPublisher(server.client(), "gangplan-system", "test")
    publisher.publish(report())
    (path,) = server.objects
    for is_failure in (False, True):
        server.objects[path] = {**server.objects[path], "data": {"status.json": text}}
        with pytest.raises(ValueError, match="holds no status"):
            read_status(server.client(), publisher.ref)
        fresh = StatusPublisher(server.client(), "gangplan-system", "test")
        fresh.publish_failure("no") if is_failure else fresh.publish(report())
        assert read_status(server.client(), publisher.ref)["conditions"]


@pytest.mark.parametrize("text", ["null", "[]", "7", "{", "{}"])
def test_a_status_changed_by_others_is_written_again(text: str) -> None:
    server = FakeCluster()
    publisher = StatusPublisher(server.client(), "gangplan-system", "test")
    publisher.publish(report())
    (path,) = server.objects
    server.objects[path] = {**server.objects[path], "data": {"status.json": text}}
    StatusPublisher(server.client(), "gangplan-system", "test").publish(report())
    assert read_status(server.client(), publisher.ref)["commit"] == "c0ffee"


def test_a_status_whose_write_hangs_is_not_tried_again_for_longer_than_it_hung() -> None:
    """The loop waits for it, and gates and drift for the loop."""
    now, cluster = 100.0, FakeCluster()

    def hang(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        nonlocal now
        now += 30.0 if method != "GET" else 0.0
        return error_answer(500) if method != "GET" else None

    cluster.before = hang
    publisher = StatusPublisher(cluster.client(), "gangplan-system", "test", clock=lambda: now)
    publisher.publish(report())
    publisher.publish(report(applied=False))
    publisher.publish_failure("x")
    assert (len(cluster.writes), publisher.seconds_due()) == (1, 60.0)
    cluster.before, now = lambda method, path, body: None, 190.0
    publisher.publish(report())
    assert len(cluster.objects) == 1


@pytest.mark.parametrize("text", [None, "[]", '{"commit": "another"}'])
def test_a_status_that_somebody_deletes_or_changes_is_written_again_though_nothing_is_new(text: str | None) -> None:
    server = FakeCluster()
    publisher = StatusPublisher(server.client(), "gangplan-system", "test")
    publisher.recheck()
    publisher.publish(report())
    publisher.recheck()
    publisher.publish(report())
    assert len(server.writes) == 1, "an idle cluster is not written"
    ((path, item),) = server.objects.items()
    server.objects = {} if text is None else {path: {**item, "data": {"status.json": text}}}
    publisher.recheck()
    publisher.publish(report())
    assert read_status(server.client(), publisher.ref)["commit"] == "c0ffee"


def test_each_log_line_may_carry_the_revision() -> None:
    record = logging.makeLogRecord({"msg": "change", "levelname": "INFO", "object": "Queue team"})
    fields = {"revision": ""}
    formatter = JsonFormatter(lambda: fields)
    assert "revision" not in json.loads(formatter.format(record)), "none is in force yet"
    fields["revision"] = "c0ffee"
    line = json.loads(formatter.format(record))
    assert (line["revision"], line["object"]) == ("c0ffee", "Queue team")


def test_each_condition_is_explained() -> None:
    text = status_text(status_document(report(), {}, "10:00"))
    for condition in report().conditions:
        if sentence := condition_sentence(condition.type, condition.status):
            assert f"    {sentence}\n" in text
    assert condition_sentence("Fetched", False).endswith(".")
    assert condition_sentence("FromTheFuture", True) == ""
