"""Shapes by the vendored schemas: what is told, where, and what is fine."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.openapi.schemas import STEP, find_schema, known_versions, overlays
from compiler.openapi.shape import pod_paths, shape_flaws


def flaws(kind: str, version: str, spec: Any) -> list[tuple[str, str]]:
    schema = find_schema(kind, version)
    assert schema is not None
    data = {"apiVersion": "x", "kind": "X", "metadata": {"name": "a"}, "spec": spec}
    return [(flaw.rule.code, ".".join(map(str, flaw.path))) for flaw in shape_flaws(data, schema)]


QUEUE = ("Queue.scheduling.volcano.sh", "v1beta1")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"weight": 1, "capability": {"cpu": "8", "nvidia.com/gpu": 2}}, []),
        ({"wieght": 1}, [("GP202", "spec.wieght")]),
        ({"weight": "1"}, [("GP204", "spec.weight")]),
        ({"weight": 1.0}, []),
        ({"weight": 70000}, [("GP206", "spec.weight")]),
        ({"parent": ""}, [("GP211", "spec.parent")]),
        ({"parent": None, "capability": {"cpu": None}}, []),
        ({"capability": {"cpu": 0.5}}, [("GP204", "spec.capability.cpu")]),
        ({"dequeueStrategy": "FIFO"}, [("GP205", "spec.dequeueStrategy")]),
        ([], [("GP204", "spec")]),
    ],
)
def test_custom_objects_are_as_their_crd_says(spec: Any, expected: list[tuple[str, str]]) -> None:
    assert flaws(*QUEUE, spec) == expected


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"name": "a", "resources": {"limits": {"cpu": 0.5}}}, []),
        ({"name": "a", "env": [{"name": "A", "value": 1}]}, [("GP204", "env.0.value")]),
        ({"name": "a", "command": "sleep"}, [("GP204", "command")]),
        ({"name": "a", "args": ["a", None]}, []),
        ({"name": "a", "ports": [{"containerPort": "80"}]}, [("GP204", "ports.0.containerPort")]),
        ({"image": "a"}, [("GP203", "name")]),
    ],
)
def test_kubernetes_own_objects_are_decoded(container: Any, expected: list[tuple[str, str]]) -> None:
    found = flaws("Pod.", "v1", {"containers": [container]})
    assert found == [(code, f"spec.containers.0.{path}") for code, path in expected]


def test_two_of_a_name_in_a_list_that_is_a_map() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = {"containers": [{"name": "a", "env": env}]}
    job = {"tasks": [{"template": {"spec": pod}}]}
    at = "spec.tasks.0.template.spec.containers.0.env.1"
    assert flaws("Job.batch.volcano.sh", "v1alpha1", job) == [("GP205", at)]
    assert flaws("Pod.", "v1", pod) == []


def test_pods_are_found_in_any_kind() -> None:
    pod: dict[str, Any] = {"containers": []}
    schema = find_schema("CronJob.batch", "v1")
    assert schema is not None
    data = {"spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}}
    assert list(pod_paths(data, schema)) == [("spec", "jobTemplate", "spec", "template", "spec")]


def test_a_kind_or_version_without_schema_is_not_looked_at() -> None:
    assert find_schema("Invention.example.org", "v1") is None
    assert find_schema("Job.batch", "v9") is None


def test_overlays_are_of_fields_that_a_version_has() -> None:
    for kind in {name for name in overlays() if "." in name}:  # the others are parts of several kinds
        schemas = [find_schema(kind, version) for version in known_versions(kind) or ("of none",)]
        for path in overlays()[kind]:
            steps = [0 if step == "[]" else str(step) for step in STEP.findall(path)]
            assert any(schema is not None and schema.node_at(steps) for schema in schemas), (kind, path)


def test_versions_of_a_kind_may_come_from_two_operators() -> None:
    for version, policy in (("v1", "cleanPodPolicy"), ("v2beta1", "slotsPerWorker")):
        kind = "MPIJob.kubeflow.org"
        assert flaws(kind, version, {"mpiReplicaSpecs": {}, policy: []}) == [("GP204", f"spec.{policy}")]
    assert flaws("MPIJob.kubeflow.org", "v2beta1", {"mpiReplicaSpecs": {}, "mainContainer": "a"}) != []


def test_the_jobs_of_a_hyper_job_have_the_shape_of_volcano_s() -> None:
    task = {"replica": 1, "template": {"spec": {"containers": [{"name": "a"}]}}}
    job = {"name": "a", "replicas": "2", "templateSpec": {"minAvailable": 1, "tasks": [task]}}
    at = "spec.replicatedJobs.0"
    found = flaws("HyperJob.training.volcano.sh", "v1alpha1", {"replicatedJobs": [job]})
    assert found == [("GP204", f"{at}.replicas"), ("GP202", f"{at}.templateSpec.tasks.0.replica")]
