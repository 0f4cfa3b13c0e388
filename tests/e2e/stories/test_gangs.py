"""Gangs from a commit to Running pods: real API server, real rights, real admission, and Volcano binds every pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    PLACEMENT_GATE,
    SCHEDULER,
    TEST_USER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    Object,
    ReconcilerProcess,
    add_gpu_nodes,
    begin,
    bound_pods,
    end_pods,
    is_gated,
    job_phase,
    job_pods,
    node_pool,
    only_where,
    planned_pods,
    queue,
    role,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e


def as_planned(plane: ControlPlane, job: str) -> None:
    assert bound_pods(plane, job) == planned_pods(plane, job)


def test_a_tensorflow_job_runs_with_every_pod_on_its_planned_node(plane: ControlPlane, tmp_path: Path) -> None:
    add_gpu_nodes(plane, 4, gpus=8)
    repository = GitRepository(tmp_path / "repo")
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 4), queue("ads", gpus=32)
    )
    tensorflow = volcano_job(
        "tensorflow",
        role("ps", 1),
        role("worker", 2, cpu="2", policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
        queue="ads",
        plugins={"env": [], "svc": []},
        policies=[{"event": "PodEvicted", "action": "RestartJob"}],
    )
    tensorflow["metadata"]["labels"] = {"volcano.sh/job-type": "Tensorflow"}
    repository.write_file("jobs/ads/tensorflow.yaml", tensorflow)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        wait_for_phase(plane, "tensorflow")
        as_planned(plane, "tensorflow")
        assert len(job_pods(plane, "tensorflow")) == 3


def test_of_two_jobs_of_four_workers_on_four_gpus_the_second_runs_after_the_first(
    plane: ControlPlane, tmp_path: Path
) -> None:
    repository = begin(plane, tmp_path, 2, gpus=2)
    for name in ("alpha", "beta"):
        repository.write_file(f"jobs/{name}.yaml", volcano_job(name, role("worker", 4, gpus=1), queue="team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        wait_for_phase(plane, "alpha")
        waiting = plane.wait_until(
            lambda: plane.api("GET", f"{VOLCANO_JOBS_PATH}/beta")["metadata"]["annotations"],
            lambda seen: "gangplan.dev/waiting" in seen,
            what="the reason why the second job waits",
        )
        assert PLACEMENT_GATE not in waiting
        assert waiting["gangplan.dev/waiting"].startswith("GW")
        assert all(is_gated(pod) for pod in job_pods(plane, "beta")), (
            "not one pod of the second may start before the first is over"
        )
        decision = next(gang for gang in reconciler.read_status()["gangs"] if gang["name"] == "beta")
        assert decision["decision"] == "wait"
        assert job_phase(plane, "beta") == "Pending"
        for name in ("alpha", "beta"):
            plane.wait_until(
                lambda name=name: job_phase(plane, name),  # type: ignore[misc]
                lambda seen: seen == "Running",
                what=f"{name} to run",
            )
            if name == "beta":
                told = plane.wait_until(
                    lambda: reconciler.read_status()["history"]["Job default/beta"],
                    lambda seen: seen[-1]["decision"] in ("start", "keep"),
                    what="since when beta does not wait any more",
                )
                assert (told[0]["decision"], told[0]["codes"][0][:2]) == ("wait", "GW")
            end_pods(plane, name)
            plane.wait_until(
                lambda name=name: job_phase(plane, name),  # type: ignore[misc]
                lambda seen: seen == "Completed",
                what=f"the end of {name}",
            )
        plane.wait_until(
            lambda: reconciler.read_status()["finished"], lambda seen: len(seen) == 2, what="both ends in the status"
        )


def test_five_jobs_of_which_fewer_than_two_fit_all_finish(plane: ControlPlane, tmp_path: Path) -> None:
    repository = begin(plane, tmp_path, 3, gpus=2)
    names = [f"train-{at}" for at in range(5)]
    for name in names:
        worker = role("worker", 4, gpus=1, run_for="1s", policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
        repository.write_file(
            f"jobs/{name}.yaml", volcano_job(name, role("ps", 2), worker, queue="team", plugins={"env": [], "svc": []})
        )
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        seen_together = 0

        def phases() -> dict[str, str]:
            nonlocal seen_together
            running = "labelSelector=volcano.sh%2Ftask-spec%3Dworker&fieldSelector=status.phase%3DRunning"
            pods = plane.api("GET", f"/api/v1/namespaces/default/pods?{running}")["items"]
            workers = Counter(pod["metadata"]["labels"]["volcano.sh/job-name"] for pod in pods)
            seen_together = max(seen_together, sum(number == 4 for number in workers.values()))
            jobs = plane.api("GET", VOLCANO_JOBS_PATH)["items"]
            return {job["metadata"]["name"]: job.get("status", {}).get("state", {}).get("phase", "") for job in jobs}

        plane.wait_until(
            phases,
            lambda seen: seen == dict.fromkeys(names, "Completed"),
            what="the end of all five",
            pause=0.2,  # the workers of a job run for a second
        )
        assert seen_together <= 1, "six GPUs hold one job of four workers at a time, until some of them are done"


def test_a_hard_topology_gang_stays_in_one_supernode_where_a_greedy_packer_would_split_it(
    plane: ControlPlane, tmp_path: Path
) -> None:
    nodes = add_gpu_nodes(plane, 6, gpus=8)
    occupant = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    for node in (
        nodes[0],
        nodes[5],
    ):  # one free node is left in the first and in the last supernode, and first-fit takes gpu-1 and gpu-2
        foreign = {"metadata": {"name": f"foreign-{node}"}, "spec": {"nodeName": node, "containers": [occupant]}}
        plane.api("POST", "/api/v1/namespaces/default/pods", foreign)
    repository = GitRepository(tmp_path / "repo")
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 6, supernode=2), queue("team")
    )
    topology = {"mode": "hard", "highestTierAllowed": 1}
    repository.write_file(
        "jobs/llm.yaml", volcano_job("llm", role("worker", 2, gpus=8), queue="team", networkTopology=topology)
    )
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        wait_for_phase(plane, "llm")
        as_planned(plane, "llm")
        assert bound_pods(plane, "llm") == {"worker": {"gpu-2": 1, "gpu-3": 1}}


PODS_PATH = "/api/v1/namespaces/default/pods"


@contextmanager
def four_gates_at_most(plane: ControlPlane) -> Iterator[None]:
    """gangplan's changes of all but four pods of a job are refused: so a kill falls between two gates, however fast
    they are lifted."""
    probe: Object = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    probe["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    plane.api("POST", PODS_PATH, probe)
    allowed = f"request.userInfo.username != '{TEST_USER}' || request.name.matches('-worker-[0-3]$')"

    def change() -> None:
        plane.api("PATCH", f"{PODS_PATH}/probe?dryRun=All", {"metadata": {}}, user=TEST_USER)

    with only_where(plane, allowed, "UPDATE", "pods", change):
        yield
    plane.api("DELETE", f"{PODS_PATH}/probe?gracePeriodSeconds=0")


def test_a_kill_between_two_gates_loses_no_pod_and_doubles_none(plane: ControlPlane, tmp_path: Path) -> None:
    repository = begin(plane, tmp_path, 3, volcano_job("big", role("worker", 24, gpus=1), queue="team"), gpus=8)

    def lifted() -> Object:
        pods = job_pods(plane, "big")
        return {pod["metadata"]["uid"]: pod["spec"]["nodeSelector"] for pod in pods if not is_gated(pod)}

    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        with four_gates_at_most(plane):
            early = plane.wait_until(lifted, lambda seen: len(seen) == 4, what="four gates to be lifted")
            reconciler.kill()
        reconciler.start()
        plane.wait_until(
            lambda: bound_pods(plane, "big"),
            lambda seen: "nowhere" not in seen.get("worker", {"nowhere": 1}),
            what="all pods bound",
        )
        as_planned(plane, "big")
        late = lifted()
        assert len(late) == len(job_pods(plane, "big")) == 24
        assert early.items() <= late.items(), "what was placed before the kill is where it was"


def test_an_evicted_pod_comes_back_gated_and_takes_the_place_that_became_free(
    plane: ControlPlane, tmp_path: Path
) -> None:
    repository = begin(plane, tmp_path, 2, volcano_job("steady", role("worker", 6, gpus=1), queue="team"))
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        wait_for_phase(plane, "steady")
        victim = job_pods(plane, "steady")[2]
        meta = victim["metadata"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": "default"},
        }
        plane.api("POST", f"/api/v1/namespaces/default/pods/{meta['name']}/eviction", eviction)

        def whole() -> bool:
            found = job_pods(plane, "steady")
            fresh = meta["uid"] not in {pod["metadata"]["uid"] for pod in found}
            return fresh and len(found) == 6 and all(pod["status"].get("phase") == "Running" for pod in found)

        plane.wait_until(whole, what="the pod to come back")
        as_planned(plane, "steady")


def test_a_pod_that_the_scheduler_cannot_bind_is_evicted_and_planned_elsewhere(
    plane: ControlPlane, tmp_path: Path
) -> None:
    repository = begin(plane, tmp_path, 2)
    job = volcano_job("shy", role("worker", 1, gpus=1), queue="team")
    # Where a volume can be attached is the scheduler's business, of which the plan knows nothing.
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    disk = {"capacity": size, "accessModes": modes, "hostPath": {"path": "/disk"}}
    plane.api("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "disk"}, "spec": disk})
    claim = {"volumeName": "disk", "accessModes": modes, "resources": {"requests": size}, "storageClassName": ""}
    is_bound = {"pv.kubernetes.io/bind-completed": "yes"}
    plane.api(
        "POST",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {"metadata": {"name": "disk", "annotations": is_bound}, "spec": claim},
    )
    volume = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
    job["spec"]["tasks"][0]["template"]["spec"]["volumes"] = [volume]
    repository.write_file("jobs/shy.yaml", job)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one", "--bind-timeout", "4"):
        first = plane.wait_until(lambda: planned_pods(plane, "shy"), what="a placement")["worker"]
        assert list(first.values()) == [1]
        wait_for_phase(plane, "shy")
    plane.api("DELETE", f"{VOLCANO_JOBS_PATH}/shy")
    plane.wait_until(lambda: job_pods(plane, "shy"), lambda seen: not seen, what="the pods to go")
    (node,) = first
    elsewhere = [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": elsewhere}]}}
    plane.api("PATCH", "/api/v1/persistentvolumes/disk", {"spec": {"nodeAffinity": affinity}})
    with ReconcilerProcess(plane, repository, tmp_path / "one", "--bind-timeout", "4"):
        wait_for_phase(plane, "shy")
        assert list(bound_pods(plane, "shy")["worker"]) != [node]
        events = plane.api("GET", "/api/v1/namespaces/default/events?fieldSelector=reason=NotBound")["items"]
        assert any(node in event["message"] for event in events)


def test_sigterm_gives_the_lease_away_and_another_replica_goes_on_at_once(plane: ControlPlane, tmp_path: Path) -> None:
    repository = begin(plane, tmp_path, 1)
    with (
        ReconcilerProcess(plane, repository, tmp_path / "one") as one,
        ReconcilerProcess(plane, repository, tmp_path / "two") as two,
    ):
        lease = "/apis/coordination.k8s.io/v1/namespaces/gangplan-system/leases/gangplan-test"
        holder = plane.wait_until(lambda: plane.api("GET", lease)["spec"]["holderIdentity"], what="a holder")
        plane.wait_until(lambda: one.read_status()["commit"], what="a status")
        first, second = (
            (one, two) if (one.folder / "data" / "identity").read_text().strip('"') == holder else (two, one)
        )
        assert not [line for line in second.log_lines() if line["message"] == "change"], (
            "the one that stands by writes nothing"
        )
        assert first.send_signal(15) == 0
        assert plane.api("GET", lease)["spec"]["holderIdentity"] != holder, "the lease was given away, not left to end"
        plane.wait_until(
            lambda: plane.api("GET", lease)["spec"]["holderIdentity"],
            lambda seen: seen not in ("", holder),
            what="a new holder",
        )
        repository.write_file("jobs/late.yaml", volcano_job("late", role("worker", 2, gpus=1), queue="team"))
        repository.commit()
        wait_for_phase(plane, "late")
