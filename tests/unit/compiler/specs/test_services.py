"""Pods that name no scheduler: which of them binding gives to Volcano."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.compiler.kinds.operator_jobs import POD, emitted, gang, read


def of_scheduler(name: str) -> dict[str, Any]:
    return {"spec": {**POD["spec"], "schedulerName": name}}


def torch_job(master: dict[str, Any]) -> dict[str, Any]:
    return {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": master},
            "Worker": {"replicas": 2, "template": POD},
        }
    }


@pytest.mark.parametrize("master", [POD, of_scheduler("volcano")])
def test_binding_names_volcano_in_each_template_of_a_job(master: dict[str, Any]) -> None:
    roles = emitted(gang("kubeflow.org/v1", "PyTorchJob", torch_job(master)))["spec"]["pytorchReplicaSpecs"]
    assert {role["template"]["spec"]["schedulerName"] for role in roles.values()} == {"volcano"}


def test_the_mark_is_written_into_the_template_of_a_batch_job() -> None:
    template = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    assert (
        emitted(gang("batch/v1", "Job", {"template": template}))["spec"]["template"]["spec"]["schedulerName"]
        == "volcano"
    )


def test_a_job_with_a_role_of_another_scheduler_stays_as_it_is_and_is_said() -> None:
    specs = read("kubeflow.org/v1", "PyTorchJob", torch_job(of_scheduler("mine")))
    (found,) = specs.gangs
    assert (found.scheduling.schedulable, found.controller.writes_scheduler) == (False, False)
    assert [each.code for each in specs.diagnostics if each.code == "GP337"] == ["GP337", "GP337"]


def test_what_an_operator_or_the_job_itself_says_is_not_written_again() -> None:
    ray = {"headGroupSpec": {"template": POD}}
    assert not gang("ray.io/v1", "RayCluster", ray).controller.writes_scheduler


@pytest.mark.parametrize(("scheduler", "is_bound"), [("", False), ("hami-scheduler", False), ("volcano", True)])
def test_a_service_that_asks_for_parts_as_hami_reads_them_is_bound_by_volcanos_name_only(
    scheduler: str, is_bound: bool
) -> None:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
    pod = {"schedulerName": scheduler, "containers": [{"name": "m", "image": "a", "resources": {"limits": limits}}]}
    found = gang("apps/v1", "Deployment", {"template": {"spec": pod}})
    assert (found.scheduling.is_bound, "nvidia.com/gpumem" in found.roles[0].pod.requests) == (is_bound, is_bound)
