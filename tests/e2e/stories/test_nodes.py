"""Nodes that are lost, and gangs that no node takes: gangplan moves what it must, and one gang's trouble is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import (
    ReconcilerProcess,
    begin,
    bound_pods,
    is_gated,
    job_pods,
    role,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e


def running_on(plane: ControlPlane, job: str) -> set[str]:
    """The nodes of a job's pods, if all of them run; else none."""
    pods = job_pods(plane, job)
    is_whole = pods and all(pod["status"].get("phase") == "Running" for pod in pods)
    return {pod["spec"]["nodeName"] for pod in pods} if is_whole else set()


def test_a_gang_leaves_a_lost_node_for_one_of_its_domain_and_is_never_given_the_lost_one(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """S8. Two supernodes of three nodes: the pods of the lost node go to the third one of their supernode."""
    topology = {"mode": "hard", "highestTierAllowed": 1}
    gang = volcano_job("gang", role("worker", 2, gpus=4), queue="team", networkTopology=topology)
    repository = begin(plane, tmp_path, 6, gang, supernode=3)
    with ReconcilerProcess(plane, repository, tmp_path / "one", "--node-timeout", "3"):
        before = plane.wait_until(lambda: running_on(plane, "gang"), what="the gang to run")
        lost = min(before)
        plane.fail_node(lost)
        after = plane.wait_until(
            lambda: running_on(plane, "gang"), lambda seen: len(seen) == 2 and lost not in seen, what="the gang to move"
        )
        assert before - {lost} < after, "the pod on the good node stayed"
        supernode = {0, 1, 2} if min(before) in ("gpu-0", "gpu-1", "gpu-2") else {3, 4, 5}
        assert after <= {f"gpu-{at}" for at in supernode}
        # The whole supernode but one is gone now: the gang moves as a whole.
        other = min(after)
        plane.fail_node(other)
        moved = plane.wait_until(
            lambda: running_on(plane, "gang"),
            lambda seen: len(seen) == 2 and other not in seen,
            what="the whole gang to move",
        )
        assert moved.isdisjoint({f"gpu-{at}" for at in supernode})
        events = plane.api("GET", "/api/v1/namespaces/default/events?fieldSelector=reason=NodeLost")["items"]
        assert {lost, other} <= {word for event in events for word in event["message"].split()}


def test_a_gang_that_no_node_takes_keeps_none_from_the_others_and_says_why(plane: ControlPlane, tmp_path: Path) -> None:
    """S7. The claim that the gang names does not exist; the other gangs need every node."""
    stuck = volcano_job("stuck", role("worker", 2, gpus=4), queue="team")
    stuck["spec"]["tasks"][0]["template"]["spec"]["volumes"] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    ]
    repository = begin(plane, tmp_path, 4, stuck)
    with ReconcilerProcess(plane, repository, tmp_path / "one", "--bind-timeout", "3") as reconciler:
        plane.wait_until(
            lambda: reconciler.gang_status("stuck"),
            lambda seen: any("nowhere" in reason for reason in seen.get("reasons", ())),
            what="the scheduler's message in the status",
        )
        for name in ("good-0", "good-1"):
            repository.write_file(f"jobs/{name}.yaml", volcano_job(name, role("worker", 2, gpus=4), queue="team"))
        repository.commit()
        for name in ("good-0", "good-1"):
            wait_for_phase(plane, name)
        assert all(is_gated(pod) for pod in job_pods(plane, "stuck"))
        assert sorted(node for name in ("good-0", "good-1") for node in bound_pods(plane, name)["worker"]) == [
            f"gpu-{at}" for at in range(4)
        ]
