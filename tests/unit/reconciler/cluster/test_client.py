"""Each answer of an API server becomes the error that says what happens next; writers take turns, and all of them wait
when the server asks one to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from reconciler.cluster.client import (
    ApiError,
    Client,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Retry,
    Unauthorized,
)
from reconciler.cluster.objects import KNOWN_RESOURCES, Object, Ref
from reconciler.cluster.rate import RateLimit
from reconciler.inventory.store import Inventory, InventoryStore
from reconciler.report.status import StatusPublisher
from reconciler.timings import TIMINGS, ClientTimings, Limits
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, answers_in_order, error_answer, served

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
        (ScriptedAnswer(422, {"details": {"causes": 5}}), Invalid),
        (ScriptedAnswer(422, {"details": {"causes": ["x"]}}), Invalid),
        (ScriptedAnswer(422, b"[" * 100_000), Invalid),
        (ScriptedAnswer(502, b"<html>bad gateway</html>"), Retry),
        (ScriptedAnswer(200, b'{"kind": "Que'), Retry),
        (ScriptedAnswer(200, {}, breaks_off=True), Retry),
    ],
)
def test_an_answer_becomes_an_error_that_says_what_happens_next(answer: ScriptedAnswer, error: type[ApiError]) -> None:
    with pytest.raises(error):
        ScriptedServer(answers_in_order(answer)).client().get(QUEUE)


def test_a_proxy_that_sends_elsewhere_has_deleted_nothing() -> None:
    client = ScriptedServer(answers_in_order(ScriptedAnswer(302, b"", {"Location": "http://login"}))).client()
    with pytest.raises(Retry, match="302"):
        client.delete(QUEUE, "u")


@pytest.mark.parametrize(("text", "seconds"), [("nan", 0.1), ("-1", 0.1), ("inf", 300), ("7", 7), ("tomorrow", 1)])
def test_a_pause_that_is_asked_for_is_one_that_ends(text: str, seconds: float) -> None:
    with pytest.raises(Retry) as raised:
        ScriptedServer(answers_in_order(error_answer(429, headers={"Retry-After": text}))).client().get(QUEUE)
    assert raised.value.after == seconds


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


def test_an_expired_token_is_read_again_once_and_not_for_ever() -> None:
    server = ScriptedServer(answers_in_order(error_answer(401), ScriptedAnswer(200, TEAM)))
    assert server.client().get(QUEUE) == TEAM
    assert server.connections == 2
    server = ScriptedServer(lambda method, path, body: error_answer(401))
    with pytest.raises(Unauthorized):
        server.client().get(QUEUE)
    assert len(server.requests) == 2


@pytest.mark.parametrize("answer", [{}, {"kind": "Status", "status": "Success"}, {"metadata": None}, [], "x", 1, None])
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


class Watched(ScriptedServer):
    """Keeps the limits of each GET, and gives no answer where `is_dead` says so."""

    def __init__(self, answer: ScriptedAnswer, is_dead: Callable[[str], bool]) -> None:
        super().__init__(lambda method, path, body: answer)
        self.is_dead, self.reads = is_dead, list[tuple[str, Limits]]()

    def send(self, method: str, path: str, headers: Any, body: bytes | None, limits: Limits) -> ScriptedAnswer:
        if method == "GET":
            self.reads.append((path.rpartition("/")[2], limits))
        if self.is_dead(path):
            raise TimeoutError("the read timed out")
        return super().send(method, path, headers, body, limits)


def test_an_address_that_leads_nowhere_is_read_again() -> None:
    """A kubeconfig that was well-formed for a moment, with another address, was kept for ever: there is no 401 then."""
    right = Watched(ScriptedAnswer(200, TEAM), lambda path: False)
    servers = [Watched(right.script("", "", None), lambda path: True) for _ in range(2)]
    client = Client(lambda: servers.pop(0) if servers else right)
    for _ in range(5):
        with pytest.raises(Retry):
            client.get(QUEUE)
    assert len(servers) == 1, "not with each request: a credential plugin may be dear"
    client.timings = ClientTimings(reconnect=0.0)
    for _ in range(2):
        with pytest.raises(Retry):
            client.get(QUEUE)
    assert client.get(QUEUE) == TEAM


def test_a_read_that_gets_no_answer_is_not_waited_for_again_at_once() -> None:
    """The discovery of a dead aggregated API held up every pass for half a minute, several times."""
    server = Watched(ScriptedAnswer(200, TEAM), lambda path: "dead" in path)
    client = Client(lambda: server)
    dead = Ref("policy/v1", "PodDisruptionBudget", "default", "dead")
    for _ in range(5):
        with pytest.raises(Retry, match="timed out"):
            client.resource("dead.example.com/v1", "Thing")
        with pytest.raises(Retry, match="timed out"):
            client.find(dead)
    assert [limits for _, limits in server.reads] == [TIMINGS.client.brief] * 2
    assert client.find(QUEUE) == TEAM, "others are asked for"
    client = Client(lambda: server, ClientTimings(unanswered=0.0))
    for _ in range(2):
        with pytest.raises(Retry):
            client.find(dead)
    assert len(server.reads) == 5, "and this one again later"


def test_what_the_loop_waits_for_and_can_do_without_is_read_briefly() -> None:
    """Whether an object is gone is asked by name and by list, whose answer may take as long; annotations of the status
    and a look at the inventory held up a pass for 40 s each."""
    server = Watched(error_answer(404), lambda path: "fieldSelector" in path)
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
    brief = TIMINGS.client.brief
    assert server.reads == [(name, brief) for name in names], "and the list is not waited for again at once"


def page(*names: str, following: str = "") -> ScriptedAnswer:
    metadata = {"resourceVersion": "5", "continue": following}
    return ScriptedAnswer(200, {"metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]})


def test_a_list_takes_all_pages_and_gives_items_their_kind() -> None:
    server = ScriptedServer(answers_in_order(page("a", following="more"), page("b")))
    items, version = server.client().list(PODS)
    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [("Pod", "a"), ("Pod", "b")]
    assert version == "5"
    assert "continue=more" in server.requests[1][1]


def test_a_continue_token_that_is_too_old_is_gone_and_no_short_list() -> None:
    with pytest.raises(Gone):
        ScriptedServer(answers_in_order(page(following="more"), error_answer(410))).client().list(PODS)
    with pytest.raises(Retry, match="does not come to an end"):
        ScriptedServer(lambda *_: page(following="more")).client().list(PODS)


def test_apply_is_not_forced_unless_asked_and_names_its_manager() -> None:
    server = ScriptedServer(lambda method, path, body: ScriptedAnswer(200, TEAM))
    server.client().apply(TEAM, "uid-1")
    method, path, body = server.requests[0]
    assert (method, body) == ("PATCH", {**TEAM, "metadata": {"name": "team", "uid": "uid-1"}})
    assert path.startswith("/apis/scheduling.volcano.sh/v1beta1/queues/team?")
    assert "fieldManager=gangplan" in path
    assert "force=false" in path


def test_what_a_group_version_serves_is_asked_for_once() -> None:
    """Whether the kind is among it, is not, or nothing of that version is served."""
    widgets = served("Widget/status", "Widget")
    server = ScriptedServer(lambda method, path, body: widgets if "example" in path else error_answer(404))
    client = server.client()
    for _ in range(50):
        found = client.resource("example.com/v1", "Widget")
        with pytest.raises(NotFound, match="serves no kind ServiceMonitor in monitoring"):
            client.resource("monitoring.coreos.com/v1", "ServiceMonitor")
    assert found.path("here", "w") == "/apis/example.com/v1/namespaces/here/widgets/w"
    assert len(server.requests) == 2
    with pytest.raises(NotFound):
        client.resource("example.com/v1", "Gadget")


def test_kinds_that_threads_discover_at_the_same_time_are_all_known() -> None:
    """While one discovery is under way, another ends: a wave begins with many kinds at once."""

    def answer(method: str, path: str, body: object) -> ScriptedAnswer:
        if "first" in path:
            client.resource("second.example/v1", "Gadget")
        return served("Widget") if "first" in path else served("Gadget")

    client = ScriptedServer(answer).client()
    assert client.resource("first.example/v1", "Widget").kind == "Widget"
    assert client.resource("second.example/v1", "Gadget").kind == "Gadget"


@pytest.mark.parametrize(
    ("got", "listed", "name"),
    [
        (error_answer(404), page(), None),
        (ScriptedAnswer(200, TEAM), page(), "team"),
        (error_answer(404), page("team"), "team"),
    ],
)
def test_an_object_is_gone_only_if_the_list_of_its_kind_says_so_as_well(
    got: ScriptedAnswer, listed: ScriptedAnswer, name: str | None
) -> None:
    found = ScriptedServer(lambda _, path, __: listed if "fieldSelector" in path else got).client().find(QUEUE)
    assert (found and found["metadata"]["name"]) == name


@dataclass
class Clock:
    now: float = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def limit(self, rate: float, burst: float) -> RateLimit:
        return RateLimit(rate, burst, lambda: self.now, self.sleep)


def test_a_burst_passes_at_once_and_then_so_many_a_second() -> None:
    clock = Clock()
    limit = clock.limit(10, 5)
    for _ in range(5):
        assert limit.take_turn() == 0.0
    assert clock.now == 100.0
    for _ in range(20):
        assert limit.take_turn() == 0.0
    assert clock.now == pytest.approx(102.0)


def test_a_request_that_would_wait_too_long_learns_how_long() -> None:
    clock = Clock()
    limit = clock.limit(10, 5)
    limit.pause(30)
    assert limit.take_turn() == 30.0
    assert clock.now == 100.0
    clock.now += 29.5
    assert limit.take_turn() == 0.0
    assert clock.now == 130.0


def test_a_server_that_asks_to_wait_gets_nothing_more_until_then() -> None:
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: error_answer(429, headers={"Retry-After": "20"})
    client = cluster.client()
    clock = Clock()
    client.rate = clock.limit(10, 5)
    for _ in range(4):
        with pytest.raises(Retry) as refused:
            client.delete(Ref("v1", "ConfigMap", "default", "c"), "uid")
        assert refused.value.after == 20.0
    assert len(cluster.requests) == 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [("ConfigMap", 'admission webhook "slow.example.com" denied the request: come back later'), ("Pod", "its budget")],
)
def test_what_a_webhook_refuses_makes_no_other_write_wait(kind: str, message: str) -> None:
    """It may name 429 and five minutes for one object: nothing at all was written then for that long. So does the
    budget of an eviction."""
    cluster = FakeCluster()
    answers = iter([error_answer(429, message, headers={"Retry-After": "300"})])
    cluster.before = lambda method, path, body: next(answers, None)
    client = cluster.client()
    write = (lambda ref, uid: client.evict(ref, {"uid": uid})) if kind == "Pod" else client.delete
    with pytest.raises(Retry) as refused:
        write(Ref("v1", kind, "default", "c"), "uid")
    assert refused.value.after == 300.0
    with nullcontext() if kind == "Pod" else pytest.raises(NotFound):
        write(Ref("v1", kind, "default", "d"), "uid")


def test_one_object_does_not_make_all_wait_for_minutes() -> None:
    clock = Clock()
    limit = clock.limit(10, 5)
    limit.pause(300, "/one")
    assert limit.take_turn("/one") == 300
    assert (limit.take_turn("/two"), clock.now) == (0.0, 100 + TIMINGS.rate.first_pause)
    limit.pause(300, "/two")
    assert limit.take_turn("/three") == TIMINGS.rate.longest_pause, "it asks whatever it is asked about"
