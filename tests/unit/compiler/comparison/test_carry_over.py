"""Pods that the base's plan starts: the head finds them with what the plan counts for them."""

from __future__ import annotations

import pytest

from tests.builders import declared
from tests.builders.declared import yaml_of
from tests.unit.compiler.comparison.test_comparison import BASE, changes, found_jobs, job

RANGE = declared.declared(
    "LimitRange", "lr", {"limits": [{"type": "Container", "defaultRequest": {"cpu": 20}}]}, api="v1", namespace="ns"
)
KATA = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}


@pytest.mark.parametrize(
    ("added", "old", "new"),
    [
        (RANGE, "", ""),
        ({**KATA, "overhead": {"podFixed": {"cpu": 20}}}, '"containers"', '"runtimeClassName": "kata", "containers"'),
    ],
)
def test_what_admission_adds_to_pods_is_held_by_those_that_run(added: dict[str, object], old: str, new: str) -> None:
    """A node has 32 cpu: next to a pod of 20 there is no room for another one."""
    jobs = {f"jobs/{name}.yaml": job(name, 4, gpus=1).replace(old, new) for name in ("one", "two")}
    files = {name: text for name, text in BASE.items() if not name.startswith("jobs/")}
    base = {**files, "jobs/added.yaml": yaml_of(added), "jobs/one.yaml": jobs["jobs/one.yaml"]}
    assert found_jobs(changes(base, {**base, **jobs})) == {"ns/two": "waits"}
