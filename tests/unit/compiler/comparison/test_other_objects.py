"""What a change does to jobs whose objects hold no pod template, and to jobs that change with another object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from compiler.comparison.render import comparison_text
from tests.builders.beside import beside
from tests.unit.compiler.comparison.test_comparison import BASE, changes, found_jobs, job, queue, without

SMALL = without(without(BASE, "jobs/one.yaml"), "jobs/two.yaml")
OF_NODE = {"spec": {"containers": [{"name": "node", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
WITHOUT_TEMPLATES: dict[str, tuple[str, str, dict[str, Any]]] = beside(__file__)["without_templates"]


def other(api_version: str, kind: str, spec: Mapping[str, Any], **metadata: Any) -> str:
    return json.dumps(
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": "other", **metadata}, "spec": spec}
    )


@pytest.mark.parametrize("kind", WITHOUT_TEMPLATES)
def test_pods_of_which_the_object_holds_no_template_run_on(kind: str) -> None:
    train_job = other("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "other"}}, namespace="ns")
    base = {**SMALL, "jobs/other.yaml": other(*WITHOUT_TEMPLATES[kind]), "jobs/t.yaml": train_job}
    before = base if kind == "a runtime" else without(base, "jobs/t.yaml")
    comparison = changes(before, {**before, "jobs/three.yaml": job("three", 1, image="y")})
    assert (comparison.errors, found_jobs(comparison)) == ((), {"ns/three": "new run"})


def test_more_replicas_are_a_change_in_place_and_other_fields_of_a_service_are_not() -> None:
    api_version, kind, spec = WITHOUT_TEMPLATES["a service"]
    predictor = spec["predictor"]
    base = {**BASE, "jobs/other.yaml": other(api_version, kind, spec)}
    more, others = ({"predictor": {**predictor, **edit}} for edit in ({"minReplicas": 2}, {"serviceAccountName": "a"}))
    (grown,) = changes(base, {**base, "jobs/other.yaml": other(api_version, kind, more)}).jobs
    (rolled,) = changes(base, {**base, "jobs/other.yaml": other(api_version, kind, others)}).jobs
    assert (grown.effect, grown.why) == ("grows", "spec.predictor.minReplicas 1 -> 2; changed in place")
    assert rolled.why.endswith("its controller replaces pods of another template")


def test_another_size_of_a_group_makes_all_its_pods_again() -> None:
    template = {"size": 1, "workerTemplate": {"spec": {"schedulerName": "volcano", **OF_NODE["spec"]}}}
    name = "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"
    base = {**SMALL, "jobs/g.yaml": other(*name, {"replicas": 1, "leaderWorkerTemplate": template})}
    larger = {"replicas": 1, "leaderWorkerTemplate": {**template, "size": 2}}
    (change,) = changes(base, {**base, "jobs/g.yaml": other(*name, larger)}).jobs
    assert change.why.endswith("its controller replaces pods of another template")


def test_a_queue_that_a_namespace_names_is_a_change_of_its_jobs_and_may_be_too_small() -> None:
    pod = {"schedulerName": "volcano", "containers": [{"name": "m", "image": "x", "resources": {"limits": {}}}]}
    pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8  # type: ignore[index]
    service = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    queues = queue("a", capability=8, deserved=8) + "---\n" + queue("default", capability=32, deserved=24)
    base = {
        **SMALL,
        "cluster-specs/demo/queues.yaml": queues,
        "jobs/s.yaml": other("apps/v1", "Deployment", {**service, "template": template}, namespace="ns"),
    }
    named = {"scheduling.volcano.sh/queue-name": "a"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "annotations": named}}
    comparison = changes(base, {**base, "jobs/ns.yaml": json.dumps(space)})
    assert [(each.name, each.queue, each.why) for each in comparison.jobs if each.name == "ns/other"] == [
        ("ns/other", "a", "it was in queue default")
    ]
    assert "holds 24 GPUs, above its capability 8" in comparison_text([comparison], "x", "y")


def test_amounts_of_a_quota_are_shown_and_what_a_secret_keeps_is_not() -> None:
    def repository(pods: int, kept: str) -> dict[str, str]:
        metadata = {"name": "s", "namespace": "ns"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": kept}}
        quota = other("v1", "ResourceQuota", {"hard": {"pods": pods}}, namespace="ns")
        return {**BASE, "jobs/q.yaml": quota, "jobs/s.yaml": json.dumps(secret)}

    assert changes(repository(9, "eA=="), repository(7, "eQ==")).objects == (
        "ResourceQuota ns/other: spec.hard.pods (9 -> 7) changed",
        "Secret ns/s: data.a changed",
    )


def test_pods_that_a_job_has_more_and_that_find_no_room_are_counted() -> None:
    api_version, kind, spec = WITHOUT_TEMPLATES["a service"]
    base = {**BASE, "jobs/other.yaml": other(api_version, kind, spec)}
    more = {"predictor": {**spec["predictor"], "minReplicas": 999}}
    (grown,) = changes(base, {**base, "jobs/other.yaml": other(api_version, kind, more)}).jobs
    assert "of its 999 pods wait for room" in grown.why
