"""What can be read again after an outage is used at once. (tests/faults has what cannot be read.)"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.timings import TIMINGS
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    SCHEDULER,
    GitRepository,
    ReconcilerProcess,
    add_gpu_nodes,
    node_pool,
    queue,
    role,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e


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


def test_after_a_restart_of_the_api_server_the_next_commit_is_planned_at_once(
    plane: ControlPlane, tmp_path: Path
) -> None:
    repository = made_repository(tmp_path / "repository")
    add_gpu_nodes(plane, 2, 8)
    with ReconcilerProcess(plane, repository, tmp_path / "reconciler") as reconciler:
        wait_for_phase(plane, "first")
        plane.kill("kube-apiserver")
        repository.write_file("jobs/second.yaml", volcano_job("second", role("worker", 1, gpus=4), queue="team"))
        commit = repository.commit()
        plane.restart_api_server()
        ready_at = time.time()
        plane.wait_until(lambda: reconciler.read_status()["commit"], lambda seen: seen == commit, what="the commit")
        lines = reconciler.log_lines()
        begun = next(line for line in lines if line["message"] == "a compile begins" and line["commit"] == commit)
        refused = [line for line in lines if line["message"] == "watch begins again" and line["time"] < begun["time"]]
        assert any(status in line["reason"] for line in refused for status in ("403", "404", "503"))
        longest = TIMINGS.watch.longest_unavailable_pause  # between tries of a kind that was never read
        assert time_of(begun) - ready_at < longest / 2, "`bench.reconcile restart` measures the bar of 10 s"
