"""The watch protocol, fed with lines; and the informer against a server that misbehaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.cluster.client import KNOWN_RESOURCES
from reconciler.cluster.watch import Informer, ObjectCache, RelistError
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer

PODS = KNOWN_RESOURCES["v1", "Pod"]


def pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    meta = {"namespace": "default", "name": name, "resourceVersion": str(version), "uid": uid or name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def event(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode()


def test_events_change_the_cache_and_move_the_version() -> None:
    cache = ObjectCache()
    cache.replace_objects([pod("a", 1)], "5")
    assert cache.apply_event(event("ADDED", pod("b", 6)))
    assert cache.apply_event(event("MODIFIED", pod("a", 7)))
    assert cache.apply_event(event("DELETED", pod("b", 8)))
    assert {name for _, name in cache.objects} == {"a"}
    assert cache.version == "8"


def test_a_bookmark_moves_the_version_and_is_no_change() -> None:
    cache = ObjectCache(version="5")
    assert not cache.apply_event(event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}}))
    assert cache.version == "9"


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


def test_only_our_own_applied_fields_are_kept_of_managed_fields() -> None:
    thing = pod("a", 1)
    ours = {"manager": "gangplan", "operation": "Apply", "fieldsV1": {}}
    thing["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update"}, ours]
    cache = ObjectCache()
    cache.replace_objects([thing], "1")
    assert cache.objects["default", "a"]["metadata"]["managedFields"] == [ours]


def informed(script: Callable[[str, int], ScriptedAnswer], until: Callable[[Informer], bool]) -> Informer:
    """Run an informer against `script(path, number of the request)` until `until` holds; the informer, stopped."""
    done, count = threading.Event(), 0

    def answer(method: str, path: str, body: Any) -> ScriptedAnswer:
        nonlocal count
        count += 1
        return script(path, count)

    informer = Informer(ScriptedServer(answer).client(), PODS, lambda: done.set() if until(informer) else None)
    informer.start()
    assert done.wait(20), f"it did not come to that: {informer.health}, {informer.items()}"
    informer.stop()
    return informer


def listing(*pods: dict[str, Any], version: str = "5") -> ScriptedAnswer:
    return ScriptedAnswer(200, {"metadata": {"resourceVersion": version}, "items": list(pods)})


def test_after_410_the_list_is_read_again() -> None:
    def script(path: str, number: int) -> ScriptedAnswer:
        if number == 1:
            return listing(pod("old", 1))
        if "watch=1" in path:
            return ScriptedAnswer(200, event("ERROR", {"code": 410, "message": "gone"}))
        return listing(pod("new", 9), version="9")

    informer = informed(script, lambda informer: ("default", "new") in informer.items())
    assert informer.health.relists >= 1
    assert set(informer.items()) == {("default", "new")}


def test_a_watch_that_is_cut_off_resumes_without_losing_what_it_knew() -> None:
    def script(path: str, number: int) -> ScriptedAnswer:
        if "watch=1" not in path:
            return listing(pod("a", 1))
        return ScriptedAnswer(200, event("ADDED", pod("b", 6)) + b"\n", breaks_off=True)

    informer = informed(script, lambda informer: len(informer.items()) == 2)
    assert set(informer.items()) == {("default", "a"), ("default", "b")}


def test_a_kind_that_may_not_be_read_is_not_taken_for_an_empty_one() -> None:
    informer = informed(
        lambda path, number: error_answer(403, "may not list pods"), lambda informer: bool(informer.health.problem)
    )
    assert not informer.health.is_synced
    assert "may not list pods" in informer.health.problem


def test_a_kind_that_is_not_served_is_empty_and_no_problem() -> None:
    informer = informed(lambda path, number: error_answer(404), lambda informer: not informer.health.is_served)
    assert informer.health.is_synced
    assert not informer.items()
