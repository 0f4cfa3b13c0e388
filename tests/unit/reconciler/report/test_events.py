"""Events: each written once, again while the server does not take it, and none that a pass waits for."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.changes.results import ObjectEvent
from reconciler.cluster.objects import Object
from reconciler.report.events import MAX_WAITING, EventWriter
from reconciler.timings import TIMINGS
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer
from tests.builders.threads import lose_lease

QUEUE: Object = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q", "uid": "u"}}


def event(message: str) -> ObjectEvent:
    return ObjectEvent(QUEUE, "Placed", message, False)


@pytest.fixture
def server() -> ScriptedServer:
    return ScriptedServer(lambda method, path, body: ScriptedAnswer(201, body))


@pytest.fixture
def events(server: ScriptedServer) -> EventWriter:
    return EventWriter(server.client(), "me")


@pytest.fixture
def failing() -> ScriptedServer:
    return ScriptedServer(lambda method, path, body: error_answer(500))


def test_an_event_is_said_once_and_again_only_with_another_message(server: ScriptedServer, events: EventWriter) -> None:
    for message in ("put back", "put back", "put back again"):
        events.put([event(message)])
    assert not server.requests, "no pass waits for an event"
    for _ in range(2):
        events.write_next()
    metadata = [body["metadata"] for _, _, body in server.requests]
    assert len({each["name"] for each in metadata}) == len(metadata) == 2
    assert {each["namespace"] for each in metadata} == {"default"}, "that of objects without a namespace"


def test_events_that_find_no_room_are_dropped_and_counted(events: EventWriter) -> None:
    events.put(event(str(at)) for at in range(MAX_WAITING + 7))
    assert events.dropped == 7


def test_the_thread_of_events_writes_what_waits_and_ends(failing: ScriptedServer) -> None:
    events = EventWriter(failing.client(), "me")
    events.start()
    events.put(event(str(at)) for at in range(3))
    events.stop(30)
    assert {body["message"] for _, _, body in failing.requests} == {"0", "1", "2"}


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
    events.put(map(event, ("first", "second")))
    pauses = [events.write_next() for _ in range(7)]
    assert taken == ["second", "first"]
    assert pauses == [0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 0.0], "one that is taken ends the count of failures"
    events.put([event("first")])
    events.write_next()
    assert (taken, events.dropped) == (["second", "first"], 0), "each once"


def test_an_event_that_is_given_up_is_counted_and_may_be_told_again(failing: ScriptedServer) -> None:
    events = EventWriter(failing.client(), "me")
    for told in (1, 2):
        events.put([event("no room")])
        for _ in range(TIMINGS.report.event_attempts):
            events.write_next()
        assert (len(failing.requests), events.dropped) == (told * TIMINGS.report.event_attempts, told)


def test_an_event_that_the_fence_stops_may_be_told_again(server: ScriptedServer, events: EventWriter) -> None:
    for events.client.fence in (lose_lease, lambda: None):
        events.put([event("no room")])
        events.write_next()
    assert len(server.requests) == 1
