"""Pods that have ended well need no room, and their job does not wait for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.succeeded import without_succeeded_pods
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import GangSpec, SubgroupSpec, TopologySpec
from compiler.views.data import gang_entry
from tests.builders import cluster_objects
from tests.builders.repositories import FILES, JOB
from tests.builders.specs import document, gang, role, specs

API_VERSIONS = {
    "Job": "batch.volcano.sh/v1alpha1",
    "PyTorchJob": "kubeflow.org/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
}


def pod(name: str, task: str, phase: str = "Succeeded", kind: str = "Job", api_version: str = "", **more: Any) -> Any:
    owner = {"apiVersion": api_version or API_VERSIONS[kind], "kind": kind, "name": "a", "uid": "u", "controller": True}
    metadata = {"labels": {"volcano.sh/task-spec": task}, "ownerReferences": [owner], **more}
    return cluster_objects.pod(name, "n-0", requests={"cpu": "4"}, phase=phase, **metadata)


def shrunk(spec: GangSpec, *pods: Any) -> tuple[int, list[tuple[int, int]], Any]:
    (found,) = without_succeeded_pods(specs(gangs=(spec,)), ClusterState.from_objects(pods)).gangs
    return found.minimum, [(each.replicas, each.minimum) for each in found.roles], found.succeeded_pods


def test_a_job_is_whole_without_the_pods_that_are_done() -> None:
    job = gang("a", role("ps", 1), role("worker", 4, minimum=2))
    done = [pod("a-worker-0", "worker"), pod("a-worker-3", "worker"), pod("a-worker-1", "worker", "Running")]
    assert shrunk(job, *done) == (1, [(1, 1), (2, 0)], {"worker": 2})
    others = [
        pod("a-worker-0", "worker", "Failed"),
        pod("a-worker-1", "worker", deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    assert shrunk(job, *others) == (3, [(1, 1), (4, 2)], {}), "these come back"
    everything = [pod("a-ps-0", "ps"), *(pod(f"a-worker-{at}", "worker") for at in range(4))]
    assert shrunk(job, *everything) == (3, [(1, 1), (4, 2)], {}), "its own status says that it is over"


@pytest.mark.parametrize(
    ("kind", "api_version", "later", "replicas"),
    [
        ("Job", "batch/v1", 1, 1),
        ("Job", "batch/v1", 7, 2),
        ("Job", "batch/v1", 0, 0),
        ("PyTorchJob", "kubeflow.org/v1", 0, 0),
        ("JobSet", "jobset.x-k8s.io/v1alpha2", 0, 0),
        ("TrainJob", "trainer.kubeflow.org/v1alpha1", 0, 0),
        ("AscendJob", "mindxdl.gitee.com/v1", 0, 0),
        ("ElasticJob", "elastic.iml.github.io/v1alpha1", 0, 0),
        ("RayJob", "ray.io/v1", 0, 2),
    ],
)
def test_a_pod_that_its_controller_makes_again_is_still_asked_for(
    kind: str, api_version: str, later: int, replicas: int
) -> None:
    made = document(kind, "a", "team", api_version)
    roles = replace(role("worker", 2), later_pods=later), role("other", 1)
    done = [pod(f"a-{at}", "worker", kind=kind, api_version=api_version) for at in range(2)]
    assert shrunk(replace(gang("a", *roles), document=made), *done)[1][0][0] == replicas


def test_each_job_of_a_job_set_runs_its_later_pods_first() -> None:
    """Two Jobs of two pods at a time, of three: one is done, and the other has its last one to come."""
    made = document("JobSet", "a", "team", "jobset.x-k8s.io/v1alpha2")
    workers = replace(role("worker", 4), later_pods=1)
    job = replace(gang("a", workers, role("driver", 1)).with_controller(pod_owners=("Job.batch",)), document=made)
    marks = {"gangplan.dev/job": "JobSet.jobset.x-k8s.io/a", "gangplan.dev/role": "worker"}

    def done(child: str, number: int) -> Any:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": child, "uid": child, "controller": True}
        return pod(f"{child}-{number}", "worker", annotations=marks, ownerReferences=[owner])

    ended = [*(done("a-worker-0", number) for number in range(3)), done("a-worker-1", 0)]
    assert shrunk(job, *ended) == (3, [(2, 2), (1, 1)], {"worker": 2})


def test_subgroups_keep_their_size() -> None:
    parts = (SubgroupSpec("unit", ("worker",), 2, 2, TopologySpec("hard", 1), ()),)
    job = gang("a", role("worker", 4), subgroups=parts)
    assert shrunk(job, pod("a-worker-0", "worker")) == (4, [(4, 4)], {})


def test_the_room_of_a_pod_that_is_done_goes_to_another_job() -> None:
    cluster = FILES["cluster-specs/t/all.yaml"].replace(b"count: 4", b"count: 1").replace(b", topology", b"} #")
    jobs = {"jobs/a.yaml": JOB.replace("NAME", "a, namespace: team"), "jobs/b.yaml": JOB.replace("NAME", "b")}
    files = {
        path: text.replace("replicas: 2", f"replicas: {2 if 'team' in text else 1}").encode()
        for path, text in jobs.items()
    }
    state = [pod("a-worker-0", "worker", "Running"), pod("a-worker-1", "worker")]
    outcome = compile_repository(
        Repository({**files, "cluster-specs/t/all.yaml": cluster}), state=ClusterState.from_objects(state)
    )
    entries = {each["name"]: each for each in map(gang_entry, outcome.decisions)}
    assert (entries["a"]["decision"], entries["b"]["decision"]) == ("keep", "start")
    assert entries["a"]["pods"] == {"worker": {"n-0": 1}}
    assert entries["a"]["succeeded"] == {"worker": 1}
