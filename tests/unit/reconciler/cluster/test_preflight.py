"""What is missing at the start is said at once and by name; a server that is only starting is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from reconciler.cluster.client import ApiError, Client, Forbidden, NotFound, Retry, Unauthorized
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


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def wait(errors: Callable[[float], Exception | None], timeout: float = 60.0) -> float:
    """How long it waited on its own clock; raises what the wait ends in."""
    clock = Clock()

    def look() -> None:
        if (error := errors(clock.now)) is not None:
            raise error

    try:
        wait_for_cluster(look, timeout, lambda: clock.now, clock.sleep)
    except CannotStartError as error:
        raise CannotStartError(clock.now, str(error)) from error
    return clock.now


@pytest.mark.parametrize("error", [Retry("refused"), NotFound("no kinds yet"), Forbidden("no roles yet")])
def test_a_server_that_is_starting_is_waited_for(error: ApiError) -> None:
    assert 3 <= wait(lambda now: error if now < 3 else None) < 5


def test_what_is_missing_is_believed_after_the_grace() -> None:
    with pytest.raises(CannotStartError) as ending:
        wait(lambda now: Retry("refused") if now < 30 else CannotStartError("no namespace x"))
    waited, message = ending.value.args
    assert 30 <= waited - TIMINGS.loop.missing_grace < 32
    assert message == "no namespace x"


def test_a_server_that_never_answers_ends_the_wait() -> None:
    with pytest.raises(CannotStartError) as ending:
        wait(lambda now: Retry("refused"), timeout=20)
    waited, message = ending.value.args
    assert 20 <= waited < 22
    assert message == "unable to reach the server: refused"


@pytest.mark.parametrize("error", [Unauthorized("who are you"), Retry("refused")])
def test_without_patience_the_first_answer_counts(error: ApiError) -> None:
    with pytest.raises(CannotStartError) as ending:
        wait(lambda now: error, timeout=0)
    assert ending.value.args[0] == 0
