"""A component of Volcano has stalled when something is owed and nothing that only it writes changes."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.cluster.objects import Object
from reconciler.scheduler.stalls import Signs, StallDetector, is_unseen_pod, signs_of_controllers, signs_of_scheduler
from reconciler.timings import TIMINGS, SchedulerTimings

STALLED_SECONDS = SchedulerTimings().stalled


def detector(*seen: tuple[float, set[str], Signs]) -> StallDetector:
    found = StallDetector("X has done nothing", "x", STALLED_SECONDS)
    for now, waiting, signs in seen:
        found.observe(waiting, signs, now)
    return found


def test_who_owes_something_and_does_nothing_has_stalled() -> None:
    found = detector((100.0, {"job"}, {}), (100.0 + STALLED_SECONDS, {"job", "later"}, {}))
    assert not found.message(99.0 + STALLED_SECONDS)
    assert found.message(100.0 + STALLED_SECONDS) == (
        "X has done nothing for more than 90 s, and 2 jobs wait for that: look at deployment x in volcano-system "
        "(whether it runs, leads and logs), then at the job's Events"
    )
    assert found.message(9999.0) == found.message(100.0 + STALLED_SECONDS), "no clock in it, or each pass writes it"
    assert found.deadlines(100.0) == [100.0 + STALLED_SECONDS]


def test_what_goes_is_no_sign_and_what_was_seen_while_the_cluster_could_not_be_read_neither() -> None:
    found = detector((0.0, {"job"}, {"a": 1, "b": 2}), (80.0, {"other"}, {"a": 1}), (90.0, {"other"}, {"a": 1}))
    assert found.message(90.0)
    found.restart(90.0)
    assert not found.message(179.0)


def test_a_watch_that_shows_nothing_is_found_out_before_a_stall_is_told() -> None:
    assert TIMINGS.client.watch_silence < STALLED_SECONDS


def pod(node: str = "", scheduler: str = "volcano", **condition: str) -> Object:
    spec: dict[str, Any] = {"schedulerName": scheduler, **({"nodeName": node} if node else {})}
    rows = [{"type": "PodScheduled", "status": "False", **condition}] if condition else []
    return {"metadata": {"uid": "pod"}, "spec": spec, "status": {"conditions": rows}}


@pytest.mark.parametrize(
    ("found", "is_unseen"),
    [
        (pod(), True),
        (pod(reason="SchedulingGated"), True),
        (pod(reason="Unschedulable", message="no room"), False),
        (pod(reason="Undetermined", message="waits for its gang"), False),
        (pod("n1"), False),
    ],
)
def test_a_pod_with_a_word_of_the_scheduler_was_looked_at(found: Object, is_unseen: bool) -> None:
    assert is_unseen_pod(found) == is_unseen
    assert bool(signs_of_scheduler((), [found])) != is_unseen


def test_only_what_the_component_itself_writes_is_a_sign() -> None:
    def having(phase: str) -> Object:
        return {"metadata": {"uid": "u"}, "status": {"phase": phase, "state": {"phase": phase}}}

    assert not signs_of_scheduler([having(""), having("Pending")], [pod("n1", "default-scheduler")])
    assert signs_of_scheduler([having("Inqueue")], ())
    assert signs_of_controllers([having("Pending")])
    assert not signs_of_controllers([having(""), {"metadata": {"uid": "u"}}])
