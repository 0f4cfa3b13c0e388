"""Time passes on the real cluster: nothing happens there, and yet the answer changes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compiler.amounts import rfc3339
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    SCHEDULER,
    VCJOBS,
    Reconciler,
    Repository,
    bound,
    gpu_nodes,
    node_pool,
    phase,
    placement,
    queue,
    role,
    vcjob,
)

pytestmark = pytest.mark.e2e


def test_a_job_starts_when_maintenance_is_over_although_nothing_happens(plane: ControlPlane, tmp_path: Path) -> None:
    gpu_nodes(plane, 1, gpus=8)
    over = int(time.time()) + 20
    window = f'  maintenance: [{{start: "{rfc3339(over - 600)}", duration: 10m}}]\n'
    repository = Repository(tmp_path / "repo")
    repository.write("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 1) + window, queue("team"))
    repository.write("jobs/train.yaml", vcjob("train", role("worker", 1, gpus=8), queue="team"))
    repository.commit()
    with Reconciler(plane, repository, tmp_path / "one") as reconciler:
        said = plane.wait(
            lambda: plane.api("GET", f"{VCJOBS}/train")["metadata"]["annotations"].get("gangplan.dev/waiting", ""),
            lambda seen: bool(seen),
            what="the job to be told why it waits",
        )
        assert "GW116" in said
        assert time.time() < over, "the story was too slow to see the maintenance"
        plane.wait(lambda: phase(plane, "train"), lambda seen: seen == "Running", timeout=60, what="the job to run")
        assert time.time() >= over
        assert bound(plane, "train") == placement(plane, "train")
        compiles = reconciler.lines()
        assert not [line for line in compiles if line.get("message") == "commit rejected"]
