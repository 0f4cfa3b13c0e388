"""Evictions on a real cluster: the plan names the victims, the reconciler evicts them and nobody else, and Volcano
binds the winner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders.declared import priority_class
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    EVICTING,
    SCHEDULER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    ReconcilerProcess,
    add_gpu_nodes,
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


def test_an_urgent_gang_takes_the_place_of_one_that_matters_less_and_of_no_more(
    plane: ControlPlane, tmp_path: Path
) -> None:
    add_gpu_nodes(plane, 2, gpus=8)
    repository = GitRepository(tmp_path / "repo")
    preempting = SCHEDULER.replace("[enqueue, allocate, backfill]", "[allocate, preempt, backfill]")
    classes = (priority_class("low", 10), priority_class("urgent", 1000))
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, preempting, node_pool("gpu", 2), queue("team"), *classes
    )
    for name in ("first", "second"):
        job = volcano_job(name, role("worker", 1, gpus=8), queue="team", priorityClassName="low")
        job["metadata"]["annotations"] = job["spec"]["tasks"][0]["template"]["metadata"]["annotations"] = {
            "volcano.sh/preemptable": "true"
        }
        repository.write_file(f"jobs/{name}.yaml", job)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        for name in ("first", "second"):
            plane.wait_until(
                lambda name=name: job_phase(plane, name),  # type: ignore[misc]
                lambda seen: seen == "Running",
                what=f"{name} to run",
            )
        repository.write_file(
            "jobs/urgent.yaml",
            volcano_job("urgent", role("worker", 1, gpus=8), queue="team", priorityClassName="urgent"),
        )
        repository.commit()
        wait_for_phase(plane, "urgent")

        def held_back() -> list[str]:
            return [
                name
                for name in ("first", "second")
                if job_pods(plane, name) and all(is_gated(pod) for pod in job_pods(plane, name))
            ]

        victims = plane.wait_until(held_back, lambda seen: len(seen) == 1, what="the victim to come back gated")
        (survivor,) = {"first", "second"} - set(victims)
        assert job_phase(plane, survivor) == "Running"
        assert plane.api("GET", f"{VOLCANO_JOBS_PATH}/{victims[0]}")["status"].get("retryCount", 0) == 0
        plane.wait_until(
            lambda: {gang["name"]: gang["decision"] for gang in reconciler.read_status()["gangs"]},
            lambda seen: seen == {"urgent": "keep", survivor: "keep", victims[0]: "wait"},
            what="the plan that follows",
        )


def running(plane: ControlPlane, job: str) -> set[str]:
    """The pods of the job that run, by uid."""
    return {pod["metadata"]["uid"] for pod in job_pods(plane, job) if pod["status"].get("phase") == "Running"}


def evicted(reconciler: ReconcilerProcess) -> list[str]:
    """Pods that were evicted so far, in order; a pod that comes back under its name and goes again is there twice."""
    return [line["object"] for line in reconciler.log_lines() if line["message"] == "evicted"]


def test_a_borrower_of_a_dedicated_supernode_leaves_it_to_its_owner_and_comes_back(
    plane: ControlPlane, tmp_path: Path
) -> None:
    add_gpu_nodes(plane, 4, gpus=8)
    repository = GitRepository(tmp_path / "repo")
    owner = queue("owner")
    owner["metadata"]["annotations"] = {"gangplan.dev/guaranteed-domains": "1 of tier 1"}
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, EVICTING, node_pool("gpu", 4, supernode=2), owner, queue("guests")
    )
    one_supernode = {"mode": "hard", "highestTierAllowed": 1}
    guests = ("first", "second")
    for name in guests:
        repository.write_file(
            f"jobs/{name}.yaml",
            volcano_job(name, role("worker", 2, gpus=8), queue="guests", networkTopology=one_supernode),
        )
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        for name in guests:
            plane.wait_until(
                lambda name=name: job_phase(plane, name),  # type: ignore[misc]
                lambda seen: seen == "Running",
                what=f"{name} to run",
            )
        before = {name: running(plane, name) for name in guests}
        repository.write_file(
            "jobs/own.yaml", volcano_job("own", role("worker", 2, gpus=8), queue="owner", networkTopology=one_supernode)
        )
        repository.commit()
        wait_for_phase(plane, "own")
        assert bound_pods(plane, "own") == planned_pods(plane, "own")
        (stays,) = (name for name in guests if running(plane, name) == before[name])
        (leaves,) = {*guests} - {stays}
        assert sorted(evicted(reconciler)) == [f"Pod default/{leaves}-worker-{at}" for at in range(2)]
        plane.wait_until(
            lambda: job_pods(plane, leaves),
            lambda seen: len(seen) == 2 and all(map(is_gated, seen)),
            what="who left to be back, gated",
        )
        end_pods(plane, "own")
        wait_for_phase(plane, leaves)
        assert job_phase(plane, "own") == "Completed"
        assert running(plane, stays) == before[stays]
        assert len(evicted(reconciler)) == 2


def test_an_elastic_gang_shrinks_for_an_urgent_one_and_grows_again(plane: ControlPlane, tmp_path: Path) -> None:
    add_gpu_nodes(plane, 4, gpus=8)
    repository = GitRepository(tmp_path / "repo")
    classes = (priority_class("low", 10), priority_class("urgent", 1000))
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, EVICTING, node_pool("gpu", 4), queue("team"), *classes
    )
    repository.write_file(
        "jobs/elastic.yaml",
        volcano_job("elastic", role("worker", 4, gpus=8), queue="team", minimum=1, priorityClassName="low"),
    )
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        grown = plane.wait_until(
            lambda: running(plane, "elastic"), lambda seen: len(seen) == 4, what="the elastic job to grow"
        )
        worker = role("worker", 2, gpus=8)
        repository.write_file(
            "jobs/urgent.yaml", volcano_job("urgent", worker, queue="team", priorityClassName="urgent")
        )
        repository.commit()
        wait_for_phase(plane, "urgent")
        assert bound_pods(plane, "urgent") == planned_pods(plane, "urgent")
        shrunk = running(plane, "elastic")
        assert len(shrunk) == 2
        assert shrunk < grown, "the others ran on all the while"
        assert job_phase(plane, "elastic") == "Running"
        assert len(evicted(reconciler)) == 2
        end_pods(plane, "urgent")
        plane.wait_until(
            lambda: running(plane, "elastic"), lambda seen: len(seen) == 4, what="the elastic job to grow again"
        )
        assert shrunk < running(plane, "elastic")
        assert job_phase(plane, "urgent") == "Completed"
        assert len(evicted(reconciler)) == 2


@contextmanager
def four_evictions_at_most(plane: ControlPlane, pod: str) -> Iterator[None]:
    """Evictions of all but four pods of a job are refused: so a kill falls between two of them, however fast they are.
    pod: one that is not among the four."""
    trial = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "default"},
        "deleteOptions": {"dryRun": ["All"]},
    }

    def evict() -> None:
        plane.api("POST", f"/api/v1/namespaces/default/pods/{pod}/eviction", trial)

    with only_where(plane, "request.name.matches('-worker-[0-3]$')", "CREATE", "pods/eviction", evict):
        yield


def test_a_kill_between_two_evictions_ends_with_one_victim_and_one_winner(plane: ControlPlane, tmp_path: Path) -> None:
    add_gpu_nodes(plane, 2, gpus=8)
    repository = GitRepository(tmp_path / "repo")
    classes = (priority_class("low", 10), priority_class("urgent", 1000))
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, EVICTING, node_pool("gpu", 2, gpus=8), queue("team"), *classes
    )
    low = ("first", "second")
    for name in low:
        repository.write_file(
            f"jobs/{name}.yaml", volcano_job(name, role("worker", 8, gpus=1), queue="team", priorityClassName="low")
        )
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        for name in low:
            plane.wait_until(
                lambda name=name: running(plane, name),  # type: ignore[misc]
                lambda seen: len(seen) == 8,
                what=f"{name} to run",
            )
        before = {name: running(plane, name) for name in low}

        def lost() -> dict[str, int]:
            return {name: len(before[name] - running(plane, name)) for name in low}

        with four_evictions_at_most(plane, "first-worker-7"):
            repository.write_file(
                "jobs/urgent.yaml",
                volcano_job("urgent", role("worker", 1, gpus=8), queue="team", priorityClassName="urgent"),
            )
            repository.commit()
            begun = plane.wait_until(lost, lambda seen: 4 in seen.values(), what="four evictions")
            reconciler.kill()
        assert sorted(begun.values()) == [0, 4]
        victim = max(low, key=lambda name: begun[name])
        assert job_phase(plane, "urgent") != "Running"
        reconciler.start()
        wait_for_phase(plane, "urgent")
        assert bound_pods(plane, "urgent") == planned_pods(plane, "urgent")
        (other,) = {*low} - {victim}
        assert running(plane, other) == before[other], "nobody is evicted in addition to the victim that was begun"
        back = plane.wait_until(
            lambda: job_pods(plane, victim),
            lambda seen: len(seen) == 8 and all(map(is_gated, seen)),
            what="the victim to be back, gated",
        )
        assert not before[victim] & {pod["metadata"]["uid"] for pod in back}
