"""Kubeflow's training jobs as gangs: roles, minima, queue and priority, and what their operators say of pods."""

from __future__ import annotations

import pytest

from tests.unit.compiler.kinds.operator_jobs import POD, emitted, gang, minima, read

POLICY = {"schedulingPolicy": {"queue": "ml", "priorityClass": "system-node-critical"}, "suspend": True}


@pytest.mark.parametrize(
    ("kind", "field", "roles"),
    [
        ("TFJob", "tfReplicaSpecs", ("PS", "Chief", "Worker")),
        ("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker")),
        ("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
        ("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
        ("JAXJob", "jaxReplicaSpecs", ("Worker",)),
        ("MXJob", "mxReplicaSpecs", ("Scheduler", "Server", "Worker")),
        ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker")),
    ],
)
def test_each_training_job_starts_whole(kind: str, field: str, roles: tuple[str, ...]) -> None:
    written = {name: {"replicas": 4 if name == "Worker" else None, "template": POD} for name in reversed(roles)}
    found = gang("kubeflow.org/v1", kind, {"runPolicy": POLICY, field: written})
    expected = {name: (4, 4) if name == "Worker" else (1, 1) for name in roles}
    assert minima(found) == (sum(count for count, _ in expected.values()), expected)
    assert tuple(role.name for role in found.roles) == roles
    assert (found.queue, found.priority_class, found.scheduling.schedulable) == ("ml", "system-node-critical", False)
    worker = found.roles[-1]
    assert worker.template_path == ("spec", field, "Worker", "template")
    assert worker.labels["training.kubeflow.org/replica-type"] == "worker"
    assert worker.labels["training.kubeflow.org/operator-name"] == f"{kind.lower()}-controller"


def test_fewer_pods_may_do() -> None:
    workers = {"replicas": 5, "template": POD}
    spec = {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}, "tfReplicaSpecs": {"Worker": workers}}
    assert minima(gang("kubeflow.org/v1", "TFJob", spec)) == (3, {"Worker": (0, 5)})


MPI = {"mpiReplicaSpecs": {"Launcher": {"template": POD}, "Worker": {"replicas": 2, "template": POD}}}
QUEUE = {"annotations": {"scheduling.volcano.sh/queue-name": "ml"}}


def test_the_mpi_operator_runs_the_launcher_through_a_job_and_knows_a_queue_by_annotation() -> None:
    found = gang("kubeflow.org/v2beta1", "MPIJob", {**MPI, "launcherCreationPolicy": "WaitForWorkersReady"}, **QUEUE)
    assert (found.queue, found.controller.dependent_roles) == ("ml", ("Launcher",))
    assert found.roles[1].labels["training.kubeflow.org/job-role"] == "worker"
    data = emitted(found)
    assert data["metadata"]["annotations"] == {
        **QUEUE["annotations"],
        "gangplan.dev/pod-owners": "Job.batch",
        "gangplan.dev/dependent-roles": "Launcher",
    }
    launcher = data["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    assert launcher["metadata"]["annotations"] == {
        **QUEUE["annotations"],
        "gangplan.dev/job": "MPIJob.kubeflow.org/x",
        "gangplan.dev/role": "Launcher",
    }
    assert launcher["spec"]["schedulingGates"] == [{"name": "gangplan.dev/placement"}]


def test_the_training_operator_knows_a_queue_by_its_policy_alone_and_labels_its_pods() -> None:
    found = gang("kubeflow.org/v1", "MPIJob", MPI, **QUEUE)
    assert found.queue == "default"
    assert "metadata" not in emitted(found)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]


def test_a_wrong_type_is_said_once_wherever_it_stands() -> None:
    wrong = {"runPolicy": {"cleanPodPolicy": 7}, "tfReplicaSpecs": {"Worker": {"replicas": "two", "template": POD}}}
    found = [each for each in read("kubeflow.org/v1", "TFJob", wrong).diagnostics if each.severity == "error"]
    assert [(error.code, error.message) for error in found] == [
        ("GP204", "spec.runPolicy.cleanPodPolicy is the number 7, not text"),
        ("GP204", "spec.tfReplicaSpecs.Worker.replicas is the text 'two', not a whole number"),
    ]


@pytest.mark.parametrize(("version", "code"), [("v1beta2", "GP212"), ("v2", "GP220"), ("v1beta9", "GP212")])
def test_a_version_that_the_operator_does_not_serve_is_an_error(version: str, code: str) -> None:
    found = {each.code for each in read(f"kubeflow.org/{version}", "TFJob", MPI).diagnostics}
    assert found & {"GP220", "GP212"} == {code}


@pytest.mark.parametrize(("roles", "cpu"), [(("Master", "Worker"), 50), (("Worker",), 0)])
def test_workers_of_a_pytorch_job_wait_for_the_master_in_a_container_that_asks_for_room(
    roles: tuple[str, ...], cpu: int
) -> None:
    found = gang("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {name: {"template": POD} for name in roles}})
    assert found.roles[-1].pod.requests.get("cpu", 0) == cpu
    assert "initContainers" not in emitted(found)["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
