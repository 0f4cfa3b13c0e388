"""Services of Kubernetes, bound or not; JobSets and LeaderWorkerSets."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.succeeded import with_present_pods
from compiler.specs.cluster_spec import Specs
from tests.unit.compiler.kinds.operator_jobs import POD, emitted, gang, minima, read

VOLCANO: dict[str, Any] = {"spec": {**POD["spec"], "schedulerName": "volcano"}}
QUEUE = {"scheduling.volcano.sh/queue-name": "ml"}
GANG = {"annotations": {"gangplan.dev/gang": "true"}}
MARK = {"gangplan.dev/job": "Deployment.apps/x", "gangplan.dev/role": "pods"}
PLAIN: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": "i"}]}}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_service_that_names_volcano_starts_pod_by_pod(kind: str) -> None:
    found = gang("apps/v1", kind, {"replicas": 4, "template": {**VOLCANO, "metadata": {"annotations": QUEUE}}})
    assert minima(found) == (1, {"pods": (0, 4)})
    assert (found.queue, found.controller.dependent_roles, found.scheduling.schedulable) == ("ml", ("pods",), True)
    assert found.document.position(*found.field_paths["queue"]).line == 1
    assert found.controller.pod_owners == (("ReplicaSet.apps",) if kind == "Deployment" else ())


def test_volcano_s_minimum_for_the_pod_group_of_a_service_counts() -> None:
    notes = {"annotations": {"scheduling.volcano.sh/group-min-member": "3", **QUEUE}}
    found = gang("apps/v1", "StatefulSet", {"replicas": 4, "template": VOLCANO}, **notes)
    assert (found.minimum, found.queue) == (3, "ml")


def test_claims_of_a_stateful_set_are_needs_that_the_plan_does_not_know() -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanted}]}
    for more, unplanned in ((claims, True), ({}, False)):
        (role,) = gang("apps/v1", "StatefulSet", {"replicas": 2, "template": VOLCANO, **more}).roles
        assert role.pod.has_unplanned_needs is unplanned


@pytest.mark.parametrize(
    ("kind", "spec", "late"),
    [("Deployment", {}, ()), ("StatefulSet", {"podManagementPolicy": "Parallel"}, ()), ("StatefulSet", {}, ("pods",))],
)
def test_a_service_is_a_gang_by_annotation(kind: str, spec: dict[str, Any], late: tuple[str, ...]) -> None:
    found = gang("apps/v1", kind, {"replicas": 4, "template": POD, **spec}, **GANG)
    assert minima(found) == (4, {"pods": (4, 4)})
    assert found.controller.dependent_roles == late


def test_pods_of_a_deployment_carry_the_mark_of_their_owner() -> None:
    data = emitted(gang("apps/v1", "Deployment", {"replicas": 4, "template": VOLCANO}))
    assert data["spec"]["template"]["metadata"]["annotations"] == MARK
    assert data["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "gangplan.dev/placement"}]
    assert data["metadata"]["annotations"] == {
        "gangplan.dev/pod-owners": "ReplicaSet.apps",
        "gangplan.dev/dependent-roles": "pods",
    }


def with_scheduler(template: dict[str, Any], name: str) -> dict[str, Any]:
    return {"spec": {**template["spec"], "schedulerName": name}}


@pytest.mark.parametrize("scheduler", ["", "default-scheduler"])
@pytest.mark.parametrize(("api_version", "kind"), [("apps/v1", "Deployment"), ("v1", "ReplicationController")])
def test_a_service_that_asks_for_devices_is_bound_and_volcano_is_its_scheduler(
    api_version: str, kind: str, scheduler: str
) -> None:
    template = with_scheduler(POD, scheduler) if scheduler else POD
    found = gang(api_version, kind, {"replicas": 2, "template": template})
    assert (found.scheduling.is_bound, found.scheduling.schedulable, found.queue, found.controller.written_pods) == (
        True,
        True,
        "default",
        {"pods": 2},
    )
    pod = emitted(found)["spec"]["template"]["spec"]
    assert (pod["schedulerName"], len(pod["schedulingGates"])) == ("volcano", 1)


@pytest.mark.parametrize(
    ("template", "services", "bound"),
    [
        (PLAIN, "devices", False),
        (PLAIN, "all", True),
        (PLAIN, "on-request", None),
        (POD, "on-request", None),
        (POD, "devices", True),
        (with_scheduler(PLAIN, "volcano"), "on-request", True),
        (with_scheduler(POD, "mine"), "devices", False),
        (with_scheduler(POD, "mine"), "all", False),
        ({**PLAIN, "metadata": {"annotations": QUEUE}}, "on-request", True),
        ({"spec": {**POD["spec"], "nodeName": "n"}}, "devices", False),
    ],
)
def test_the_cluster_says_which_services_are_bound(template: object, services: str, bound: bool | None) -> None:
    specs = read("apps/v1", "Deployment", {"replicas": 2, "template": template}, services)
    assert [gang.scheduling.is_bound for gang in specs.gangs] == ([] if bound is None else [bound])
    assert ("GP213" in codes_of(specs) or "GP220" in codes_of(specs)) == (bound is None)
    assert "GP337" not in codes_of(specs)
    assert len(specs.unplanned_pods) == (0 if bound else 1)


def codes_of(specs: Specs) -> list[str]:
    return [each.code for each in specs.diagnostics]


def test_a_service_that_is_not_bound_is_left_as_it_is() -> None:
    found = gang("apps/v1", "StatefulSet", {"replicas": 4, "template": PLAIN})
    assert (found.scheduling.is_bound, found.scheduling.schedulable, found.queue) == (False, False, "")
    data = emitted(found)
    assert "schedulingGates" not in data["spec"]["template"]["spec"]
    assert "annotations" not in data["metadata"]


def test_a_daemon_set_is_counted_on_each_node_and_never_bound() -> None:
    specs = read("apps/v1", "DaemonSet", {"template": VOLCANO}, annotations=QUEUE)
    (pods,) = specs.unplanned_pods
    assert (pods.on_each_node, pods.role, pods.queue) == (True, "pods", "ml")
    assert [gang.scheduling.is_bound for gang in specs.gangs] == [False]


def live(name: str, node: str = "") -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "annotations": {"gangplan.dev/job": "Deployment.apps/x", "gangplan.dev/role": "pods"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x-5d9c", "uid": "u"}],
    }
    spec = {**POD["spec"], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def test_pods_that_an_update_or_an_autoscaler_made_are_planned_too() -> None:
    specs = read("apps/v1", "Deployment", {"replicas": 1, "template": POD})
    pods = [live("x-1", node="n"), live("x-2"), live("x-3")]
    ending = {**live("x-4"), "metadata": {**live("x-4")["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    (found,) = with_present_pods(specs, ClusterState.from_objects([*pods, ending])).gangs
    assert ([role.replicas for role in found.roles], found.minimum, found.controller.written_pods) == (
        [3],
        1,
        {"pods": 1},
    )
    assert with_present_pods(specs, ClusterState.from_objects(pods[:1])).gangs == specs.gangs


def replicated(name: str, replicas: int, **job: object) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": POD, **job}}}


def test_a_job_set_starts_whole_and_no_role_has_more_pods_than_completions() -> None:
    jobs = [replicated("driver", 1), replicated("worker", 2, parallelism=4, completions=3)]
    found = gang("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs, "network": {}, "suspend": True})
    assert minima(found) == (7, {"driver": (1, 1), "worker": (6, 6)})
    assert (found.scheduling.schedulable, found.controller.pod_owners, found.controller.dependent_roles) == (
        False,
        ("Job.batch",),
        (),
    )
    assert found.roles[1].template_path == ("spec", "replicatedJobs", 1, "template", "spec", "template")
    assert found.roles[1].labels["jobset.sigs.k8s.io/replicatedjob-name"] == "worker"


def test_each_job_of_a_job_set_has_pods_that_run_after_others_up_to_its_completions() -> None:
    jobs = [replicated("driver", 1), replicated("worker", 2, parallelism=4, completions=6), replicated("one", 2)]
    found = gang("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})
    assert [(role.replicas, role.later_pods) for role in found.roles] == [(1, 0), (8, 2), (2, 0)]


def test_jobs_of_a_job_set_that_start_later_are_not_waited_for() -> None:
    jobs = [replicated("a", 1), replicated("b", 1), replicated("c", 1)]
    spec = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    assert gang("jobset.x-k8s.io/v1alpha2", "JobSet", spec).controller.dependent_roles == ("b", "c")
    jobs[2]["dependsOn"] = [{"name": "a", "status": "Complete"}]
    assert gang("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}).controller.dependent_roles == ("c",)


def leader_worker_set(template: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"leaderWorkerTemplate": {"workerTemplate": VOLCANO, **template}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (leader_worker_set({"leaderTemplate": POD, "size": 4}, replicas=2), (4, {"leader": (1, 2), "worker": (3, 6)})),
        (leader_worker_set({"size": 4}, replicas=2), (4, {"worker": (4, 8)})),
        (leader_worker_set({"leaderTemplate": POD}), (1, {"leader": (1, 1), "worker": (0, 0)})),
    ],
)
def test_a_leader_worker_set_starts_with_a_group(spec: object, expected: object) -> None:
    found = gang("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    assert minima(found) == expected
    assert (found.controller.pod_owners, found.controller.dependent_roles, found.controller.grows_in_units) == (
        ("StatefulSet.apps",),
        (),
        True,
    )


def test_groups_of_a_leader_worker_set_start_together_where_it_says_so() -> None:
    spec = leader_worker_set({"leaderTemplate": POD, "size": 4}, replicas=2)
    together = {"annotations": {"gangplan.dev/gang": "true"}}
    found = gang("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, **together)
    assert minima(found) == (8, {"leader": (2, 2), "worker": (6, 6)})
    assert not found.controller.grows_in_units


def test_workers_that_are_made_after_their_leader_are_not_waited_for() -> None:
    spec = leader_worker_set({"leaderTemplate": POD, "size": 2}, startupPolicy="LeaderReady")
    assert gang("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec).controller.dependent_roles == ("worker",)
    notes = {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}}
    spec = leader_worker_set({"leaderTemplate": POD, "size": 2})
    assert gang("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, **notes).controller.dependent_roles == (
        "worker",
    )
