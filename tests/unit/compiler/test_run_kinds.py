"""How objects of each kind that runs once say that they are over (S16)."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.run_kinds import RUN_KINDS, end_of_run, has_time_to_live, run_kind_of


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status}]}


@pytest.mark.parametrize(
    ("api", "kind", "status", "phase"),
    [
        ("ray.io/v1", "RayJob", {"jobStatus": "SUCCEEDED"}, "Completed"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Completed"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, None),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Failed"}, "Failed"),
        ("kubeflow.org/v2beta1", "MPIJob", condition("Succeeded"), "Completed"),
        ("kubeflow.org/v1", "TFJob", condition("Failed"), "Failed"),
        ("kubeflow.org/v1", "TFJob", condition("Running"), None),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", condition("Completed"), "Completed"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", condition("Completed", "False"), None),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", condition("Complete"), "Completed"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"applicationState": {"state": "COMPLETED"}}, "Completed"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"applicationState": {"state": "RUNNING"}}, None),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"applicationState": {"state": "FAILED"}}, "Failed"),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"applicationState": {"state": "SUBMISSION_FAILED"}},
            None,
        ),
        ("argoproj.io/v1alpha1", "Workflow", {"phase": "Error"}, "Failed"),
        ("flow.volcano.sh/v1alpha1", "JobFlow", {"state": {"phase": "Succeed"}}, "Completed"),
        ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Completed"}}, "Completed"),
        ("batch/v1", "Job", condition("Complete"), "Completed"),
    ],
)
def test_each_kind_says_in_its_own_way_that_it_is_over(
    api: str, kind: str, status: dict[str, Any], phase: str | None
) -> None:
    item = {"apiVersion": api, "kind": kind, "metadata": {"name": "j"}, "status": status}
    assert run_kind_of(item) in RUN_KINDS
    assert end_of_run(item) == phase
    assert end_of_run({**item, "status": {}}) is None


def test_a_time_to_live_is_found_where_each_kind_has_it() -> None:
    policy = {"ttlSecondsAfterFinished": 0}
    for spec in (policy, {"runPolicy": policy}, {"timeToLiveSeconds": 9}):
        assert has_time_to_live({"spec": spec})
    assert not has_time_to_live({"spec": {"runPolicy": {}}})
