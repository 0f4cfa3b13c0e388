"""A cluster that lived without gangplan, as a repository, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.importing import read_kinds
from reconciler.cluster.rights import plural_of, reading_objects
from tests.builders.declared import priority_class
from tests.controlplane import ControlPlane
from tests.e2e.stories.operator_jobs import operator_job
from tests.e2e.stories.story import (
    QUEUES_PATH,
    VOLCANO_JOBS_PATH,
    GitRepository,
    ReconcilerProcess,
    add_gpu_nodes,
    bound_pods,
    is_answered_with,
    job_phase,
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


@pytest.fixture
def stopped_job(plane: ControlPlane) -> Iterator[dict[str, Any]]:
    """A batch Job without pods, which goes before the cluster is emptied."""
    job = operator_job("Job")
    job["spec"]["suspend"] = True
    yield plane.api("POST", BATCH_JOBS, job)
    plane.api("DELETE", f"{BATCH_JOBS}/{job['metadata']['name']}")


@pytest.fixture
def reader(plane: ControlPlane) -> Iterator[Path]:
    """The kubeconfig of a user who meanwhile has the rights that a shadow needs, and no others."""
    given = []
    for thing in reading_objects([(api.rpartition("/")[0], kind) for api, kind in read_kinds()]):
        if thing["kind"] != "ServiceAccount":
            for subject in thing.get("subjects", ()):
                subject |= {"kind": "User", "name": "guest", "apiGroup": "rbac.authorization.k8s.io"}
                del subject["namespace"]
            space = f"/namespaces/{namespace}" if (namespace := thing["metadata"].get("namespace")) else ""
            path = f"/apis/rbac.authorization.k8s.io/v1{space}/{plural_of(thing['kind'])}"
            plane.api("POST", path, thing)
            given.append(f"{path}/{thing['metadata']['name']}")
    yield plane.kubeconfig_for("guest")
    for path in given:
        plane.api("DELETE", path)


def specs_of(plane: ControlPlane, *paths: str) -> dict[str, Any]:
    """What every object says, and what tells one from another of its name."""
    return {
        f"{path}/{item['metadata']['name']}": (item["metadata"]["uid"], item["spec"])
        for path in paths
        for item in plane.api("GET", path)["items"]
    }


@pytest.mark.usefixtures("stopped_job")
def test_an_imported_cluster_is_at_what_its_repository_says(plane: ControlPlane, tmp_path: Path) -> None:
    names = add_gpu_nodes(plane, 4, gpus=8)
    running = volcano_job("running", role("worker", 3, gpus=8), queue="team", priorityClassName="high")
    for path, item in (
        (PRIORITY_CLASSES, priority_class("high", 1000)),
        (QUEUES_PATH, queue("team", gpus=24)),
        (HYPERNODES, hypernode("left", *names[:2])),
        (HYPERNODES, hypernode("right", *names[2:])),
    ):
        plane.api("POST", path, item)
    plane.wait_until(lambda: plane.api("POST", VOLCANO_JOBS_PATH, running), what="the queue to be open")
    wait_for_phase(plane, "running")
    paths = [QUEUES_PATH, HYPERNODES, VOLCANO_JOBS_PATH, BATCH_JOBS]
    before, places = specs_of(plane, *paths), bound_pods(plane, "running")
    repository = GitRepository(tmp_path / "repo")
    access = "--kubeconfig", str(plane.kubeconfig)
    run_gangplan("import", *access, "-o", str(repository.folder), "--cluster", "test")
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "run") as reconciler:
        plane.wait_until(lambda: reconciler.condition("Applied")["status"] == "True", what="one pass")
        assert reconciler.gang_status("running")["decision"] == "keep"
    after = specs_of(plane, *paths)
    assert {key: (said, after.get(key)) for key, said in before.items() if after.get(key) != said} == {}
    assert bound_pods(plane, "running") == places


def test_a_shadow_reads_a_cluster_of_the_stock_scheduler_and_can_write_nothing(
    plane: ControlPlane, reader: Path
) -> None:
    add_gpu_nodes(plane, 2, gpus=8)
    plane.api("POST", QUEUES_PATH, queue("team"))
    jobs = [volcano_job(name, role("worker", 1, gpus=8), queue="team") for name in ("a", "b", "c")]
    for job in jobs:
        plane.wait_until(partial(plane.api, "POST", VOLCANO_JOBS_PATH, job), what="the queue to be open")
    plane.wait_until(lambda: sum(job_phase(plane, name) == "Running" for name in "abc") == 2, what="two jobs to run")
    access = "--kubeconfig", str(reader)
    rows = run_gangplan("shadow", *access, "--looks", "2", "--every", "1", "-o", "json").splitlines()
    for row in map(json.loads, rows):
        assert (row["now"]["running"], row["now"]["waiting"], row["now"]["devices"]) == (2, 1, {"nvidia.com/gpu": 16})
        assert (row["startable"], row["fromEmpty"]["devices"]) == ({}, row["now"]["devices"])
    assert len(rows) == 2
    for method, path in (("DELETE", f"{QUEUES_PATH}/team"), ("DELETE", f"{VOLCANO_JOBS_PATH}/a")):
        assert is_answered_with("forbidden", partial(plane.api, method, path, user="guest"))
