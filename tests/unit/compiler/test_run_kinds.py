"""How objects of each kind that runs once say that they are over (S16)."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.run_kinds import RUN_KINDS, end_of_run, has_time_to_live, run_kind_of, runs_once
from tests.builders.beside import beside

CASES = beside(__file__)


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status}]}


@pytest.mark.parametrize(("api", "kind", "status", "phase"), CASES["each kind says in its own way that it is over"])
def test_each_kind_says_in_its_own_way_that_it_is_over(
    api: str, kind: str, status: dict[str, Any], phase: str | None
) -> None:
    """Seen once: a SparkApplication whose first submission failed counted as over though its operator submits it again:
    deleted by hand while it ran, it never came back."""
    item = {"apiVersion": api, "kind": kind, "metadata": {"name": "j"}, "status": status}
    assert run_kind_of(item) in RUN_KINDS
    assert end_of_run(item) == phase
    assert end_of_run({**item, "status": {}}) is None


def test_a_time_to_live_is_found_where_each_kind_has_it() -> None:
    policy = {"ttlSecondsAfterFinished": 0}
    for spec in (policy, {"runPolicy": policy}, {"timeToLiveSeconds": 9}):
        assert has_time_to_live({"spec": spec})
    assert not has_time_to_live({"spec": {"runPolicy": {}}})


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("FooJob", {"ttlSecondsAfterFinished": 60}, True),
        ("FooJob", {"ttlStrategy": {"secondsAfterCompletion": 60}}, True),
        ("FooJob", {"runPolicy": {"ttlSecondsAfterFinished": 0}}, True),
        ("BroadcastJob", {"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 60}}, True),
        ("FooJob", {"image": "x"}, False),
        ("FooJob", {"template": {"spec": {"ttlSecondsAfterFinished": 60}}}, False),
        ("FooTemplate", {"ttlStrategy": {"secondsAfterCompletion": 60}}, False),
        ("FooCron", {"schedule": "@daily", "ttlSecondsAfterFinished": 60}, False),
        ("FooJob", None, False),
        ("FooJob", ["ttlSecondsAfterFinished"], False),
        ("FooJob", {"runPolicy": "ttlSecondsAfterFinished"}, False),
    ],
)
def test_an_object_of_an_unknown_kind_runs_once_if_it_is_deleted_some_time_after_its_end(
    kind: str, spec: object, expected: bool
) -> None:
    item = {"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": "j"}, "spec": spec}
    assert runs_once(item) == expected
    for status in ({"phase": "Succeeded"}, {"state": "succeeded"}):
        assert end_of_run({**item, "status": status}) == ("Completed" if expected else None)
