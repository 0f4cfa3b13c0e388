"""Kinds that are not planned: what runs pods is said, with the devices that it asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.reading import read_specs
from compiler.repository.tree import Repository

GPU: dict[str, Any] = {"containers": [{"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}
PLAIN: dict[str, Any] = {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}


def findings(api_version: str, kind: str, spec: object, **metadata: object) -> list[tuple[str, str]]:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": spec}
    specs = read_specs(Repository({"jobs/a.yaml": json.dumps(document).encode()}))
    return [(each.code, each.message) for each in specs.diagnostics if each.code in ("GP213", "GP216", "GP220")]


RAY = {
    "rayClusterSpec": {
        "headGroupSpec": {"template": {"spec": PLAIN}},
        "workerGroupSpecs": [{"replicas": 4, "template": {"spec": GPU}}, {"replicas": 1, "template": {"spec": GPU}}],
    }
}
JOB_SET = {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3, "template": {"spec": GPU}}}}]}
LEADER = {"leaderTemplate": {"spec": PLAIN}, "workerTemplate": {"spec": GPU}, "size": 4}
STEP = {"name": "s", "container": {"image": "i", **GPU["containers"][0]}}
TRAIN = {"trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "amount"),
    [
        ("example.org/v1", "RayInvention", RAY, 10),
        ("jobset.x-k8s.io/v9", "JobSet", JOB_SET, 12),
        ("leaderworkerset.x-k8s.io/v9", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": LEADER}, 12),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "gone"}, **TRAIN}, 16),
        ("argoproj.io/v9", "Workflow", {"entrypoint": "s", "templates": [STEP, {"name": "t", "steps": []}]}, 2),
        ("example.org/v1", "Invention", {"deep": [{"er": {"spec": GPU}}]}, 2),
        ("example.org/v1", "Invention", {"deep": [{"replicas": 3, "pod": {"initContainers": [{}], **GPU}}]}, 6),
    ],
)
def test_devices_are_counted(api_version: str, kind: str, spec: object, amount: int) -> None:
    ((code, message),) = findings(api_version, kind, spec)
    assert (code, message) == ("GP220", f"{kind} x asks for {amount} nvidia.com/gpu and is not planned")


def test_a_workflow_runs_pods_whatever_its_steps_and_another_workflow_may_not() -> None:
    steps = {"templates": [{"name": "s", "resource": {"action": "create", "manifest": "kind: Job"}}]}
    assert findings("argoproj.io/v1alpha1", "Workflow", steps) == [("GP213", "Workflow is passed through unplanned")]
    assert findings("example.org/v1", "Workflow", steps) == []


@pytest.mark.parametrize(
    ("api_version", "spec", "metadata"),
    [
        ("example.org/v1", {"template": {"spec": {"schedulerName": "volcano", **PLAIN}}}, {}),
        ("example.org/v1", {"template": {"spec": PLAIN}}, {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}),
        ("example.org/v1", {"template": {"spec": PLAIN}}, {"labels": {"ray.io/scheduler-name": "volcano"}}),
        ("training.volcano.sh/v1alpha1", {"template": {"spec": PLAIN}}, {}),
    ],
)
def test_a_kind_that_names_volcano_gets_a_warning(api_version: str, spec: object, metadata: dict[str, Any]) -> None:
    assert findings(api_version, "Invention", spec, **metadata) == [
        ("GP220", "Invention x is for Volcano and is not planned")
    ]


def test_kinds_whose_text_holds_no_pod_template_are_told() -> None:
    worker = {"type": "server", "image": "vllm", "replicas": 1, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    assert findings("workload.serving.volcano.sh/v1alpha1", "ModelBooster", {"backend": {"workers": [worker]}}) == [
        ("GP220", "ModelBooster x asks for 1 nvidia.com/gpu and is not planned")
    ]
    graph = {"services": {"Worker": {"replicas": 2, "resources": {"limits": {"gpu": "1"}}}}}
    assert findings("nvidia.com/v1alpha1", "DynamoGraphDeployment", graph) == [
        ("GP220", "DynamoGraphDeployment x asks for 2 gpu and is not planned")
    ]
    runtime = {"deploymentConfig": {"replicas": 1, "resources": {"cpu": "10", "gpu": "1"}}}
    assert findings("production-stack.vllm.ai/v1alpha1", "VLLMRuntime", runtime) == [
        ("GP220", "VLLMRuntime x asks for 1 gpu and is not planned")
    ]
    model = {"model": {"uri": "hf://models/a"}}
    assert findings("serving.kserve.io/v1alpha1", "LLMInferenceService", model) == [
        ("GP213", "LLMInferenceService is passed through unplanned")
    ]


def test_other_pods_are_an_info_and_what_holds_none_is_nothing() -> None:
    assert findings("example.org/v1", "Invention", {"template": {"spec": PLAIN}}) == [
        ("GP213", "Invention is passed through unplanned")
    ]
    resources = {"requests": {"cpu": 2, "memory": "4Gi"}}
    assert findings("monitoring.coreos.com/v1", "Prometheus", {"replicas": 2, "resources": resources}) == [
        ("GP213", "Prometheus is passed through unplanned")
    ]
    pattern = {"rules": [{"validate": {"pattern": {"spec": PLAIN}}}]}
    assert findings("kyverno.io/v1", "ClusterPolicy", pattern) == []
    assert findings("example.org/v1", "Invention", {"containers": 3, "replicas": 2}) == []
    assert findings("example.org/v1", "Invention", {"resources": {"requests": {"storage": "1Gi"}}}) == []
    schema = {"properties": {"containers": {"type": "array", "items": [{"name": "x"}]}}}
    assert findings("apiextensions.k8s.io/v1", "CustomResourceDefinition", {"schema": schema, "containers": [{}]}) == []


@pytest.mark.parametrize("amount", [None, "many", -1, [], 1e99, "0.5"])
def test_amounts_that_are_none_do_not_matter(amount: object) -> None:
    pod = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": amount}}}, None], "initContainers": None}
    assert findings("example.org/v1", "Invention", {"replicas": "x", "template": {"spec": pod}})


def test_a_group_that_is_nearly_the_kinds_is_an_error() -> None:
    assert findings("batch.volcano.io/v1alpha1", "Job", {}) == [
        ("GP216", "there is no API group batch.volcano.io; kind Job is of batch.volcano.sh")
    ]
    assert findings("scheduling.run.ai/v2", "Queue", {}) == []
    assert findings("flink.apache.org/v1", "Job", {}) == []
