"""What is missing at the start is said at once and by name; a server that is only starting is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.cluster.client import Forbidden, NotFound, Retry, Unauthorized
from reconciler.cluster.preflight import CannotStartError, check_cluster, wait_for_cluster
from reconciler.cluster.rights import rights_at_start
from reconciler.timings import TIMINGS
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer

VOLCANO = {"batch.volcano.sh/v1alpha1": ["Job"], "scheduling.volcano.sh/v1beta1": ["PodGroup", "Queue"]}


class Server:
    """An API server with these kinds, rights and namespaces; it records what is written."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[str]] = dict(VOLCANO)
        self.namespaces = {"gangplan-system"}
        self.rules: dict[str, Any] = {"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
        self.writes: list[str] = []

    def answer(self, method: str, path: str, body: Any) -> ScriptedAnswer:
        if path == "/version":
            return ScriptedAnswer(200, {"gitVersion": "v1.35.3"})
        if "selfsubjectrulesreviews" in path:
            return ScriptedAnswer(200, {"status": self.rules})
        if "/namespaces/" in path:
            self.writes.append(path)
            is_there = path.split("/namespaces/")[1].partition("/")[0] in self.namespaces
            return ScriptedAnswer(200, {}) if is_there else error_answer(404, "namespaces not found")
        kinds = self.kinds.get(path.removeprefix("/apis/"))
        if kinds is None:
            return error_answer(404, "not found")
        rows = [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": kind != "Queue"} for kind in kinds]
        return ScriptedAnswer(200, {"kind": "APIResourceList", "resources": rows})


@pytest.fixture
def server() -> Server:
    return Server()


def check(server: Server) -> None:
    check_cluster(ScriptedServer(server.answer).client(), "gangplan-system")


def test_a_cluster_with_everything_is_only_asked(server: Server) -> None:
    check(server)
    assert all("dryRun=All" in path for path in server.writes)


@pytest.mark.parametrize(
    ("missing", "message"),
    [("kinds", r"Volcano is not installed.*PodGroup.*Queue"), ("namespaces", "no namespace gangplan-system")],
)
def test_what_the_cluster_must_have_is_missing(server: Server, missing: str, message: str) -> None:
    getattr(server, missing).clear()
    with pytest.raises(CannotStartError, match=message):
        check(server)


def test_rights_are_missing(server: Server) -> None:
    rules = [
        {"verbs": [right.verb], "apiGroups": [right.group], "resources": [right.resource]}
        for right in rights_at_start()
        if right.resource != "pods/eviction"
    ]
    server.rules = {"resourceRules": rules}
    message = r"no permission to create pods/eviction\. Fix: apply deploy/rbac\.yaml"
    with pytest.raises(CannotStartError, match=message):
        check(server)
    server.rules = {"resourceRules": [{**rule, "resourceNames": ["one"]} for rule in rules]}
    with pytest.raises(CannotStartError, match=r"and \d+ more\b"):
        check(server)
    server.rules = {"resourceRules": [], "incomplete": True}
    check(server)


REFUSED, MISSING = Retry("refused"), CannotStartError("no namespace x")
GRACE = TIMINGS.loop.missing_grace


@pytest.mark.parametrize(
    ("first", "until", "then", "timeout", "waited", "message"),
    [
        *((error, 3, None, 60, 3, "") for error in (REFUSED, NotFound("no kinds yet"), Forbidden("no roles yet"))),
        (REFUSED, 30, MISSING, 60, 30 + GRACE, "no namespace x"),
        (REFUSED, 99, None, 20, 20, "unable to reach the server: refused"),
        (REFUSED, 99, None, 0, 0, "unable to reach the server: refused"),
        (Unauthorized("who are you"), 99, None, 0, 0, "the server does not accept the credentials: who are you"),
    ],
    ids=["refused", "no kinds", "no roles", "missing after the grace", "no answer", "no patience", "credentials"],
)
def test_a_server_that_is_starting_is_waited_for(
    first: Exception, until: float, then: Exception | None, timeout: float, waited: float, message: str
) -> None:
    now, said = 0.0, ""

    def look() -> None:
        if error := first if now < until else then:
            raise error

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    try:
        wait_for_cluster(look, timeout, lambda: now, sleep)
    except CannotStartError as error:
        said = str(error)
    assert waited <= now <= waited + 1
    assert said == message
