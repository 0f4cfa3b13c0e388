"""A webhook makes pods larger than their template: the plan in force is outdated once, and the next one holds."""

from __future__ import annotations

from typing import Any

from reconciler.observation.observe import Observation
from reconciler.planning.fingerprint import fingerprint_of, state_objects
from reconciler.planning.snapshot import Snapshot
from tests.unit.reconciler.planning.compile.test_stable_plans import CONTAINER, GPU, NAMES, compiled, job, node, pods

KEY = "Job.batch.volcano.sh/default/g00"
SIDECAR = {"name": "proxy", "image": "proxy", "resources": {"requests": {"cpu": "36"}}}


def seen(given: int, *, with_sidecar: bool = True) -> Observation:
    """The job with its pods, of which so many have a node."""
    objects: dict[str, dict[str, Any]] = {f"Node//n{i}": node(f"n{i}") for i in NAMES}
    made = job("g00")
    objects[KEY] = {**made, "metadata": {**made["metadata"], "uid": "job-g00"}}
    containers = [CONTAINER, *([SIDECAR] if with_sidecar else [])]
    for item in pods("g00", "n00", given):
        body = {**item, "spec": {**item["spec"], "containers": containers}}
        objects[f"Pod/default/{item['metadata']['name']}"] = body
    return Observation(dict(sorted(objects.items())), frozenset())


def restrictions(observation: Observation, snapshot: Snapshot) -> str:
    return fingerprint_of(observation, snapshot, frozenset()).restrictions


def test_pods_that_a_webhook_made_larger_are_planned_anew_and_once() -> None:
    anew = compiled(state_objects(seen(0)))
    before = compiled([node(f"n{i}") for i in NAMES])
    assert sorted(before.gangs[KEY].pods["w"].values()) == [8]
    usual = restrictions(seen(0, with_sidecar=False), before)
    assert restrictions(seen(0), before) != usual, "the plan counts 4 cpu for a pod, and each asks for 40"
    assert anew.requests[KEY] == [{"cpu": 40_000, GPU: 1, "pods": 1}]
    assert sorted(anew.gangs[KEY].pods["w"].values()) == [1] * 8, "the seven other GPUs of a node need 28 of its 96 cpu"
    assert restrictions(seen(0), anew) == restrictions(seen(2), anew) == usual
    assert [each["severity"] for each in anew.diagnostics if each["code"] == "GP528"] == ["info"]
