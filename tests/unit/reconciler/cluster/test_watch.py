"""The watch protocol, fed with lines; and the informer against a server that misbehaves."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reconciler.cluster.client import Retry
from reconciler.cluster.objects import KNOWN_RESOURCES
from reconciler.cluster.watch import Informer, ObjectCache, RelistError
from reconciler.threads.heartbeat import repeat_step
from reconciler.timings import TIMINGS
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer

PODS = KNOWN_RESOURCES["v1", "Pod"]


def pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    meta = {"namespace": "default", "name": name, "resourceVersion": str(version), "uid": uid or name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def event(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode()


def test_events_change_the_cache_and_move_the_version_and_only_what_was_there_counts_as_updated() -> None:
    """What is new, made again or gone is for a pass; a bookmark and an empty line are no change."""
    cache, remade = ObjectCache(), pod("a", 9, "another")
    cache.replace_objects([pod("a", 1)], "5")
    rows = [
        (event("MODIFIED", pod("a", 7)), True, "7", ["a"]),
        (event("ADDED", pod("b", 8)), True, None, ["a", "b"]),
        (event("MODIFIED", remade), True, None, ["a", "b"]),
        (event("DELETED", remade), True, None, ["b"]),
        (event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "10"}}), False, None, ["b"]),
        (event("MODIFIED", pod("b", 11)), True, "11", ["b"]),
        (b"", False, None, ["b"]),
    ]
    for line, is_change, updated, names in rows:
        assert cache.apply_event(line) == is_change
        assert (cache.updated and cache.updated["metadata"]["resourceVersion"]) == updated
        assert sorted(name for _, name in cache.objects) == names
    assert cache.version == "11"


@pytest.mark.parametrize(
    "line",
    [
        event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"}),
        b'{"type": "ADDED", "obj',
        b'{"type": "ADDED"}',
        b'"a string"',
        event("ADDED", {"metadata": {}}),
    ],
)
def test_what_is_no_event_asks_for_a_new_list_and_leaves_the_cache(line: bytes) -> None:
    cache = ObjectCache()
    cache.replace_objects([pod("a", 1)], "5")
    with pytest.raises(RelistError):
        cache.apply_event(line)
    assert {name for _, name in cache.objects} == {"a"}
    assert cache.version == "5"


def test_an_end_that_was_seen_is_told_apart_from_an_absence() -> None:
    ends: list[tuple[str, bool]] = []
    cache = ObjectCache(lambda thing, seen: ends.append((thing["metadata"]["uid"], seen)))
    cache.replace_objects([pod("a", 1), pod("b", 2), pod("c", 3)], "5")
    cache.apply_event(event("DELETED", pod("a", 6)))
    cache.apply_event(event("ADDED", pod("b", 7, uid="another")))
    cache.replace_objects([pod("b", 7, uid="another")], "9")
    assert ends == [("a", True), ("b", False), ("c", False)]


def test_managed_fields_are_kept_of_what_carries_our_label() -> None:
    """Whether such an object existed before us is told by who else wrote it."""
    managers = [{"manager": "helm", "operation": "Update"}, {"manager": "gangplan", "operation": "Apply"}]
    theirs, ours = pod("a", 1), pod("b", 2)
    ours["metadata"]["labels"] = {"gangplan.dev/cluster": "test"}
    for thing in (theirs, ours):
        thing["metadata"]["managedFields"] = list(managers)
    cache = ObjectCache()
    cache.replace_objects([theirs, ours], "1")
    assert cache.objects["default", "a"]["metadata"]["managedFields"] == []
    assert cache.objects["default", "b"]["metadata"]["managedFields"] == managers


def listing(*pods: dict[str, Any], version: str = "5") -> ScriptedAnswer:
    return ScriptedAnswer(200, {"metadata": {"resourceVersion": version}, "items": list(pods)})


class Pauses(threading.Event):
    """An informer's stop, whose waits pass at once on the test's clock; it is set after so many of them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.now, self.most = 0.0, most
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        self.now += timeout or 0.0
        if len(self.seconds) >= self.most:
            self.set()
        return self.is_set()


def served_at_first(path: str, number: int) -> ScriptedAnswer:
    return listing(pod("a", 1)) if number == 1 else error_answer(404)


def quiet(path: str) -> ScriptedAnswer:
    """A server on which all is well."""
    return ScriptedAnswer(200, b"") if "watch=1" in path else listing(pod("a", 1))


def followed(
    script: Callable[[str, int], ScriptedAnswer | Exception], pauses: Pauses, *, is_expected: bool = False
) -> tuple[Informer, list[str]]:
    """An informer that ran in this thread for so many pauses, and what it had to say of its kind at each request.
    is_expected: whether objects of the kind are known to exist."""
    obstacles: list[str] = []

    def answer(method: str, path: str, body: Any) -> ScriptedAnswer:
        obstacles.append(informer.obstacle())
        found = script(path, len(obstacles))
        if isinstance(found, Exception):
            raise found
        return found

    informer = Informer(ScriptedServer(answer).client(), PODS, lambda: None, clock=lambda: pauses.now)
    informer._stop = pauses
    if is_expected:
        informer.expect_kind()
    repeat_step(informer.follow, pauses, informer.heartbeat)
    return informer, obstacles


def names(informer: Informer) -> set[str]:
    return {name for _, name in informer.items()}


def test_after_410_the_list_is_read_again() -> None:
    gone = ScriptedAnswer(200, event("ERROR", {"code": 410, "message": "gone"}))

    def script(path: str, number: int) -> ScriptedAnswer:
        return gone if "watch=1" in path else listing(pod("old" if number == 1 else "new", number))

    informer, _ = followed(script, Pauses(2))
    assert (informer.relists >= 1, names(informer)) == (True, {"new"})


def test_a_watch_that_is_cut_off_resumes_without_losing_what_it_knew() -> None:
    cut = ScriptedAnswer(200, event("ADDED", pod("b", 6)) + b"\n", breaks_off=True)
    informer, _ = followed(lambda path, number: cut if "watch=1" in path else listing(pod("a", 1)), Pauses(1))
    assert names(informer) == {"a", "b"}


def test_after_an_outage_the_list_is_read_again_though_its_version_is_older() -> None:
    """S32: etcd comes back from a backup. A watch from the version of before would be told nothing of it."""

    def script(path: str, number: int) -> ScriptedAnswer:
        if number == 1:
            return listing(pod("lost", 800), pod("kept", 3), version="900")
        if number <= 3:
            return ScriptedAnswer(200, b"") if number == 2 else error_answer(503, "etcd is away")
        if "watch=1" in path:
            assert "resourceVersion=900" not in path
            return ScriptedAnswer(200, b"")
        return listing(pod("kept", 3), pod("restored", 4), version="5")

    informer, _ = followed(script, Pauses(8))
    assert (names(informer), informer.heartbeat.errors) == ({"kept", "restored"}, 0)


def test_a_kind_that_was_served_and_answers_404_is_a_problem_and_what_was_known_stays() -> None:
    pauses = Pauses(12)
    informer, obstacles = followed(served_at_first, pauses)
    assert names(informer) == {"a"}
    assert "was served before and is not now" in informer.obstacle()
    assert all(obstacles[2:]), "from the first 404 on it is known to be stale"
    assert informer.health.is_withdrawn, "discovery does not show it"
    assert max(pauses.seconds) <= 5


def test_a_kind_that_discovery_shows_is_not_withdrawn_and_one_that_returns_is_not_either() -> None:
    shown = {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]}

    def script(path: str, number: int) -> ScriptedAnswer:
        return ScriptedAnswer(200, shown) if path == "/api/v1" else served_at_first(path, number)

    informer, _ = followed(script, Pauses(12))
    assert (informer.health.is_withdrawn, bool(informer.obstacle())) == (False, True)
    pauses = Pauses(12)

    informer, obstacles = followed(lambda path, _: error_answer(404) if 1 < pauses.now < 8 else quiet(path), pauses)
    assert any(obstacles)
    assert (informer.health.is_withdrawn, informer.obstacle()) == (False, "")


@pytest.mark.parametrize("refusal", [404, 403, 401])
def test_refusals_in_the_seconds_after_a_start_pass_soon_and_are_never_an_empty_kind(refusal: int) -> None:
    pauses = Pauses(8)
    ready_at, listed_at = 2.5, []

    def script(path: str, number: int) -> ScriptedAnswer:
        if pauses.now < ready_at:
            return error_answer(refusal, "may not list pods")
        if "watch=1" not in path:
            listed_at.append(pauses.now)
        return quiet(path)

    informer, obstacles = followed(script, pauses)
    assert not informer.obstacle()
    assert listed_at[0] <= ready_at + 4
    assert all("cannot be read" in obstacle for obstacle in obstacles[: obstacles.index("")])


RECOVERY = 10
"""Seconds from an API server's being ready again to the first compile, which waits for every kind."""


@pytest.mark.parametrize("refusal", [404, 403, 401])
@pytest.mark.parametrize("refused_for", [2.0, 3 * TIMINGS.watch.start])
def test_a_kind_that_was_read_is_listed_soon_after_any_outage(refusal: int, refused_for: float) -> None:
    """One pause is all that may lie between the server's being ready and the list: as long as the outage had made the
    pauses, and whatever the server answered while it started."""
    pauses, listed_at = Pauses(200), list[float]()
    gone_at, back_at = 1.0, 120.0
    ready_at = back_at + refused_for

    def script(path: str, number: int) -> ScriptedAnswer | Exception:
        if gone_at <= pauses.now < back_at:
            return Retry("connection refused", 1.0)
        if back_at <= pauses.now < ready_at:
            return error_answer(refusal)
        if "watch=1" not in path:
            listed_at.append(pauses.now)
        return quiet(path)

    informer, _ = followed(script, pauses)
    assert not informer.obstacle()
    first = next(at for at in listed_at if at >= gone_at)
    assert ready_at <= first <= ready_at + TIMINGS.watch.longest_pause <= ready_at + RECOVERY / 2


def test_a_kind_that_never_was_served_is_empty_after_a_while_and_seldom_asked_for() -> None:
    pauses = Pauses(40)
    informer, obstacles = followed(lambda path, number: error_answer(404), pauses)
    assert (informer.health.is_served, informer.health.problem) == (False, "")
    assert "does not serve Pod" in informer.obstacle()
    assert "cannot be read" in obstacles[2], "one 404 says nothing"
    assert 30 <= max(pauses.seconds) <= 60


def test_a_kind_of_which_there_are_objects_is_not_empty_because_of_a_404() -> None:
    informer, _ = followed(lambda path, number: error_answer(404), Pauses(20), is_expected=True)
    assert informer.health.is_served
    assert "cannot be read" in informer.obstacle()


def test_a_kind_that_was_removed_for_good_is_given_up_once_discovery_says_so_too() -> None:
    pauses = Pauses(200)
    informer, _ = followed(served_at_first, pauses)
    assert pauses.now > 300
    assert not informer.health.is_served
    informer.expect_kind()
    assert not informer.health.is_served, "objects that went with their kind do not bring it back"


NO_LISTS = [
    b"null",
    b"[]",
    b"{}",
    b'"text"',
    b'{"kind": "Status", "metadata": {"resourceVersion": "7"}, "items": []}',
    b'{"kind": "PodList", "metadata": {"resourceVersion": "7"}}',
    b'{"kind": "PodList", "metadata": {}, "items": []}',
    b'{"kind": "PodList", "items": []}',
    b'{"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": [null]}',
    b'{"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": {}}',
]


@pytest.mark.parametrize("body", NO_LISTS)
def test_an_answer_that_is_no_list_is_a_problem_and_no_empty_set(body: bytes) -> None:
    def script(path: str, number: int) -> ScriptedAnswer:
        if number == 1:
            return listing(pod("a", 1))
        return error_answer(410) if "watch=1" in path else ScriptedAnswer(200, body)

    informer, _ = followed(script, Pauses(8))
    assert names(informer) == {"a"}
    assert "cannot be read" in informer.obstacle()
    assert informer.heartbeat.errors == 0


@pytest.mark.parametrize("watch", [ScriptedAnswer(200, b""), error_answer(410)], ids=["ends", "410"])
def test_watches_that_end_at_once_or_are_too_old_are_asked_for_less_and_less_often(watch: ScriptedAnswer) -> None:
    pauses = Pauses(30)
    _, requests = followed(lambda path, number: watch if "watch=1" in path else listing(), pauses)
    assert pauses.now > 100
    assert len(requests) <= 65, "one pause for each watch, and at most one list"
    assert pauses.seconds[0] <= 0.5
    assert max(pauses.seconds) <= 10


def test_a_watch_that_worked_ends_the_count_of_failures() -> None:
    pauses = Pauses(20)

    class LongAnswer(ScriptedAnswer):
        def lines(self) -> Iterator[bytes]:
            yield event("MODIFIED", pod("a", 6))
            pauses.now += 30
            yield event("MODIFIED", pod("a", 7))
            raise ConnectionResetError("the wire was cut")

    informer, _ = followed(lambda path, n: LongAnswer(200, b"") if "watch=1" in path else listing(), pauses)
    assert max(pauses.seconds) <= 0.5
    assert informer.relists == 20


def test_a_watch_on_which_nothing_comes_is_left_for_a_new_list_at_once() -> None:
    pauses = Pauses(3)

    class SilentAnswer(ScriptedAnswer):
        def lines(self) -> Iterator[bytes]:
            pauses.now += 80
            raise TimeoutError
            yield b""

    def script(path: str, number: int) -> ScriptedAnswer:
        return SilentAnswer(200, b"") if "watch=1" in path else listing(pod(f"p{number}", number))

    informer, obstacles = followed(script, pauses)
    assert pauses.seconds == [0.0, 0.0, 0.0]
    assert names(informer) == {"p5"}, "each silence ended in a list"
    assert obstacles[0]
    assert not any(obstacles[1:])
    assert pauses.now == 3 * 80, "no watch is waited for longer than 90 s"


def test_no_exception_ends_the_thread_of_an_informer() -> None:
    failures = iter((MemoryError("no memory"), OSError(28, "No space left"), TypeError("null"), KeyError("x")))
    informer, _ = followed(lambda path, number: next(failures, None) or quiet(path), Pauses(8))
    assert not informer.obstacle()
    assert names(informer) == {"a"}
    assert informer.heartbeat.errors == 3, "what breaks on the wire is expected, the rest is counted"


def test_the_age_of_a_kind_that_was_never_read_counts_from_when_it_was_to_be() -> None:
    informer = Informer(ScriptedServer(lambda *_: error_answer(403)).client(), PODS, lambda: None, clock=lambda: 5000.0)
    assert informer.health.last_event == 5000.0


def test_objects_by_key_are_as_they_are_now_and_in_order_whatever_came_and_went() -> None:
    """They are made once for each state of the cache, and sorted again only where objects came or went."""
    informer = Informer(ScriptedServer(lambda *_: error_answer(404)).client(), PODS, lambda: None)
    names = random.Random(1)  # noqa: S311  - the same each time
    for version in range(200):
        kind = names.choice(("ADDED", "MODIFIED", "MODIFIED", "DELETED"))
        informer._cache.apply_event(event(kind, pod(names.choice("abcdefgh"), version)))
        found, now = informer.keyed_items(), informer.items()
        assert informer.keyed_items() is found
        assert list(found) == sorted(f"Pod/{space}/{name}" for space, name in now)
        assert all(found[f"Pod/{space}/{name}"] is item for (space, name), item in now.items())
