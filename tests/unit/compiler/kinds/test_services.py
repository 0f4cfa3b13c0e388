"""Services of Kubernetes, planned where they ask for it; JobSets and LeaderWorkerSets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.compiler.kinds.operator_jobs import POD, emitted, gang, minima, read

VOLCANO: dict[str, Any] = {"spec": {**POD["spec"], "schedulerName": "volcano"}}
QUEUE = {"scheduling.volcano.sh/queue-name": "ml"}
GANG = {"annotations": {"gangplan.dev/gang": "true"}}
MARK = {"gangplan.dev/job": "Deployment.apps/x", "gangplan.dev/role": "pods"}


def codes(kind: str, spec: object, **metadata: object) -> list[str]:
    specs = read("apps/v1", kind, spec, **metadata)
    assert specs.gangs == ()
    return [each.code for each in specs.diagnostics if each.code != "GP355"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_service_that_names_volcano_starts_pod_by_pod(kind: str) -> None:
    found = gang("apps/v1", kind, {"replicas": 4, "template": {**VOLCANO, "metadata": {"annotations": QUEUE}}})
    assert minima(found) == (1, {"pods": (0, 4)})
    assert (found.queue, found.dependent_roles, found.schedulable) == ("ml", ("pods",), True)
    assert found.document.position(*found.field_paths["queue"]).line == 1
    assert found.pod_owners == (("ReplicaSet.apps",) if kind == "Deployment" else ())


def test_volcano_s_minimum_for_the_pod_group_of_a_service_counts() -> None:
    notes = {"annotations": {"scheduling.volcano.sh/group-min-member": "3", **QUEUE}}
    found = gang("apps/v1", "StatefulSet", {"replicas": 4, "template": VOLCANO}, **notes)
    assert (found.minimum, found.queue) == (3, "ml")


@pytest.mark.parametrize(
    ("kind", "spec", "late"),
    [
        ("Deployment", {}, ()),
        ("StatefulSet", {"podManagementPolicy": "Parallel"}, ()),
        ("StatefulSet", {}, ("pods",)),
    ],
)
def test_a_service_is_a_gang_by_annotation(kind: str, spec: dict[str, Any], late: tuple[str, ...]) -> None:
    found = gang("apps/v1", kind, {"replicas": 4, "template": POD, **spec}, **GANG)
    assert minima(found) == (4, {"pods": (4, 4)})
    assert found.dependent_roles == late


def test_pods_of_a_deployment_say_whose_they_are() -> None:
    data = emitted(gang("apps/v1", "Deployment", {"replicas": 4, "template": VOLCANO}))
    assert data["spec"]["template"]["metadata"]["annotations"] == MARK
    assert data["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "gangplan.dev/placement"}]
    assert data["metadata"]["annotations"] == {
        "gangplan.dev/pod-owners": "ReplicaSet.apps",
        "gangplan.dev/dependent-roles": "pods",
    }


@pytest.mark.parametrize(
    ("replicas", "strategy", "planned"),
    [
        (4, None, True),
        (3, None, False),  # 25% of three pods is none
        (3, {"type": "Recreate"}, True),
        (3, {"rollingUpdate": {"maxUnavailable": 1}}, True),
        (3, {"rollingUpdate": {"maxUnavailable": "34%"}}, True),
        (9, {"rollingUpdate": {"maxUnavailable": 0}}, False),
        (9, {"rollingUpdate": {"maxUnavailable": "some"}}, False),
        (None, None, False),  # an autoscaler may say how many
    ],
)
def test_a_deployment_whose_update_needs_more_room_passes_through(
    replicas: int | None, strategy: object, planned: bool
) -> None:
    spec = {"replicas": replicas, "template": VOLCANO, "strategy": strategy}
    assert bool(read("apps/v1", "Deployment", spec).gangs) == planned


def test_a_service_that_asks_for_nothing_passes_through_and_is_said() -> None:
    assert codes("Deployment", {"replicas": 4, "template": POD}) == ["GP220"]
    plain = {"spec": {"containers": [{"name": "main"}]}}
    assert codes("StatefulSet", {"replicas": 4, "template": plain}) == ["GP213"]
    other = {"spec": {**POD["spec"], "schedulerName": "other"}}
    assert codes("StatefulSet", {"replicas": 4, "template": other}, **GANG) == ["GP220"]
    found = read("apps/v1", "StatefulSet", {"replicas": 4, "template": plain}).diagnostics
    assert "write schedulerName: volcano and replicas" in next(each.help for each in found if each.code == "GP213")


def test_every_pod_of_an_unplanned_service_counts_as_declared() -> None:
    (pods,) = read("apps/v1", "Deployment", {"replicas": 4, "template": POD}).unplanned_pods
    assert (pods.count, pods.path, pods.on_each_node) == (4, ("spec", "template", "spec"), False)


def replicated(name: str, replicas: int, **job: object) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": POD, **job}}}


def test_a_job_set_starts_whole_and_no_role_has_more_pods_than_completions() -> None:
    jobs = [replicated("driver", 1), replicated("worker", 2, parallelism=4, completions=3)]
    found = gang("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs, "network": {}, "suspend": True})
    assert minima(found) == (7, {"driver": (1, 1), "worker": (6, 6)})
    assert (found.schedulable, found.pod_owners, found.dependent_roles) == (False, ("Job.batch",), ())
    assert found.roles[1].template_path == ("spec", "replicatedJobs", 1, "template", "spec", "template")
    assert found.roles[1].labels["jobset.sigs.k8s.io/replicatedjob-name"] == "worker"


def test_jobs_of_a_job_set_that_start_later_are_not_waited_for() -> None:
    jobs = [replicated("a", 1), replicated("b", 1), replicated("c", 1)]
    spec = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    assert gang("jobset.x-k8s.io/v1alpha2", "JobSet", spec).dependent_roles == ("b", "c")
    jobs[2]["dependsOn"] = [{"name": "a", "status": "Complete"}]
    assert gang("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}).dependent_roles == ("c",)


def leader_worker_set(template: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"leaderWorkerTemplate": {"workerTemplate": VOLCANO, **template}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (leader_worker_set({"leaderTemplate": POD, "size": 4}, replicas=2), (8, {"leader": (2, 2), "worker": (6, 6)})),
        (leader_worker_set({"size": 4}, replicas=2), (8, {"worker": (8, 8)})),
        (leader_worker_set({"leaderTemplate": POD}), (1, {"leader": (1, 1), "worker": (0, 0)})),
    ],
)
def test_groups_of_a_leader_worker_set_start_together(spec: object, expected: object) -> None:
    found = gang("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    assert minima(found) == expected
    assert (found.pod_owners, found.dependent_roles) == (("StatefulSet.apps",), ())


def test_workers_that_are_made_after_their_leader_are_not_waited_for() -> None:
    spec = leader_worker_set({"leaderTemplate": POD, "size": 2}, startupPolicy="LeaderReady")
    assert gang("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec).dependent_roles == ("worker",)
    notes = {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}}
    spec = leader_worker_set({"leaderTemplate": POD, "size": 2})
    assert gang("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, **notes).dependent_roles == ("worker",)
