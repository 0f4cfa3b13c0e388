"""Each answer of an API server becomes the error that says what happens next."""

from __future__ import annotations

import pytest
from kubernetes.config import ConfigException

from reconciler.cluster.client import (
    KNOWN_RESOURCES,
    ApiError,
    Client,
    Conflict,
    FieldOwner,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Retry,
    Unauthorized,
)
from reconciler.cluster.objects import Object, Ref
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, answers_in_order, error_answer

QUEUE = Ref("scheduling.volcano.sh/v1beta1", "Queue", "", "team")
PODS = KNOWN_RESOURCES["v1", "Pod"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (error_answer(404), NotFound),
        (error_answer(410), Gone),
        (error_answer(400), Invalid),
        (error_answer(422), Invalid),
        (error_answer(403, "user may not"), Forbidden),
        (error_answer(403, 'admission webhook "validatejob.volcano.sh" denied the request: no'), Invalid),
        (error_answer(409), Conflict),
        (error_answer(500), Retry),
        (error_answer(503), Retry),
        (ScriptedAnswer(502, b"<html>bad gateway</html>"), Retry),
        (ScriptedAnswer(200, b'{"kind": "Que'), Retry),
        (ScriptedAnswer(200, {}, breaks_off=True), Retry),
    ],
)
def test_an_answer_becomes_an_error_that_says_what_happens_next(answer: ScriptedAnswer, error: type[ApiError]) -> None:
    with pytest.raises(error):
        ScriptedServer(answers_in_order(answer)).client().get(QUEUE)


def test_a_throttled_request_says_when_to_come_back() -> None:
    with pytest.raises(Retry) as raised:
        ScriptedServer(answers_in_order(error_answer(429, headers={"Retry-After": "7"}))).client().get(QUEUE)
    assert raised.value.after == 7


def test_a_conflict_names_manager_and_field() -> None:
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl-edit" using v1beta1',
        "field": ".spec.weight",
    }
    with pytest.raises(Conflict) as raised:
        ScriptedServer(answers_in_order(error_answer(409, causes=[cause]))).client().get(QUEUE)
    assert raised.value.owners == (FieldOwner("kubectl-edit", ".spec.weight"),)


def test_an_expired_token_is_read_again_once() -> None:
    server = ScriptedServer(answers_in_order(error_answer(401), ScriptedAnswer(200, {"kind": "Queue"})))
    assert server.client().get(QUEUE) == {"kind": "Queue"}
    assert server.connections == 2


def test_credentials_that_stay_refused_are_not_tried_for_ever() -> None:
    server = ScriptedServer(lambda method, path, body: error_answer(401))
    with pytest.raises(Unauthorized):
        server.client().get(QUEUE)
    assert len(server.requests) == 2


def test_a_list_takes_all_pages_and_gives_items_their_kind() -> None:
    first = ScriptedAnswer(
        200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    )
    last = ScriptedAnswer(200, {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "b"}}]})
    server = ScriptedServer(answers_in_order(first, last))
    items, version = server.client().list(PODS)
    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [("Pod", "a"), ("Pod", "b")]
    assert version == "5"
    assert "continue=more" in server.requests[1][1]


def test_a_continue_token_that_is_too_old_is_gone_and_no_short_list() -> None:
    first = ScriptedAnswer(200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": []})
    with pytest.raises(Gone):
        ScriptedServer(answers_in_order(first, error_answer(410))).client().list(PODS)


def test_apply_is_not_forced_unless_asked_and_names_its_manager() -> None:
    server = ScriptedServer(lambda method, path, body: ScriptedAnswer(200, {}))
    thing = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "team"}}
    server.client().apply(thing, "uid-1")
    method, path, body = server.requests[0]
    assert (method, body) == ("PATCH", {**thing, "metadata": {"name": "team", "uid": "uid-1"}})
    assert path.startswith("/apis/scheduling.volcano.sh/v1beta1/queues/team?")
    assert "fieldManager=gangplan" in path
    assert "force=false" in path


def test_a_delete_is_of_this_very_object() -> None:
    server = ScriptedServer(lambda method, path, body: ScriptedAnswer(200, {}))
    server.client().delete(QUEUE, "uid-1")
    assert server.requests[0][2]["preconditions"] == {"uid": "uid-1"}


def test_a_kind_that_is_not_known_is_discovered_once_and_one_that_is_not_served_is_not_found() -> None:
    listing = ScriptedAnswer(
        200,
        {
            "resources": [
                {"name": "widgets", "kind": "Widget", "namespaced": True},
                {"name": "widgets/status", "kind": "Widget"},
            ]
        },
    )
    server = ScriptedServer(lambda method, path, body: listing)
    client = server.client()
    assert (
        client.resource("example.com/v1", "Widget").path("here", "w")
        == "/apis/example.com/v1/namespaces/here/widgets/w"
    )
    client.resource("example.com/v1", "Widget")
    assert len(server.requests) == 1
    with pytest.raises(NotFound):
        client.resource("example.com/v1", "Gadget")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"text"', b"7", b"{}", b'{"kind": "Status"}'])
def test_an_answer_that_is_no_object_is_tried_again(body: bytes) -> None:
    with pytest.raises(Retry):
        ScriptedServer(lambda *_: ScriptedAnswer(200, body)).client().get(QUEUE)


def test_credentials_that_cannot_be_read_are_an_error_of_the_api() -> None:
    def connect() -> ScriptedServer:
        raise ConfigException("Invalid kube-config file")

    with pytest.raises(Retry, match="credentials cannot be read: ConfigException: Invalid kube-config file"):
        Client(connect).get(QUEUE)


def test_a_list_whose_pages_do_not_end_is_no_list() -> None:
    page = ScriptedAnswer(200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": []})
    with pytest.raises(Retry, match="does not come to an end"):
        ScriptedServer(lambda *_: page).client().list(PODS)


def found(get: ScriptedAnswer, listed: ScriptedAnswer) -> Object | None:
    return ScriptedServer(lambda m, path, b: listed if "fieldSelector" in path else get).client().find(QUEUE)


def test_an_object_is_gone_only_if_the_list_of_its_kind_says_so_as_well() -> None:
    nothing = ScriptedAnswer(200, {"metadata": {"resourceVersion": "5"}, "items": []})
    there = ScriptedAnswer(200, {"kind": "Queue", "metadata": {"name": "team"}})
    listed = ScriptedAnswer(200, {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "team"}}]})
    assert found(error_answer(404), nothing) is None
    assert found(there, nothing) == {"kind": "Queue", "metadata": {"name": "team"}}
    assert (found(error_answer(404), listed) or {})["metadata"] == {"name": "team"}


@pytest.mark.parametrize("answer", [error_answer(404), error_answer(403), error_answer(500), ScriptedAnswer(200, None)])
def test_whether_an_object_is_gone_is_not_known_while_its_kind_cannot_be_listed(answer: ScriptedAnswer) -> None:
    with pytest.raises(ApiError):
        found(error_answer(404), answer)


def test_a_kind_that_is_not_served_is_not_looked_up_for_each_of_its_objects() -> None:
    server = ScriptedServer(lambda *_: error_answer(404, "404 page not found"))
    client = server.client()
    for _ in range(50):
        with pytest.raises(NotFound, match="serves no kind ServiceMonitor in monitoring"):
            client.resource("monitoring.coreos.com/v1", "ServiceMonitor")
    assert len(server.requests) == 1


def test_no_write_is_sent_once_the_process_is_to_end() -> None:
    server = ScriptedServer(lambda *_: ScriptedAnswer(200, {"kind": "Queue"}))
    client = server.client()

    def refuse() -> None:
        raise InterruptedError

    client.fence = refuse
    client.get(QUEUE)
    with pytest.raises(InterruptedError):
        client.delete(QUEUE, "uid")
    assert [method for method, _, _ in server.requests] == ["GET"]
