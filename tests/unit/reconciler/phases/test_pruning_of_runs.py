"""What dies with an object that makes runs on a schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.cluster.objects import Object, ref_of
from tests.builders.scripted_server import ScriptedAnswer
from tests.unit.reconciler.phases.test_ownership import LABELS, OURS, World

SCHEDULED = [
    ("argoproj.io/v1alpha1", "CronWorkflow", "cronworkflows", "workflows.argoproj.io/workflow"),
    (
        "sparkoperator.k8s.io/v1beta2",
        "ScheduledSparkApplication",
        "scheduledsparkapplications",
        "sparkoperator.k8s.io/app-name",
    ),
]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def put_pod_of_run(world: World, run: str, label: str, namespace: str = "default") -> None:
    metadata = {"namespace": namespace, "name": f"{run}-0", "labels": {label: run}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running"}}
    world.cluster.put(f"/api/v1/namespaces/{namespace}/pods/{run}-0", pod)


def test_the_runs_of_a_cron_job_count_with_it(world: World) -> None:
    """Seven CronJobs with a running Job each were deleted without a question."""
    made = [world.put(f"tick{at}") for at in range(7)]
    pods: dict[str, list[Object]] = {}
    for item in made:
        world.enter(item)
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": item["metadata"]["uid"]}
        run = world.put(f"run-{item['metadata']['name']}", job=True, ownerReferences=[owner])
        pods[ref_of(run).key] = [{"metadata": {}, "spec": {}, "status": {"phase": "Running"}}]
    p = world.look(made[0])
    p.pods = pods
    world.prune(p)
    assert "6 of 7 running jobs would be deleted, the limit is 5" in p.prune_plan.excess
    p = world.look(*made[:5])
    p.pods = pods
    world.prune(p)
    assert (len(world.deleted()), world.inventory.deletions) == (2, [[1000, 2, 2, 2, 0]])


@pytest.mark.parametrize(("api", "kind", "plural", "label"), SCHEDULED)
def test_the_runs_of_a_cron_workflow_and_of_a_scheduled_spark_application_count_with_it(
    world: World, api: str, kind: str, plural: str, label: str
) -> None:
    """Seven of them with a run each were deleted without a question; their runs are not watched."""
    known = {"resources": [{"kind": kind, "name": plural, "namespaced": True}]}
    world.cluster.before = lambda _, path, __: ScriptedAnswer(200, known) if path == f"/apis/{api}" else None
    made = []
    for at in range(7):
        metadata = {"namespace": "default", "name": f"nightly-{at}", "labels": LABELS, "managedFields": [OURS]}
        item = {"apiVersion": api, "kind": kind, "metadata": metadata}
        made.append(world.cluster.put(f"/apis/{api}/namespaces/default/{plural}/nightly-{at}", item))
        world.enter(made[-1])
        put_pod_of_run(world, f"nightly-{at}-1700000000", label)
        put_pod_of_run(world, f"nightly-{at}-17000000600000", label)
    put_pod_of_run(world, "weekly-1", label)
    put_pod_of_run(world, "nightly-1-1700000000", label, "elsewhere")
    held = world.prune(world.look(made[0])).prune_plan
    assert "6 of 7 running jobs would be deleted, the limit is 5" in held.excess
    world.prune(world.look(*made[:5]))
    assert (len(world.deleted()), world.inventory.deletions) == (2, [[1000, 2, 2, 4, 0]])
