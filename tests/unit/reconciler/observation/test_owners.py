"""Which pods are whose: by controller, by mark, by PodGroup."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest

from reconciler.cluster.objects import Object, ref_of
from reconciler.observation import owners
from reconciler.observation.owners import OwnershipMemory, _owners_of_pod, pods_by_job
from tests.builders.live import BATCH, live, live_pod, with_metadata

BORN, BEFORE, LATER = (f"2026-01-01T00:00:0{second}Z" for second in (5, 4, 9))
JOB = live(BATCH, "Job", "a")


def marked(api_version: str, kind: str, name: str, between: str) -> Object:
    """A job that says which kinds stand between it and its pods."""
    annotations = {"gangplan.dev/pod-owners": between}
    return live(api_version, kind, name, annotations=annotations, creationTimestamp=BORN)


def pod(name: str, owner: Object | None, mark: str = "", created: str = BORN) -> Object:
    """mark: the job that its template names."""
    return live_pod(name, owner, annotations={"gangplan.dev/job": mark}, creationTimestamp=created)


RAY_JOB, RAY_KEY = marked("ray.io/v1", "RayJob", "tune", "RayCluster.ray.io"), "RayJob.ray.io/default/tune"
RAY_CLUSTER = live("ray.io/v1", "RayCluster", "tune-abcde")
JOB_SET = live("jobset.x-k8s.io/v1alpha2", "JobSet", "x")
TRAIN = marked("trainer.kubeflow.org/v1alpha1", "TrainJob", "x", "Job.batch,JobSet.jobset.x-k8s.io")
TRAIN_MARK = "TrainJob.trainer.kubeflow.org/x"
CHILD = live(BATCH, "Job", "x-node-0", JOB_SET)


def by_key(*items: Object) -> dict[str, Object]:
    return {ref_of(item).key: item for item in items}


def test_a_pod_of_an_earlier_job_of_the_same_name_is_not_its_pod() -> None:
    mine, former = live_pod("p", JOB), live_pod("q", with_metadata(JOB, uid="old"))
    found, gone = pods_by_job([mine, former], by_key(JOB))
    assert (found, gone) == ({ref_of(JOB).key: [mine]}, {ref_of(JOB).key})


def test_pods_without_a_controller_are_their_pod_group_s_or_their_own() -> None:
    group = live("scheduling.volcano.sh/v1beta1", "PodGroup", "g")
    lone, member = (
        live_pod(name, annotations={"scheduling.k8s.io/group-name": group})
        for name, group in (("lone", "podgroup-of-volcano"), ("member", "g"))
    )
    other = live_pod("other", live("v1", "Node", "n1"))
    found, _ = pods_by_job([lone, member, other], by_key(group, lone, other))
    assert found == {ref_of(group).key: [member], ref_of(lone).key: [lone], ref_of(other).key: []}


@pytest.mark.parametrize(
    ("owner", "created", "mark", "is_its"),
    [
        (RAY_CLUSTER, LATER, "RayJob.ray.io/tune", True),
        (RAY_CLUSTER, BEFORE, "RayJob.ray.io/tune", False),
        (RAY_CLUSTER, LATER, "RayJob.ray.io/other", False),
        (live("apps/v1", "ReplicaSet", "copycat"), LATER, "RayJob.ray.io/tune", False),
        (None, LATER, "RayJob.ray.io/tune", False),
    ],
    ids=["its own", "of an earlier run", "of another job", "a copy of its template", "a bare copy"],
)
def test_a_mark_counts_below_an_owner_of_the_job(owner: Object | None, created: str, mark: str, is_its: bool) -> None:
    found, _ = pods_by_job([pod("p", owner, mark, created)], by_key(RAY_JOB))
    assert bool(found[RAY_KEY]) == is_its


def test_owners_that_are_watched_are_followed_by_their_uids_to_the_first_that_is_not() -> None:
    """JobSet -> Job -> Pod: the mark of a pod whose Job is another's proves nothing. TrainJob -> JobSet -> Job -> Pod:
    Jobs are watched, JobSets are not."""
    job_set = marked("jobset.x-k8s.io/v1alpha2", "JobSet", "x", "Job.batch")
    for owner, mark in ((job_set, "JobSet.jobset.x-k8s.io/x"), (TRAIN, TRAIN_MARK)):
        mine, stranger = pod("p", CHILD, mark if owner is TRAIN else ""), pod("q", JOB, mark)
        found, former = pods_by_job([mine, stranger], by_key(owner, CHILD, JOB))
        assert found == {ref_of(owner).key: [mine], ref_of(CHILD).key: [mine], ref_of(JOB).key: [stranger]}
        assert former == (set() if owner is job_set else {"JobSet.jobset.x-k8s.io/default/x"})


def test_jobs_that_come_and_go_one_by_one_are_remembered_as_they_are_seen_afresh() -> None:
    group = live("scheduling.volcano.sh/v1beta1", "PodGroup", "g")
    pods = [pod("p", CHILD, TRAIN_MARK), live_pod("member", annotations={"scheduling.k8s.io/group-name": "g"})]
    for order in permutations((TRAIN, JOB_SET, CHILD, group)):
        memory = OwnershipMemory()
        for jobs in (by_key(*order[:count]) for count in (0, 1, 2, 3, 4, 3, 1)):
            assert memory.pods_by_job(pods, jobs) == pods_by_job(pods, jobs)


def test_a_new_job_leaves_what_is_known_of_pods_that_were_not_looked_for_there() -> None:
    second, memory = live(BATCH, "Job", "b"), OwnershipMemory()
    pods = [live_pod("p", JOB), live_pod("q", second)]
    memory.pods_by_job(pods, by_key(JOB))
    known = dict(memory.known)
    memory.pods_by_job(pods, by_key(JOB, second))
    assert [memory.known[id(pod)] is known[id(pod)] for pod in pods] == [True, False]


def test_of_a_pod_whose_status_changes_the_owners_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event brings another object, and most tell of nothing but the status."""
    memory, looked_up = OwnershipMemory(), list[Any]()

    def look_up(pod: Object, jobs: Mapping[str, Object]) -> Any:
        looked_up.append(pod)
        return _owners_of_pod(pod, jobs)

    monkeypatch.setattr(owners, "_owners_of_pod", look_up)
    pod = live_pod("p", JOB)
    ready = {**with_metadata(pod, resourceVersion="9"), "status": {"phase": "Running"}}
    renewed_job, freed = {**JOB, "status": {"active": 1}}, with_metadata(ready, ownerReferences=[])
    steps = [(pod, JOB), (ready, JOB), (ready, renewed_job), (freed, renewed_job)]
    found = [memory.pods_by_job([pod], by_key(job))[0][ref_of(job).key] for pod, job in steps]
    assert found == [[pod], [ready], [ready], []]
    assert looked_up == [pod, freed]
    assert memory.pods_by_job([pod], by_key(JOB)) == pods_by_job([pod], by_key(JOB))
