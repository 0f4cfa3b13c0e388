"""The cluster between two worlds."""

from __future__ import annotations

from compiler.kubernetes import MANAGED_BY_LABEL
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import VOLCANO_JOBS_PATH, clean_cluster, delete_queues
from tests.faults.nodes import BUDGETS_PATH, NAMES
from tests.faults.witness import PODS_PATH
from tests.faults.world import CONFIGMAPS_PATH, LEASES_PATH, OWN_PATH


def add_nodes(plane: ControlPlane) -> None:
    plane.add_nodes(NAMES)


def clear(plane: ControlPlane, *, nodes: bool = False) -> None:
    """Take away what a world left; the nodes only if told, since they take seconds to become ready."""
    if nodes:
        clean_cluster(plane)
        return
    marked = (  # with our mark
        "/api/v1/namespaces/volcano-system/configmaps",
        "/apis/topology.volcano.sh/v1alpha1/hypernodes",
        f"/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector={MANAGED_BY_LABEL}%3Dgangplan",
    )
    for path in (VOLCANO_JOBS_PATH, CONFIGMAPS_PATH, OWN_PATH, LEASES_PATH, BUDGETS_PATH, *marked):
        plane.api("DELETE", path)
    plane.wait_until(
        lambda: [*plane.api("GET", PODS_PATH)["items"], *plane.api("GET", VOLCANO_JOBS_PATH)["items"]],
        lambda seen: not seen,
        what="all pods and jobs to go",
    )
    plane.wait_until(lambda: delete_queues(plane), lambda left: not left, what="all queues to go")
