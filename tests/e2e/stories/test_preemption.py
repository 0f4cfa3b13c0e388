"""Preemption on a real cluster: the plan names the victim, the reconciler evicts it, and Volcano binds the winner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    SCHEDULER,
    VCJOBS,
    Object,
    Reconciler,
    Repository,
    gated,
    gpu_nodes,
    node_pool,
    phase,
    pods,
    queue,
    role,
    vcjob,
)

pytestmark = pytest.mark.e2e


def priority_class(name: str, value: int) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def test_an_urgent_gang_takes_the_place_of_one_that_matters_less_and_of_no_more(plane: ControlPlane, tmp_path: Path) -> None:
    gpu_nodes(plane, 2, gpus=8)
    repository = Repository(tmp_path / "repo")
    preempting = SCHEDULER.replace("[enqueue, allocate, backfill]", "[allocate, preempt, backfill]")
    classes = (priority_class("low", 10), priority_class("urgent", 1000))
    repository.write("cluster-specs/test/cluster.yaml", CLUSTER, preempting, node_pool("gpu", 2), queue("team"), *classes)
    for name in ("first", "second"):
        job = vcjob(name, role("worker", 1, gpus=8), queue="team", priorityClassName="low")
        job["metadata"]["annotations"] = job["spec"]["tasks"][0]["template"]["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
        repository.write(f"jobs/{name}.yaml", job)
    repository.commit()
    with Reconciler(plane, repository, tmp_path / "one") as reconciler:
        for name in ("first", "second"):
            plane.wait(lambda name=name: phase(plane, name), lambda seen: seen == "Running", what=f"{name} to run")  # type: ignore[misc]
        repository.write("jobs/urgent.yaml", vcjob("urgent", role("worker", 1, gpus=8), queue="team", priorityClassName="urgent"))
        repository.commit()
        plane.wait(lambda: phase(plane, "urgent"), lambda seen: seen == "Running", timeout=60, what="the urgent job to run")

        def held_back() -> list[str]:
            return [name for name in ("first", "second") if pods(plane, name) and all(gated(pod) for pod in pods(plane, name))]

        victims = plane.wait(held_back, lambda seen: len(seen) == 1, what="the victim to come back gated")
        (survivor,) = {"first", "second"} - set(victims)
        assert phase(plane, survivor) == "Running"
        assert plane.api("GET", f"{VCJOBS}/{victims[0]}")["status"].get("retryCount", 0) == 0
        plane.wait(
            lambda: {gang["name"]: gang["decision"] for gang in reconciler.status()["gangs"]},
            lambda seen: seen == {"urgent": "keep", survivor: "keep", victims[0]: "wait"},
            what="the plan that follows",
        )
