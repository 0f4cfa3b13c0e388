"""Each answer of an API server becomes the error that says what happens next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.config import ConfigException

from reconciler.cluster.client import (
    BRIEF_LIMITS,
    ApiError,
    Client,
    Conflict,
    FieldOwner,
    Forbidden,
    Gone,
    Invalid,
    Limits,
    NotFound,
    Retry,
    Unauthorized,
)
from reconciler.cluster.objects import Object, Ref
from reconciler.cluster.resources import KNOWN_RESOURCES
from reconciler.inventory.store import Inventory, InventoryStore
from reconciler.report.status import StatusPublisher
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, answers_in_order, error_answer

QUEUE = Ref("scheduling.volcano.sh/v1beta1", "Queue", "", "team")
TEAM: Object = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "team"}}
PODS = KNOWN_RESOURCES["v1", "Pod"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (error_answer(404), NotFound),
        (error_answer(410), Gone),
        (error_answer(400), Invalid),
        (error_answer(422), Invalid),
        (error_answer(403, "user may not"), Forbidden),
        (error_answer(413), Invalid),
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


NO_RIGHT = 'queues "team" is forbidden: User "system:gangplan" cannot patch resource "queues" in API group "x"'
GOING = 'configmaps "a" is forbidden: unable to create new content in namespace n because it is being terminated'
POLICY = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'no' with binding 'no' denied request: this is bad"
QUOTA = 'configmaps "a" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=3, limited: ...'


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (NO_RIGHT, Forbidden),
        (f'{NO_RIGHT} at the cluster scope: RBAC: clusterrole "gangplan" not found', Forbidden),
        ('forbidden: User "system:anonymous" cannot patch path "/x"', Forbidden),
        (GOING, Forbidden),
        ('queues "team" is forbidden: not yet ready to handle request', Retry),
        ('admission webhook "validatejob.volcano.sh" denied the request: no', Invalid),
        (POLICY, Invalid),
        (QUOTA, Invalid),
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged', Invalid),
        ("", Invalid),
    ],
)
def test_what_admission_refuses_is_no_missing_right(message: str, error: type[ApiError]) -> None:
    """Every 403 but a webhook's was taken for a missing right: it says nothing about the object."""
    client = ScriptedServer(lambda method, path, body: error_answer(403, message)).client()
    for write in (lambda: client.apply(TEAM, "uid-1"), lambda: client.create(TEAM), lambda: client.delete(QUEUE, "u")):
        with pytest.raises(error):
            write()
    with pytest.raises(Retry if error is Retry else Forbidden):
        client.get(QUEUE)


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
    server = ScriptedServer(answers_in_order(error_answer(401), ScriptedAnswer(200, TEAM)))
    assert server.client().get(QUEUE) == TEAM
    assert server.connections == 2


@pytest.mark.parametrize("answer", [{}, {"kind": "Status", "status": "Success"}, {"metadata": None}, [], "x", 1])
def test_what_is_no_object_is_not_believed_of_a_write(answer: Any) -> None:
    """It was remembered as what the object is now, and then ended every pass."""
    client = ScriptedServer(lambda method, path, body: ScriptedAnswer(200, answer)).client()
    writes: tuple[Callable[[], Object], ...] = (
        lambda: client.apply(TEAM, "uid-1"),
        lambda: client.create_by_apply(TEAM),
        lambda: client.create(TEAM),
        lambda: client.replace(TEAM),
        lambda: client.patch(QUEUE, []),
        lambda: client.get(QUEUE),
    )
    for write in writes:
        with pytest.raises(Retry):
            write()


def test_an_address_that_leads_nowhere_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig that was well-formed for a moment, with another address, was kept for ever: there is no 401 then."""

    class Nowhere(ScriptedServer):
        def send(self, *_: Any) -> ScriptedAnswer:
            raise OSError("no route to host")

    right = ScriptedServer(lambda method, path, body: ScriptedAnswer(200, TEAM))
    servers = [Nowhere(right.script), Nowhere(right.script)]
    client = Client(lambda: servers.pop(0) if servers else right)
    for _ in range(5):
        with pytest.raises(Retry):
            client.get(QUEUE)
    assert len(servers) == 1, "not with each request: a credential plugin may be dear"
    monkeypatch.setattr("reconciler.cluster.client.RECONNECT_SECONDS", 0.0)
    for _ in range(2):
        with pytest.raises(Retry):
            client.get(QUEUE)
    assert client.get(QUEUE) == TEAM


def test_a_read_that_gets_no_answer_is_not_waited_for_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The discovery of a dead aggregated API held up every pass for half a minute, several times."""
    limits: list[Limits] = []

    class Silent(ScriptedServer):
        def send(self, method: str, path: str, headers: Any, body: bytes | None, given: Limits) -> ScriptedAnswer:
            limits.append(given)
            if "dead" in path:
                raise TimeoutError("the read timed out")
            return super().send(method, path, headers, body, given)

    server = Silent(lambda method, path, body: ScriptedAnswer(200, TEAM))
    client = Client(lambda: server)
    dead = Ref("policy/v1", "PodDisruptionBudget", "default", "dead")
    for _ in range(5):
        with pytest.raises(Retry, match="timed out"):
            client.resource("dead.example.com/v1", "Thing")
        with pytest.raises(Retry, match="timed out"):
            client.find(dead)
    assert limits == [BRIEF_LIMITS, BRIEF_LIMITS]
    assert client.find(QUEUE) == TEAM, "others are asked for"
    monkeypatch.setattr("reconciler.cluster.unanswered.PAUSE", -1.0)
    client._unanswered.until.clear()
    for _ in range(2):
        with pytest.raises(Retry):
            client.find(dead)
    assert len(limits) == 5, "and this one again later"


def test_what_the_loop_waits_for_and_can_do_without_is_read_briefly() -> None:
    """Whether an object is gone is asked by name and by list, whose answer may take as long; annotations of the status
    and a look at the inventory held up a pass for 40 s each."""
    reads: list[tuple[str, Limits]] = []

    class Slow(ScriptedServer):
        def send(self, method: str, path: str, headers: Any, body: bytes | None, given: Limits) -> ScriptedAnswer:
            if method == "GET":
                reads.append((path.rpartition("/")[2], given))
            if "fieldSelector" in path:
                raise TimeoutError("the read timed out")
            return super().send(method, path, headers, body, given)

    server = Slow(lambda method, path, body: error_answer(404))
    client = Client(lambda: server)
    for _ in range(2):
        with pytest.raises(Retry, match="timed out"):
            client.find(QUEUE)
    StatusPublisher(client, "gangplan-system", "test").read_annotations()
    store = InventoryStore(client, "gangplan-system", "test", _version="5")
    with pytest.raises(NotFound):
        store.restore(Inventory())
    by_list = "queues?fieldSelector=metadata.name%3Dteam"
    names = ["team", by_list, "team", "gangplan-test-status", "gangplan-test-inventory"]
    assert reads == [(name, BRIEF_LIMITS) for name in names], "and the list is not waited for again at once"


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
    server = ScriptedServer(lambda method, path, body: ScriptedAnswer(200, TEAM))
    server.client().apply(TEAM, "uid-1")
    method, path, body = server.requests[0]
    assert (method, body) == ("PATCH", {**TEAM, "metadata": {"name": "team", "uid": "uid-1"}})
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
    server = ScriptedServer(lambda *_: ScriptedAnswer(200, TEAM))
    client = server.client()

    def refuse() -> None:
        raise InterruptedError

    client.fence = refuse
    client.get(QUEUE)
    with pytest.raises(InterruptedError):
        client.delete(QUEUE, "uid")
    assert [method for method, _, _ in server.requests] == ["GET"]
