"""NamespaceQueues of Volcano 1.16 in what a plan rests on: whether they are ready, and nothing else of them."""

from __future__ import annotations

from typing import Any

from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.planning.fingerprint import Fingerprint, fingerprint_of, state_objects
from reconciler.planning.snapshot import Snapshot
from tests.builders.live import live


def queue(ready: str, **status: Any) -> Object:
    made = live("scheduling.volcano.sh/v1beta1", "NamespaceQueue", "train", namespace="ml")
    return {**made, "status": {**status, "conditions": [{"type": "Ready", "status": ready}] if ready else []}}


def observed(item: Object) -> Observation:
    return Observation({ref_of(item).key: item}, frozenset())


def rests_on(item: Object) -> Fingerprint:
    return fingerprint_of(observed(item), Snapshot("c0ffee", True, plan={"gangs": []}), frozenset())


def test_a_plan_is_outdated_when_a_queue_becomes_ready_or_ceases_to_be() -> None:
    assert rests_on(queue("False")) != rests_on(queue("True"))
    assert rests_on(queue("True")) == rests_on(queue("")) == rests_on(queue("True", running=5))


def test_the_compiler_is_given_the_queue() -> None:
    assert state_objects(observed(queue("False"))) == [queue("False")]
