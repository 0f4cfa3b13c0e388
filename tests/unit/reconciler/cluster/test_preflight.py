"""What is missing at the start is said at once and by name; a server that is only starting is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.cluster.client import Client, Forbidden, NotFound, Retry, Unauthorized
from reconciler.cluster.preflight import CannotStartError, check_cluster, wait_for_cluster
from reconciler.cluster.rights import rights_at_start
from reconciler.timings import TIMINGS, Limits
from tests.builders.scripted_server import ScriptedAnswer, error_answer

VOLCANO = {"batch.volcano.sh/v1alpha1": ["Job"], "scheduling.volcano.sh/v1beta1": ["PodGroup", "Queue"]}


class Server:
    """An API server with these kinds, rights and namespaces; it records what is written."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[str]] = dict(VOLCANO)
        self.namespaces = {"gangplan-system"}
        self.rules: dict[str, Any] = {"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
        self.writes: list[str] = []

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> ScriptedAnswer:
        if path == "/version":
            return ScriptedAnswer(200, {"gitVersion": "v1.35.3"})
        if "selfsubjectrulesreviews" in path:
            return ScriptedAnswer(200, {"status": self.rules})
        if "/namespaces/" in path:
            self.writes.append(path)
            namespace = path.split("/namespaces/")[1].partition("/")[0]
            return (
                ScriptedAnswer(200, {}) if namespace in self.namespaces else error_answer(404, "namespaces not found")
            )
        group = path.removeprefix("/apis/")
        if group not in self.kinds:
            return error_answer(404, "not found")
        resources = [
            {"name": kind.lower() + "s", "kind": kind, "namespaced": kind != "Queue"} for kind in self.kinds[group]
        ]
        return ScriptedAnswer(200, {"kind": "APIResourceList", "groupVersion": group, "resources": resources})


@pytest.fixture
def server() -> Server:
    return Server()


def check(server: Server) -> None:
    check_cluster(Client(lambda: server), "gangplan-system")


def test_a_cluster_with_everything_is_only_asked(server: Server) -> None:
    check(server)
    assert all("dryRun=All" in path for path in server.writes)


def test_volcano_is_missing(server: Server) -> None:
    del server.kinds["scheduling.volcano.sh/v1beta1"]
    with pytest.raises(CannotStartError, match=r"Volcano is not installed.*PodGroup.*Queue"):
        check(server)


def test_the_namespace_is_missing(server: Server) -> None:
    server.namespaces.clear()
    with pytest.raises(CannotStartError, match="no namespace gangplan-system"):
        check(server)


def test_rights_are_missing(server: Server) -> None:
    rules = [
        {"verbs": [right.verb], "apiGroups": [right.group], "resources": [right.resource]}
        for right in rights_at_start()
        if right.resource != "pods/eviction"
    ]
    server.rules = {"resourceRules": rules}
    with pytest.raises(
        CannotStartError, match=r"the right to create pods/eviction is missing: apply deploy/rbac\.yaml"
    ):
        check(server)
    server.rules = {"resourceRules": [{**rule, "resourceNames": ["one"]} for rule in rules]}
    with pytest.raises(CannotStartError, match=r"and \d+ more rights"):
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
