"""What dies with an object that makes runs on a schedule."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.kubernetes import name_of, uid_of
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import InventoryEntry
from reconciler.ownership.guard import pods_of_all
from tests.builders.ownership import World
from tests.builders.scripted_server import served
from tests.builders.writing import LABELS, OURS, thing

SPARK = "sparkoperator.k8s.io/v1beta2"
SCHEDULED = [
    ("argoproj.io/v1alpha1", "CronWorkflow", "workflows.argoproj.io/workflow"),
    (SPARK, "ScheduledSparkApplication", "sparkoperator.k8s.io/app-name"),
]


def put_pod_of_run(world: World, run: str, label: str, namespace: str = "default") -> None:
    pod = {**thing("Pod", f"{run}-0", namespace=namespace, labels={label: run}), "spec": {}}
    world.cluster.put(f"/api/v1/namespaces/{namespace}/pods/{run}-0", {**pod, "status": {"phase": "Running"}})


def put_served(world: World, api: str, kind: str, name: str) -> Object:
    """An object of ours of a kind that this cluster serves."""
    world.cluster.before = lambda _, path, __: served(kind) if path == f"/apis/{api}" else None
    item = thing(kind, name, api=api, labels=LABELS, managedFields=[OURS])
    made = world.cluster.put(f"/apis/{api}/namespaces/default/{kind.lower()}s/{name}", item)
    world.enter(made)
    return made


@pytest.mark.parametrize(("api", "kind", "label"), SCHEDULED)
def test_the_runs_of_a_cron_workflow_and_of_a_scheduled_spark_application_count_with_it(
    world: World, api: str, kind: str, label: str
) -> None:
    """Seven of them with a run each were deleted without a question; their runs are not watched."""
    made = []
    for at in range(7):
        made.append(put_served(world, api, kind, f"nightly-{at}"))
        put_pod_of_run(world, f"nightly-{at}-1700000000", label)
        put_pod_of_run(world, f"nightly-{at}-17000000600000", label)
    put_pod_of_run(world, "weekly-1", label)
    put_pod_of_run(world, "nightly-1-1700000000", label, "elsewhere")
    held = world.prune(world.look(made[0]))
    assert "6 of 7 running jobs would be deleted, the limit is 5" in held.excess
    world.prune(world.look(*made[:5]))
    world.prune(world.look(*made[:5]))
    assert (len(world.deleted()), world.inventory.deletions) == (2, [[1000, 2, 2, 4, 0]])


MAKERS = [
    (SPARK, "SparkApplication", "sparkoperator.k8s.io/app-name"),
    ("sparkoperator.k8s.io/v1alpha1", "SparkConnect", "sparkoperator.k8s.io/connect-name"),
    ("ray.io/v1", "RayCluster", "ray.io/cluster"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name"),
]


def item_of(api: str, kind: str, name: str, **metadata: Any) -> Object:
    made = thing(kind, name, api=api, **{"uid": f"uid of {name}", **metadata})
    return {**made, "spec": {}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(("api", "kind", "label"), MAKERS)
def test_what_an_operator_has_made_counts_by_its_label(api: str, kind: str, label: str) -> None:
    """Of a SparkApplication the guard saw the driver, and none of its executors: sixty could go without a question."""
    app = item_of(api, kind, "app")
    owner = {"apiVersion": api, "kind": kind, "name": "app", "uid": "uid of app", "controller": True}
    driver = item_of("v1", "Pod", "driver", ownerReferences=[owner])
    made = [item_of("v1", "Pod", f"executor-{at}", labels={label: "app"}) for at in range(3)]
    others = item_of("v1", "Pod", "other", labels={label: "other"}), item_of("v1", "Pod", "bare")
    elsewhere = item_of("v1", "Pod", "executor-9", labels={label: "app"}, namespace="elsewhere")
    key = ref_of(app).key
    entries, pods = {key: InventoryEntry(ref_of(app), uid_of(app))}, [driver, *made, *others, elsewhere]
    for known in ({key: [driver]}, {}):
        assert pods_of_all(entries, known, {key: app}, pods) == {key: [driver, *made]}


def test_pods_that_a_jobs_pods_have_made_count_with_it_and_with_what_made_the_job() -> None:
    """Seven CronJobs with a running Job each were deleted without a question."""
    cron, job = item_of("batch/v1", "CronJob", "cron"), item_of("batch/v1", "Job", "run")
    job["metadata"]["ownerReferences"] = [{**cron, **cron["metadata"]}]
    driver, executor = item_of("v1", "Pod", "driver"), item_of("v1", "Pod", "executor")
    driver["metadata"]["ownerReferences"] = [{**job, **job["metadata"]}]
    executor["metadata"]["ownerReferences"] = [{**driver, **driver["metadata"]}]
    key, of_cron = ref_of(job).key, InventoryEntry(ref_of(cron), uid_of(cron))
    found = pods_of_all({of_cron.ref.key: of_cron}, {key: [driver]}, {key: job}, [executor, driver])
    made = ["driver", "executor"]
    assert {name: sorted(map(name_of, pods)) for name, pods in found.items()} == {key: made, of_cron.ref.key: made}
