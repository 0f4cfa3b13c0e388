"""Kinds whose pods no gate can hold: Spark's, HyperJobs and CronJobs; and what only looks like pods."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.specs.cluster_spec import Specs
from tests.builders.beside import beside
from tests.unit.compiler.kinds.operator_jobs import POD, gang, minima, read

API = "sparkoperator.k8s.io/v1beta2"
SPARK: dict[str, Any] = beside(__file__)["spark"]


def test_a_spark_application_is_a_driver_and_its_executors() -> None:
    found = gang(API, "SparkApplication", SPARK)
    assert minima(found) == (1, {"driver": (0, 1), "executor": (0, 3)})
    assert (found.scheduling.is_bound, found.scheduling.schedulable, found.queue, found.controller.marks_pods) == (
        False,
        False,
        "ml",
        False,
    )
    driver, executor = (role.pod for role in found.roles)
    assert driver.requests == {"cpu": 1000, "memory": (512 + 384) << 20, "pods": 1}
    assert executor.requests == {"cpu": 1500, "memory": 5 << 30, "nvidia.com/gpu": 2, "pods": 1}
    assert (executor.node_selector, len(executor.tolerations)) == ({"pool": "x"}, 1)
    specs = read(API, "SparkApplication", SPARK)
    assert [(pods.role, pods.count, pods.queue) for pods in specs.unplanned_pods] == [
        ("driver", 1, "ml"),
        ("executor", 3, "ml"),
    ]
    codes = [each.code for each in specs.diagnostics]
    assert "GP222" in codes
    assert not {"GP213", "GP220", "GP337", "GP338"} & set(codes)


@pytest.mark.parametrize(
    ("changes", "executors"),
    [
        ({"executor": {}}, 1),
        ({"dynamicAllocation": {"enabled": True, "initialExecutors": 4, "minExecutors": 2}}, 4),
        ({"dynamicAllocation": {"enabled": False, "initialExecutors": 4}}, 3),
    ],
)
def test_the_executors_at_the_start(changes: dict[str, Any], executors: int) -> None:
    assert gang(API, "SparkApplication", {**SPARK, **changes}).roles[-1].replicas == executors


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("512m", 512), ("2g", 2048), ("1024", 1024), ("2Gi", 2048), ("1t", 1 << 20), ("much", 1024)]
)
def test_memory_is_read_as_spark_reads_it(text: str, mebibytes: int) -> None:
    driver = {"memory": text, "memoryOverhead": "0m"}
    found = gang(API, "SparkApplication", {**SPARK, "driver": driver})
    assert found.roles[0].pod.requests["memory"] == mebibytes << 20


def test_in_client_mode_the_driver_is_no_pod_of_the_cluster_s_and_another_scheduler_counts_in_no_queue() -> None:
    found = gang(API, "SparkApplication", {**SPARK, "mode": "client", "batchScheduler": "yunikorn"})
    assert ([role.name for role in found.roles], found.queue) == (["executor"], "")


def test_a_queue_that_is_not_there_is_an_error_of_the_application() -> None:
    specs = read(API, "SparkApplication", {**SPARK, "batchSchedulerOptions": {"queue": "gone"}})
    assert [each.message for each in specs.diagnostics if each.severity == "error"] == ["there is no queue 'gone'"]
    assert specs.gangs == ()


CRON: dict[str, Any] = {"schedule": "0 3 * * *", "template": SPARK}


def test_what_runs_by_the_clock_is_planned_as_nothing_in_between() -> None:
    job = {"parallelism": 2, "template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}
    tasks: dict[str, Any] = {
        "schedule": "0 3 * * *",
        "jobTemplate": {"spec": {"tasks": [{"name": "w", "replicas": 2, **job}]}},
    }
    tasks["jobTemplate"]["spec"]["tasks"][0].pop("parallelism")
    for api_version, kind, spec in (
        (API, "ScheduledSparkApplication", CRON),
        ("batch/v1", "CronJob", {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}),
        ("batch.volcano.sh/v1alpha1", "CronJob", tasks),
    ):
        specs = read(api_version, kind, spec)
        (found,) = specs.gangs
        assert (found.scheduling.is_bound, found.scheduling.is_recurring, found.roles[-1].replicas > 1) == (
            False,
            True,
            True,
        ), kind
        assert all(pods.is_recurring for pods in specs.unplanned_pods)
        assert specs.unplanned_pods
        suspended = read(api_version, kind, {**spec, "suspend": True})
        assert ([gang.scheduling.schedulable for gang in suspended.gangs], suspended.unplanned_pods) == ([False], ())


def test_a_spark_connect_is_a_server_by_its_template_and_its_executors() -> None:
    """A template may leave out what Spark fills in; the executors' cores and memory are Spark's."""
    spec = {
        "sparkVersion": "4.0.0",
        "server": {"template": POD},
        "executor": {
            "instances": 2,
            "memory": "512m",
            "template": {"spec": {"nodeSelector": {"pool": "x"}, "containers": [{"name": "spark"}]}},
        },
        "dynamicAllocation": {"enabled": True, "minExecutors": 3},
    }
    odd = {**spec, "server": {"template": {"spec": {"containers": "none"}}}}
    assert gang("sparkoperator.k8s.io/v1alpha1", "SparkConnect", odd).roles[0].pod.requests == {"pods": 1}
    found = gang("sparkoperator.k8s.io/v1alpha1", "SparkConnect", spec)
    assert (minima(found), found.scheduling.is_bound) == ((1, {"server": (0, 1), "executor": (0, 3)}), False)
    server, executor = (role.pod for role in found.roles)
    assert server.requests == {"nvidia.com/gpu": 8, "pods": 1}
    assert executor.requests == {"cpu": 1000, "memory": (512 + 384) << 20, "pods": 1}
    assert executor.node_selector == {"pool": "x"}


def _own_codes(specs: Specs) -> list[str]:
    """Without that of kinds which the shipped rights do not cover."""
    own = (each for each in specs.diagnostics if each.position.file == "jobs/a.yaml")
    return [each.code for each in own if each.code != "GP357"]


def _replicated(name: str, task: str, **more: object) -> dict[str, Any]:
    return {
        "name": name,
        "templateSpec": {"queue": "ml", "tasks": [{"name": task, "replicas": 4, "template": POD}]},
        **more,
    }


def test_of_a_hyper_job_room_is_kept_for_the_jobs_that_may_come_here() -> None:
    jobs = [
        _replicated("a", "worker", replicas=2),
        _replicated("b", "worker", clusterNames=["c", "other"]),
        _replicated("there", "worker", clusterNames=["other"]),
    ]
    specs = read("training.volcano.sh/v1alpha1", "HyperJob", {"replicatedJobs": jobs})
    (found,) = specs.gangs
    assert minima(found)[1] == {"a-worker": (0, 8), "b-worker": (0, 4)}
    assert (found.queue, found.scheduling.is_bound, found.roles[1].template_path[2]) == ("ml", False, 1)
    assert _own_codes(specs) == ["GP222"]
    specs = read("training.volcano.sh/v1alpha1", "HyperJob", {"replicatedJobs": jobs[2:]})
    assert (_own_codes(specs), specs.gangs) == (["GP220"], ())


def test_the_resources_that_kwok_simulates_run_no_pods() -> None:
    data = {"containers": [{"name": "container-0", "image": "busybox"}]}
    assert not _own_codes(read("config.kwok.x-k8s.io/v1alpha1", "KwokctlResource", data))
