"""What cannot be read holds up what depends on it, and nothing else; and what can be read again is used at once."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    QUEUES_PATH,
    SCHEDULER,
    GitRepository,
    ReconcilerProcess,
    add_gpu_nodes,
    install_rights,
    job_phase,
    node_pool,
    queue,
    role,
    volcano_job,
)

pytestmark = pytest.mark.e2e

MONITOR = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": {"name": "metrics", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "trainer"}}},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


UNAVAILABLE = 60.0
"""Seconds between two attempts at a kind that was never read; one that was is asked for every few seconds."""


def time_of(line: dict[str, Any]) -> float:
    """When a line of the log was written."""
    return datetime.fromisoformat(str(line["time"])).timestamp()


def made_repository(folder: Path) -> GitRepository:
    """A small cluster with one job."""
    repository = GitRepository(folder)
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 2), queue("team", 16))
    repository.write_file("jobs/first.yaml", volcano_job("first", role("worker", 2, gpus=4), queue="team"))
    repository.commit()
    return repository


def held(reconciler: ReconcilerProcess) -> dict[str, str]:
    return {row["object"]: row["reason"] for row in reconciler.read_status()["held"]}


def weight(plane: ControlPlane) -> int:
    return int(plane.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"])


def test_objects_that_cannot_be_read_hold_up_only_themselves(installed: ControlPlane, tmp_path: Path) -> None:
    plane, repository = installed, made_repository(tmp_path / "repository")
    add_gpu_nodes(plane, 2, 8)
    repository.write_file("jobs/monitor.yaml", MONITOR)
    repository.write_file("jobs/claim.yaml", CLAIM)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "reconciler") as reconciler:
        plane.wait_until(lambda: job_phase(plane, "first"), lambda seen: seen == "Running", what="the first job")
        seen = plane.wait_until(lambda: held(reconciler), lambda seen: len(seen) >= 2, what="what is held")
        assert "serves no kind ServiceMonitor" in seen["ServiceMonitor default/metrics"]
        assert "403" in seen["PersistentVolumeClaim default/data"]
        assert reconciler.condition("Applied")["status"] == "False"

        plane.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 7}})
        plane.wait_until(lambda: weight(plane), lambda seen: seen == 1, what="the drift put back")

        repository.write_file("jobs/second.yaml", volcano_job("second", role("worker", 1, gpus=4), queue="team"))
        repository.commit()
        plane.wait_until(lambda: job_phase(plane, "second"), lambda seen: seen == "Running", what="the second job")

        repository.remove_file("jobs/monitor.yaml")
        repository.remove_file("jobs/claim.yaml")
        repository.remove_file("jobs/second.yaml")
        commit = repository.commit()

        def state() -> tuple[Any, ...]:
            status = reconciler.read_status()
            conditions = {each["type"]: each["status"] for each in status["conditions"]}
            return status["commit"], status["held"], conditions["Observed"], conditions["Applied"]

        plane.wait_until(state, lambda seen: seen == (commit, [], "True", "True"), what="nothing left of them")


def test_after_a_restart_of_the_api_server_the_next_commit_is_planned_at_once(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, repository = control_plane, made_repository(tmp_path / "repository")
    install_rights(plane)
    add_gpu_nodes(plane, 2, 8)
    with ReconcilerProcess(plane, repository, tmp_path / "reconciler") as reconciler:
        plane.wait_until(lambda: job_phase(plane, "first"), lambda seen: seen == "Running", what="the first job")
        plane.kill("kube-apiserver")
        repository.write_file("jobs/second.yaml", volcano_job("second", role("worker", 1, gpus=4), queue="team"))
        commit = repository.commit()
        plane.restart("kube-apiserver")
        plane.wait_until(lambda: reconciler.read_status()["commit"], lambda seen: seen == commit, what="the commit")
        lines = reconciler.log_lines()
        begun = next(line for line in lines if line["message"] == "a compile begins" and line["commit"] == commit)
        refused = [line for line in lines if line["message"] == "watch begins again" and line["time"] < begun["time"]]
        assert any("403" in line["reason"] or "404" in line["reason"] for line in refused)
        assert time_of(begun) - time_of(refused[-1]) < UNAVAILABLE / 2
