"""A cluster that lived without gangplan, as a repository, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.operator_jobs import batch_job
from tests.e2e.stories.story import (
    QUEUES_PATH,
    VOLCANO_JOBS_PATH,
    GitRepository,
    ReconcilerProcess,
    add_gpu_nodes,
    bound_pods,
    priority_class,
    queue,
    role,
    run_gangplan,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
BATCH_JOBS = "/apis/batch/v1/namespaces/default/jobs"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def hypernode(name: str, *members: str) -> dict[str, Any]:
    rows = [{"type": "Node", "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": 1, "members": rows}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def specs_of(plane: ControlPlane, *paths: str) -> dict[str, Any]:
    """What every object says, and what tells one from another of its name."""
    return {
        f"{path}/{item['metadata']['name']}": (item["metadata"]["uid"], item["spec"])
        for path in paths
        for item in plane.api("GET", path)["items"]
    }


def test_an_imported_cluster_is_at_what_its_repository_says(plane: ControlPlane, tmp_path: Path) -> None:
    names = add_gpu_nodes(plane, 4, gpus=8)
    stopped = batch_job()
    stopped["spec"]["suspend"] = True
    running = volcano_job("running", role("worker", 3, gpus=8), queue="team", priorityClassName="high")
    for path, item in (
        (PRIORITY_CLASSES, priority_class("high", 1000)),
        (QUEUES_PATH, queue("team", gpus=24)),
        (HYPERNODES, hypernode("left", *names[:2])),
        (HYPERNODES, hypernode("right", *names[2:])),
        (BATCH_JOBS, stopped),
    ):
        plane.api("POST", path, item)
    plane.wait_until(lambda: plane.api("POST", VOLCANO_JOBS_PATH, running), what="the queue to be open")
    wait_for_phase(plane, "running")
    paths = [QUEUES_PATH, HYPERNODES, VOLCANO_JOBS_PATH, BATCH_JOBS]
    before, places = specs_of(plane, *paths), bound_pods(plane, "running")
    repository = GitRepository(tmp_path / "repo")
    access = "--kubeconfig", str(plane.kubeconfig)
    print(run_gangplan("import", *access, "-o", str(repository.folder), "--cluster", "test"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "run") as reconciler:
        plane.wait_until(lambda: reconciler.condition("Applied")["status"] == "True", what="one pass")
        assert reconciler.gang_status("running")["decision"] == "keep"
    after = specs_of(plane, *paths)
    assert {key: (said, after.get(key)) for key, said in before.items() if after.get(key) != said} == {}
    assert bound_pods(plane, "running") == places
