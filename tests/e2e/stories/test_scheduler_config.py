"""The scheduler's configuration: one that it does not take gives its place to the former one, and that is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import CLUSTER, SCHEDULER, GitRepository, ReconcilerProcess, node_pool

pytestmark = pytest.mark.e2e

NAMESPACE, NAME = "volcano-system", "volcano-scheduler-configmap"


@pytest.fixture
def older_plane(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster whose scheduler does not know the action shuffle, as one of an older release."""
    plane.stop_following()
    plane.follow_scheduler_configmap(NAMESPACE, NAME, shuffle="unheard-of")
    yield plane
    plane.stop_following()
    plane.follow_scheduler_configmap(NAMESPACE, NAME)


def standing_text(plane: ControlPlane) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
    return str(plane.api("GET", path)["data"]["volcano-scheduler.conf"])


def test_a_configuration_that_the_scheduler_does_not_take_gives_way_to_the_former_one(
    older_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, repository = older_plane, GitRepository(tmp_path / "repo")

    def commit(scheduler: str) -> str:
        repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, scheduler, node_pool("gpu", 1))
        return repository.commit()

    commit(SCHEDULER)
    options = ("--scheduler-metrics", plane.scheduler_metrics, "--scheduler-timeout", "15")
    with ReconcilerProcess(plane, repository, tmp_path / "reconciler", *options) as reconciler:
        former = plane.wait_until(lambda: standing_text(plane), what="the first configuration")
        commit(SCHEDULER.replace("backfill]", "backfill, shuffle]"))
        plane.wait_until(lambda: standing_text(plane), lambda text: text != former, what="the second one")
        behind = plane.wait_until(
            lambda: reconciler.condition("SchedulerBehind"),
            lambda seen: seen["reason"] == "NotTaken",
            what="the scheduler seen not to take it",
        )
        assert behind["status"] == "True"
        assert "it does not go through action shuffle" in behind["message"]
        plane.wait_until(lambda: standing_text(plane), lambda text: text == former, what="the former one")
        mended = commit(SCHEDULER.replace("- {name: nodeorder}", "- {name: nodeorder, enableNodeOrder: true}"))
        plane.wait_until(reconciler.read_status, lambda seen: seen["commit"] == mended, what="the mended commit")
        plane.wait_until(
            lambda: reconciler.condition("SchedulerBehind"),
            lambda seen: (seen["status"], seen["reason"]) == ("False", "None"),
            what="a scheduler that goes by its configuration",
        )
        assert standing_text(plane) != former
