"""Each answer of an API server becomes the error that says what happens next."""

from __future__ import annotations

import pytest

from reconciler.kube import KNOWN, ApiError, Conflict, Forbidden, Gone, Invalid, NotFound, Owner, Retry, Unauthorized
from reconciler.objects import Ref
from tests.unit.reconciler.scripted import Answer, Server, in_turn, refusal

QUEUE = Ref("scheduling.volcano.sh/v1beta1", "Queue", "", "team")
PODS = KNOWN["v1", "Pod"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(404), NotFound),
        (refusal(410), Gone),
        (refusal(400), Invalid),
        (refusal(422), Invalid),
        (refusal(403, "user may not"), Forbidden),
        (refusal(403, 'admission webhook "validatejob.volcano.sh" denied the request: no'), Invalid),
        (refusal(409), Conflict),
        (refusal(500), Retry),
        (refusal(503), Retry),
        (Answer(502, b"<html>bad gateway</html>"), Retry),
        (Answer(200, b'{"kind": "Que'), Retry),
        (Answer(200, {}, breaks=True), Retry),
    ],
)
def test_an_answer_becomes_an_error_that_says_what_happens_next(answer: Answer, error: type[ApiError]) -> None:
    with pytest.raises(error):
        Server(in_turn(answer)).client().get(QUEUE)


def test_a_throttled_request_says_when_to_come_back() -> None:
    with pytest.raises(Retry) as raised:
        Server(in_turn(refusal(429, headers={"Retry-After": "7"}))).client().get(QUEUE)
    assert raised.value.after == 7


def test_a_conflict_names_manager_and_field() -> None:
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl-edit" using v1beta1',
        "field": ".spec.weight",
    }
    with pytest.raises(Conflict) as raised:
        Server(in_turn(refusal(409, causes=[cause]))).client().get(QUEUE)
    assert raised.value.owners == (Owner("kubectl-edit", ".spec.weight"),)


def test_an_expired_token_is_read_again_once() -> None:
    server = Server(in_turn(refusal(401), Answer(200, {"kind": "Queue"})))
    assert server.client().get(QUEUE) == {"kind": "Queue"}
    assert server.connections == 2


def test_credentials_that_stay_refused_are_not_tried_for_ever() -> None:
    server = Server(lambda method, path, body: refusal(401))
    with pytest.raises(Unauthorized):
        server.client().get(QUEUE)
    assert len(server.asked) == 2


def test_a_list_takes_all_pages_and_gives_items_their_kind() -> None:
    first = Answer(
        200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    )
    last = Answer(200, {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "b"}}]})
    server = Server(in_turn(first, last))
    items, version = server.client().list(PODS)
    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [("Pod", "a"), ("Pod", "b")]
    assert version == "5"
    assert "continue=more" in server.asked[1][1]


def test_a_continue_token_that_is_too_old_is_gone_and_no_short_list() -> None:
    first = Answer(200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": []})
    with pytest.raises(Gone):
        Server(in_turn(first, refusal(410))).client().list(PODS)


def test_apply_is_not_forced_unless_asked_and_names_its_manager() -> None:
    server = Server(lambda method, path, body: Answer(200, {}))
    thing = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "team"}}
    server.client().apply(thing)
    method, path, body = server.asked[0]
    assert (method, body) == ("PATCH", thing)
    assert path.startswith("/apis/scheduling.volcano.sh/v1beta1/queues/team?")
    assert "fieldManager=gangplan" in path
    assert "force=false" in path


def test_a_delete_is_of_this_very_object() -> None:
    server = Server(lambda method, path, body: Answer(200, {}))
    server.client().delete(QUEUE, "uid-1")
    assert server.asked[0][2]["preconditions"] == {"uid": "uid-1"}


def test_a_kind_that_is_not_known_is_discovered_once_and_one_that_is_not_served_is_not_found() -> None:
    listing = Answer(
        200,
        {
            "resources": [
                {"name": "widgets", "kind": "Widget", "namespaced": True},
                {"name": "widgets/status", "kind": "Widget"},
            ]
        },
    )
    server = Server(lambda method, path, body: listing)
    client = server.client()
    assert (
        client.resource("example.com/v1", "Widget").path("here", "w")
        == "/apis/example.com/v1/namespaces/here/widgets/w"
    )
    client.resource("example.com/v1", "Widget")
    assert len(server.asked) == 1
    with pytest.raises(NotFound):
        client.resource("example.com/v1", "Gadget")
