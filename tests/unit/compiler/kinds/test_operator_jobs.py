"""Jobs of operators as gangs: what starts together, where queue and priority stand, what their pods are marked with."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.kinds.kind import kinds
from compiler.run_kinds import PLANNED_RUN_KINDS, PLANNED_SERVICE_KINDS
from compiler.specs.gang_spec import TopologySpec
from compiler.syntax.paths import value_at
from tests.unit.compiler.kinds.operator_jobs import POD, emitted, gang, minima, read

ML = {"scheduling.volcano.sh/queue-name": "ml"}
SERVICE_POD = {"spec": {**POD["spec"], "schedulerName": "volcano"}}
JOBS_PATH = ("replicatedJobs", 1, "template", "spec")
GATES = [{"name": "gangplan.dev/placement"}]
RAY_LABELS = {"volcano.sh/queue-name": "ml", "ray.io/priority-class-name": "system-node-critical"}


def ray_cluster(*groups: dict[str, Any], **fields: object) -> dict[str, Any]:
    workers = [
        {"groupName": f"g{at}", "template": POD, "rayStartParams": {}, **group} for at, group in enumerate(groups)
    ]
    return {"headGroupSpec": {"template": POD, "rayStartParams": {}}, "workerGroupSpecs": workers, **fields}


@pytest.mark.parametrize(
    ("kind", "field", "owners"),
    [
        ("RayCluster", "", ()),
        ("RayJob", "rayClusterSpec", ("RayCluster.ray.io",)),
        ("RayService", "rayClusterConfig", ("RayCluster.ray.io",)),
    ],
)
def test_ray_starts_head_and_workers_together(kind: str, field: str, owners: tuple[str, ...]) -> None:
    cluster = ray_cluster(
        {"replicas": 2, "numOfHosts": 2}, {"replicas": 1, "minReplicas": 3}, {"replicas": 9, "maxReplicas": 4}
    )
    upgrade = {"upgradeStrategy": {"type": "None"}} if kind == "RayService" else {}
    found = gang("ray.io/v1", kind, {field: cluster, **upgrade} if field else cluster, labels=RAY_LABELS)
    assert minima(found) == (12, {"headgroup": (1, 1), "g0": (4, 4), "g1": (3, 3), "g2": (4, 4)})
    assert (found.queue, found.priority_class) == ("ml", "system-node-critical")
    assert (found.scheduling.scheduler_name, found.controller.pod_owners) == ("volcano", owners)
    assert found.roles[1].labels["ray.io/group"] == "g0"
    data = emitted(found)
    template = (data["spec"][field] if field else data["spec"])["workerGroupSpecs"][1]["template"]
    assert template["metadata"]["annotations"] == {"gangplan.dev/job": f"{kind}.ray.io/x", "gangplan.dev/role": "g1"}
    assert template["spec"]["schedulingGates"] == GATES


def test_an_autoscaled_ray_cluster_starts_with_its_least_and_a_suspended_group_not_at_all() -> None:
    groups = {"replicas": 4, "minReplicas": 1, "maxReplicas": 8}, {"replicas": 4, "suspend": True}
    found = gang("ray.io/v1", "RayCluster", ray_cluster(*groups, enableInTreeAutoscaling=True))
    assert minima(found) == (2, {"headgroup": (1, 1), "g0": (1, 4), "g1": (0, 0)})
    assert found.controller.dependent_roles == ("g0",), "its pods come and go one by one"


def test_the_network_topology_of_a_ray_cluster_is_labels_of_its_own_or_of_a_worker_group() -> None:
    labels = {"volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier-allowed": "2"}
    groups = {"replicas": 2}, {"replicas": 3, "template": {"metadata": {"labels": labels}, **POD}}
    found = gang("ray.io/v1", "RayCluster", ray_cluster(*groups), labels=labels)
    assert (found.topology, found.subgroups) == (TopologySpec("hard", 2), ())
    of_group = gang("ray.io/v1", "RayCluster", ray_cluster(*groups))
    assert of_group.topology is None
    assert [(each.roles, each.size, each.topology) for each in of_group.subgroups] == [
        (("g1",), 3, TopologySpec("hard", 2))
    ]


def test_what_kuberay_adds_to_ray_pods_counts_in_their_requests() -> None:
    spec = ray_cluster({"replicas": 1})
    head, worker = gang("ray.io/v1", "RayCluster", spec).roles
    assert (head.pod.requests.get("cpu", 0), worker.pod.requests["cpu"], worker.pod.requests["memory"]) == (
        0,
        200,
        256 * 2**20,
    )
    scaled = gang("ray.io/v1", "RayCluster", {**spec, "enableInTreeAutoscaling": True}).roles[0]
    assert (scaled.pod.requests["cpu"], scaled.pod.requests["memory"]) == (500, 512 * 2**20)
    options = {"autoscalerOptions": {"resources": {"requests": {"cpu": "2"}}}, "enableInTreeAutoscaling": True}
    job = gang("ray.io/v1", "RayJob", {"rayClusterSpec": {**spec, **options}})
    assert job.roles[0].pod.requests["cpu"] == 2000
    assert "memory" not in job.roles[0].pod.requests
    beside = gang("ray.io/v1", "RayJob", {"rayClusterSpec": spec, "submissionMode": "SidecarMode"}).roles[0]
    assert (beside.pod.requests["cpu"], beside.pod.requests["memory"]) == (500, 200 * 2**20)
    template = emitted(job)["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    assert len(template["spec"]["containers"]) == 1, "it is the operator who adds the other"


def test_the_second_cluster_of_a_ray_service_is_planned_as_its_pods_appear() -> None:
    spec = {"rayClusterConfig": ray_cluster({"replicas": 2})}
    found = gang("ray.io/v1", "RayService", spec)
    assert minima(found) == (3, {"headgroup": (1, 1), "g0": (2, 2)})
    assert (found.controller.dependent_roles, found.controller.written_pods) == (
        ("headgroup", "g0"),
        {"headgroup": 1, "g0": 2},
    )
    said = [each.message for each in read("ray.io/v1", "RayService", spec).diagnostics if each.code == "GP223"]
    assert said == ["each change of rayClusterConfig brings up a second cluster next to this one, which needs room too"]
    in_place = {**spec, "upgradeStrategy": {"type": "None"}}
    assert gang("ray.io/v1", "RayService", in_place).controller.written_pods == {}
    assert "GP223" not in {each.code for each in read("ray.io/v1", "RayService", in_place).diagnostics}


def test_a_ray_job_on_a_cluster_that_is_there_runs_no_pods() -> None:
    specs = read("ray.io/v1", "RayJob", {"clusterSelector": {"ray.io/cluster": "shared"}, "entrypoint": "python a.py"})
    assert specs.gangs == ()
    assert [each.code for each in specs.diagnostics if each.severity != "info"] == ["GP355"]


def test_an_ascend_job_is_shaped_like_a_training_job() -> None:
    policy = {"schedulingPolicy": {"minAvailable": 3, "queue": "ml"}}
    replicas = {"Worker": {"replicas": 2, "template": POD}, "Master": {"replicas": 1, "template": POD}}
    spec = {"schedulerName": "volcano", "runPolicy": policy, "successPolicy": "AllWorkers", "replicaSpecs": replicas}
    found = gang("mindxdl.gitee.com/v1", "AscendJob", spec)
    assert minima(found) == (3, {"Master": (1, 1), "Worker": (2, 2)})
    assert (found.queue, found.scheduling.scheduler_name) == ("ml", "volcano")
    assert not gang("mindxdl.gitee.com/v1", "AscendJob", {**spec, "schedulerName": "other"}).scheduling.schedulable


def test_an_elastic_job_starts_whole_unless_it_says_otherwise() -> None:
    spec = {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": {"worker": {"replicas": 3, "template": POD}}}
    assert minima(gang("elastic.iml.github.io/v1alpha1", "ElasticJob", spec)) == (3, {"worker": (3, 3)})
    loose = {"annotations": {"gangplan.dev/gang": "false"}}
    assert minima(gang("elastic.iml.github.io/v1alpha1", "ElasticJob", spec, **loose)) == (1, {"worker": (0, 3)})
    spec["replicaSpecs"] = {"worker": {"template": POD}, "dlrover-master": {"template": POD}}
    assert gang("elastic.iml.github.io/v1alpha1", "ElasticJob", spec).controller.dependent_roles == ("worker",)


def test_a_model_serving_needs_one_group_and_grows_by_the_others() -> None:
    prefill = {"name": "prefill", "replicas": 2, "entryTemplate": POD, "workerReplicas": 3, "workerTemplate": POD}
    decode = {"name": "decode", "entryTemplate": POD, "workerReplicas": 0}
    template: dict[str, Any] = {"roles": [prefill, decode], "gangPolicy": {}}
    found = gang("workload.serving.volcano.sh/v1alpha1", "ModelServing", {"replicas": 2, "template": template})
    pods = {"prefill-entry": (2, 4), "decode-entry": (1, 2), "prefill-worker": (6, 12)}
    assert minima(found) == (9, pods)
    marks = emitted(found)["spec"]["template"]["roles"][0]["workerTemplate"]["metadata"]["annotations"]
    assert marks["gangplan.dev/role"] == "prefill-worker"
    del template["gangPolicy"]
    found = gang("workload.serving.volcano.sh/v1alpha1", "ModelServing", {"replicas": 2, "template": template})
    assert minima(found) == (1, {role: (0, replicas) for role, (_, replicas) in pods.items()})


def test_a_serving_group_starts_with_the_copies_of_its_gang_policy() -> None:
    prefill = {"name": "prefill", "replicas": 3, "entryTemplate": POD, "workerReplicas": 2, "workerTemplate": POD}
    decode = {"name": "decode", "replicas": 2, "entryTemplate": POD, "workerReplicas": 0}
    policy = {"minRoleReplicas": {"prefill": 1, "decode": 5}}
    spec = {"template": {"roles": [prefill, decode], "gangPolicy": policy}}
    found = gang("workload.serving.volcano.sh/v1alpha1", "ModelServing", spec)
    assert minima(found) == (5, {"prefill-entry": (1, 3), "decode-entry": (2, 2), "prefill-worker": (2, 6)})


def test_a_single_serving_group_has_its_topology() -> None:
    policy = {"groupPolicy": {"mode": "hard", "highestTierAllowed": 1}}
    roles = [{"name": "a", "entryTemplate": POD, "workerReplicas": 0}]
    spec = {"template": {"roles": roles, "networkTopology": policy}}
    found = gang("workload.serving.volcano.sh/v1alpha1", "ModelServing", spec)
    assert found.topology is not None
    assert found.topology.highest_tier == 1


def test_every_planned_kind_of_an_operator_is_known_to_run_once_or_to_serve() -> None:
    """The reconciler goes by these tables: what runs once is never made again after its end."""
    planned = {key for key, kind in kinds().items() if kind.is_foreign and not kind.name.endswith("TrainingRuntime")}
    planned -= {key for key in planned if kinds()[key].unbound_reason or key == "HyperJob.training.volcano.sh"}
    assert planned <= PLANNED_RUN_KINDS | PLANNED_SERVICE_KINDS
    assert not PLANNED_RUN_KINDS & PLANNED_SERVICE_KINDS
    assert kinds().keys() >= PLANNED_RUN_KINDS | PLANNED_SERVICE_KINDS


JOB_SET = [
    {"name": "driver", "replicas": 1, "template": {"spec": {"template": POD}}},
    {"name": "workers", "replicas": 2, "template": {"spec": {"template": POD}}},
]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "path"),
    [
        ("batch/v1", "Job", {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}, ("template",)),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": JOB_SET}, (*JOBS_PATH, "template")),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"workerTemplate": POD}},
            ("leaderWorkerTemplate", "workerTemplate"),
        ),
        ("apps/v1", "StatefulSet", {"replicas": 2, "serviceName": "x", "template": SERVICE_POD}, ("template",)),
    ],
)
def test_a_queue_that_the_object_names_stands_in_its_pod_templates_where_volcano_reads_it(
    api_version: str, kind: str, spec: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    found = gang(api_version, kind, spec, annotations=ML)
    assert value_at(emitted(found)["spec"], path)["metadata"]["annotations"].items() >= ML.items()
    unnamed = value_at(emitted(gang(api_version, kind, spec))["spec"], path).get("metadata", {}).get("annotations", {})
    assert not unnamed.keys() & ML.keys()


def test_a_queue_that_one_template_names_stands_in_the_others_but_in_none_that_has_its_own() -> None:
    own = {"scheduling.volcano.sh/queue-name": "own"}
    jobs = [
        {"name": name, "template": {"spec": {"template": {**POD, "metadata": {"annotations": notes}}}}}
        for name, notes in (("a", {}), ("b", ML), ("c", own))
    ]
    data = emitted(gang("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}))
    templates = [value_at(job, ("template", "spec", "template")) for job in data["spec"]["replicatedJobs"]]
    names = [each["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] for each in templates]
    assert names == ["ml", "ml", "own"]
