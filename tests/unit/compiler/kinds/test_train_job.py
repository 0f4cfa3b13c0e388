"""TrainJobs and their runtimes as gangs: nodes, resources, queue, priority, and where the gate goes."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.reading import read_specs
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec
from tests.builders import declared, repositories
from tests.unit.compiler.kinds.operator_jobs import emitted, minima

PLAIN = {**declared.pod_spec(requests={"cpu": 1}), "schedulerName": "volcano"}
PLAIN["containers"][0]["name"] = "node"

TRAINER = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
EIGHT = {"limits": {"nvidia.com/gpu": 8}}


def replicated(name: str, *, trains: bool = False, **job: Any) -> dict[str, Any]:
    metadata = {"labels": TRAINER} if trains else {}
    return {"name": name, "template": {"metadata": metadata, "spec": {"template": {"spec": PLAIN}}}, **job}


def runtime(*jobs: dict[str, Any], **policy: Any) -> dict[str, Any]:
    notes = {"annotations": {"scheduling.volcano.sh/queue-name": "ml"}}
    spec = {"mlPolicy": policy, "template": {"metadata": notes, "spec": {"replicatedJobs": list(jobs)}}}
    spec["podGroupPolicy"] = {"volcano": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}
    return {**kind, "metadata": {"name": "torch"}, "spec": spec}


def read(runtime: dict[str, Any], **spec: Any) -> Specs:
    api = "trainer.kubeflow.org/v1alpha1"
    job = declared.declared("TrainJob", "x", {"runtimeRef": {"name": "torch"}, **spec}, api=api, namespace="ml")
    return read_specs(repositories.repository(job, runtime, declared.queue("ml"), declared.queue("b")))


def gang(runtime: dict[str, Any], **spec: Any) -> GangSpec:
    specs = read(runtime, **spec)
    assert [each.code for each in specs.diagnostics if each.severity == "error" and each.code != "GP340"] == []
    (found,) = specs.gangs
    return found


def test_a_train_job_has_the_nodes_that_it_says_with_what_each_asks_for() -> None:
    steps = (
        replicated("model-initializer"),
        replicated("node", trains=True, dependsOn=[{"name": "model-initializer", "status": "Complete"}]),
    )
    found = gang(runtime(*steps, numNodes=2, torch={}), trainer={"numNodes": 4, "resourcesPerNode": EIGHT})
    assert minima(found) == (5, {"model-initializer": (1, 1), "node": (4, 4)})
    assert [role.pod.requests.get("nvidia.com/gpu") for role in found.roles] == [None, 8]
    assert (found.queue, found.controller.dependent_roles) == ("ml", ("node",))
    assert found.topology is not None


def test_pods_that_run_after_others_are_those_of_jobs_whose_number_the_train_job_does_not_say() -> None:
    tests = replicated("test")
    tests["template"]["spec"] = {**tests["template"]["spec"], "parallelism": 2, "completions": 5}
    found = gang(runtime(tests, replicated("node", trains=True), numNodes=2))
    assert [(role.replicas, role.later_pods) for role in found.roles] == [(2, 3), (2, 0)]


def test_a_runtime_says_the_nodes_where_the_train_job_does_not_and_the_train_job_s_queue_goes_first() -> None:
    notes = {"scheduling.volcano.sh/queue-name": "b"}
    found = gang(runtime(replicated("node", trains=True), numNodes=2), annotations=notes)
    assert minima(found) == (2, {"node": (2, 2)})
    assert found.queue == "b"


def test_with_mpi_the_launcher_may_be_one_of_the_nodes() -> None:
    jobs = replicated("launcher", trains=True), replicated("node")
    with_it = runtime(*jobs, numNodes=1, mpi={"runLauncherAsNode": True})
    assert minima(gang(with_it, trainer={"numNodes": 4})) == (4, {"launcher": (1, 1), "node": (3, 3)})
    beside = runtime(*jobs, numNodes=1, mpi={})
    assert minima(gang(beside, trainer={"numNodes": 4})) == (5, {"launcher": (1, 1), "node": (4, 4)})


def test_the_gate_goes_into_an_override_beside_the_user_s() -> None:
    mine = {"targetJobs": [{"name": "node"}], "spec": {"serviceAccountName": "me"}}
    found = gang(runtime(replicated("node", trains=True)), podTemplateOverrides=[mine])
    data = emitted(found)
    marks = {"gangplan.dev/job": "TrainJob.trainer.kubeflow.org/x", "gangplan.dev/role": "node"}
    assert data["spec"]["podTemplateOverrides"] == [
        mine,
        {
            "targetJobs": [{"name": "node"}],
            "spec": {"schedulingGates": [{"name": "gangplan.dev/placement"}]},
            "metadata": {"annotations": marks},
        },
    ]
    assert data["metadata"]["annotations"]["gangplan.dev/pod-owners"] == "Job.batch,JobSet.jobset.x-k8s.io"


def test_a_train_job_without_its_runtime_is_said() -> None:
    specs = read({**runtime(), "metadata": {"name": "other"}}, trainer={"numNodes": 2, "resourcesPerNode": EIGHT})
    assert specs.gangs == ()
    (message,) = (each.message for each in specs.diagnostics if each.code == "GP220")
    assert message == "TrainJob ml/x asks for 16 nvidia.com/gpu and is not planned"


@pytest.mark.parametrize(
    ("name", "roles", "late"),
    [
        ("torch-distributed", {"node": (4, 4)}, ()),
        ("deepspeed-distributed", {"launcher": (1, 1), "node": (3, 3)}, ()),
        ("torch-distributed-with-cache", {"dataset-initializer": (1, 1), "node": (4, 4)}, ("node",)),
        (
            "torchtune-qwen2.5-1.5b",
            {"dataset-initializer": (1, 1), "model-initializer": (1, 1), "node": (4, 4)},
            ("node",),
        ),
    ],
)
def test_a_runtime_that_is_not_here_is_the_trainer_s_own(
    name: str, roles: dict[str, Any], late: tuple[str, ...]
) -> None:
    trainer = {"numNodes": 4, "resourcesPerNode": EIGHT}
    specs = read(runtime(), runtimeRef={"name": name}, trainer=trainer)
    (found,) = specs.gangs
    assert minima(found) == (sum(count for _, count in roles.values()), roles)
    assert (found.controller.dependent_roles, found.roles[-1].pod.requests["nvidia.com/gpu"]) == (late, 8)
    assert [each.code for each in specs.diagnostics if each.code in ("GP213", "GP220", "GP224")] == ["GP224"]
    assert emitted(found)["spec"]["podTemplateOverrides"][0]["spec"]["schedulingGates"]


def test_a_tuning_runtime_asks_for_two_devices_where_the_train_job_says_nothing() -> None:
    (found,) = read(runtime(), runtimeRef={"name": "torchtune-llama3.2-1b"}).gangs
    assert [role.pod.requests.get("nvidia.com/gpu") for role in found.roles] == [None, None, 2]


@pytest.mark.parametrize("ref", [{"name": "mine"}, {"name": "torch-distributed", "kind": "TrainingRuntime"}])
def test_an_unknown_runtime_leaves_the_train_job_unplanned(ref: dict[str, str]) -> None:
    specs = read(runtime(), runtimeRef=ref)
    assert (specs.gangs, [each.code for each in specs.diagnostics if each.code < "GP3"]) == ((), ["GP213"])


def test_what_a_train_job_writes_over_the_pods_of_its_runtime_counts() -> None:
    spec = {"nodeSelector": {"gpu": "h100"}, "tolerations": [{"key": "team", "operator": "Exists"}]}
    override = {"targetJobs": [{"name": "node"}], "metadata": {"labels": {"a": "b"}}, "spec": spec}
    steps = replicated("initializer"), replicated("node", trains=True)
    first, node = gang(runtime(*steps), podTemplateOverrides=[override]).roles
    assert (first.pod.node_selector, first.pod.tolerations) == ({}, ())
    assert (node.pod.node_selector, node.pod.tolerations[0].key, node.labels["a"]) == ({"gpu": "h100"}, "team", "b")


def test_a_train_job_with_patches_of_a_later_trainer_is_planned_and_not_bound() -> None:
    pod = {"template": {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "h100"}}}}}}
    jobs = {"template": {"spec": {"replicatedJobs": [{"name": "node", **pod}]}}}
    patches = [{"manager": "example.org/me", "trainingRuntimeSpec": jobs}]
    specs = read(runtime(replicated("node", trains=True)), runtimePatches=patches)
    (found,) = specs.gangs
    assert (found.scheduling.is_bound, found.roles[0].pod.node_selector) == (False, {"gpu": "h100"})
    assert [each.code for each in specs.diagnostics if each.code == "GP222"] == ["GP222"]
