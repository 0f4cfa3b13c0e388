"""Jobs of other operators than Volcano's: each operator is the real one, and every pod runs on its planned node.

One reconciler serves all stories. A story commits one job, which is alone in the cluster, and takes it away again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from compiler.kubernetes import KUBEFLOW_ROLE_LABEL, PLACEMENT_ANNOTATION, ROLE_MARK
from reconciler.cluster.rights import plural_of
from tests.controlplane import ControlPlane
from tests.controlplane.operators import Operators
from tests.e2e.stories.operator_jobs import operator_job, training_runtime
from tests.e2e.stories.story import (
    CLUSTER,
    SCHEDULER,
    GitRepository,
    Object,
    ReconcilerProcess,
    add_gpu_nodes,
    node_pool,
    queue,
)

pytestmark = pytest.mark.e2e
PODS = "/api/v1/namespaces/default/pods"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
STATUS = "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-status"
Placement = dict[str, dict[str, int]]


class House:
    """A cluster with all operators, and a reconciler that follows a repository."""

    def __init__(self, plane: ControlPlane, repository: GitRepository) -> None:
        self.plane, self.repository = plane, repository

    def commit(self, job: Object) -> None:
        self.repository.write_file("jobs/job.yaml", job)
        self.repository.commit()

    def withdraw(self, job: Object) -> None:
        """Take the job out of the repository, and wait until nothing is left of it."""
        self.repository.remove_file("jobs/job.yaml")
        commit = self.repository.commit()
        # More jobs than may go within one hour go here.
        self.plane.api("PATCH", STATUS, {"metadata": {"annotations": {"gangplan.dev/allow-prune": commit}}})
        self.plane.wait_until(self.pods, lambda seen: not seen, what=f"the pods of {job['kind']} to go")

    def pods(self) -> list[Object]:
        found: list[Object] = self.plane.api("GET", PODS)["items"]
        return found

    def planned(self, job: Object) -> Placement:
        """Role -> node -> pods, as the plan says on the job; nothing while it waits for a pod to end."""
        found = self.plane.api("GET", _path(job))
        placement: Placement = json.loads(found["metadata"]["annotations"].get(PLACEMENT_ANNOTATION, "{}"))
        return placement

    def running(self) -> Placement:
        """Role -> node -> pods that run."""
        found: dict[str, Counter[str]] = {}
        for pod in self.pods():
            if pod["status"].get("phase") == "Running":
                found.setdefault(_role(pod), Counter())[pod["spec"]["nodeName"]] += 1
        return {role: dict(nodes) for role, nodes in found.items()}

    def replace_pod(self, job: Object) -> None:
        """Delete one pod that runs, as a lost node does, and wait until it is gone."""
        victim = [pod for pod in self.pods() if pod["status"].get("phase") == "Running"][-1]["metadata"]
        self.plane.api("DELETE", f"{PODS}/{victim['name']}?gracePeriodSeconds=0")
        self.plane.wait_until(
            lambda: {pod["metadata"]["uid"] for pod in self.pods()},
            lambda seen: victim["uid"] not in seen,
            what=f"a pod of {job['kind']} to go",
        )

    def queues(self) -> set[str]:
        """The queues in which Volcano has the pods."""
        return {group["spec"]["queue"] for group in self.plane.api("GET", POD_GROUPS)["items"]}

    def wait_until_as_planned(self, job: Object, pods: dict[str, int]) -> None:
        """Return when so many pods of each role run, each on a node that the plan gives to its role."""

        def seen() -> tuple[Placement, Placement]:
            return self.planned(job), self.running()

        def as_planned(found: tuple[Placement, Placement]) -> bool:
            planned, running = found
            folded = {role.lower(): nodes for role, nodes in planned.items()}  # as Kubeflow's labels name roles
            is_whole = {role: sum(nodes.values()) for role, nodes in running.items()} == pods
            return is_whole and folded == {role.lower(): nodes for role, nodes in running.items()}

        self.plane.wait_until(seen, as_planned, what=f"the pods of {job['kind']} on their nodes")


def _path(job: Object) -> str:
    return f"/apis/{job['apiVersion']}/namespaces/default/{plural_of(job['kind'])}/{job['metadata']['name']}"


def _role(pod: Object) -> str:
    annotations, labels = pod["metadata"].get("annotations", {}), pod["metadata"]["labels"]
    return str(annotations.get(ROLE_MARK) or labels.get(KUBEFLOW_ROLE_LABEL) or "pods")


@pytest.fixture(scope="module")
def house(installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Nothing is taken away again: the cluster ends with these stories, the last of their folder."""
    folder = tmp_path_factory.mktemp("operators")
    add_gpu_nodes(installed, 4, gpus=2)
    repository = GitRepository(folder / "repo")
    cluster = (CLUSTER, SCHEDULER, node_pool("gpu", 4, gpus=2), queue("team"))
    repository.write_file("cluster-specs/test/cluster.yaml", *cluster, training_runtime())
    repository.commit()
    Operators(installed).start()
    installed.api("POST", RUNTIMES, training_runtime())
    with ReconcilerProcess(installed, repository, folder / "reconciler"):
        yield House(installed, repository)


JOBS = {
    "Kubernetes": ("Job", {"pods": 5}),
    "training-operator, PyTorchJob": ("PyTorchJob", {"master": 1, "worker": 3}),
    "training-operator, TFJob": ("TFJob", {"ps": 2, "chief": 1, "worker": 2}),
    "jobset": ("JobSet", {"driver": 1, "workers": 4}),
    "kuberay, RayCluster": ("RayCluster", {"headgroup": 1, "big": 2, "small": 3}),
    "kuberay, RayJob": ("RayJob", {"headgroup": 1, "big": 2, "small": 3}),
    "kuberay, RayService": ("RayService", {"headgroup": 1, "big": 2, "small": 3}),
    "trainer": ("TrainJob", {"node": 3}),
    "lws": ("LeaderWorkerSet", {"leader": 2, "worker": 4}),
    "mpi-operator": ("MPIJob", {"Launcher": 1, "Worker": 4}),
}

ENDS_WITH_A_POD = {"training-operator, TFJob"}
"""Where the operator now and then takes a pod that goes for one that failed, and then ends the job."""


@pytest.mark.parametrize("operator", JOBS)
def test_the_pods_of_an_operator_s_job_run_on_their_planned_nodes_and_come_back_there(
    house: House, operator: str
) -> None:
    kind, pods = JOBS[operator]
    job = operator_job(kind)
    house.commit(job)
    house.wait_until_as_planned(job, pods)
    assert house.queues() == {"team"}
    if operator not in ENDS_WITH_A_POD:
        house.replace_pod(job)
        house.wait_until_as_planned(job, pods)
    house.withdraw(job)
