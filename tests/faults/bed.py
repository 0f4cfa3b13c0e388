"""The cluster between two worlds."""

from __future__ import annotations

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import QUEUES_PATH, VOLCANO_JOBS_PATH, add_gpu_nodes, clean_cluster
from tests.faults.world import CONFIGMAPS_PATH, GPUS, LEASES_PATH, NODES, OWN_PATH, PODS_PATH


def add_nodes(plane: ControlPlane) -> None:
    add_gpu_nodes(plane, NODES, GPUS)


def clear(plane: ControlPlane, *, nodes: bool = False) -> None:
    """Take away what a world left; the nodes only if told, since they take seconds to become ready."""
    if nodes:
        clean_cluster(plane)
        return
    scheduler_path = "/api/v1/namespaces/volcano-system/configmaps"  # it bears our mark
    for path in (VOLCANO_JOBS_PATH, CONFIGMAPS_PATH, OWN_PATH, LEASES_PATH, scheduler_path):
        plane.api("DELETE", path)
    plane.wait_until(
        lambda: [*plane.api("GET", PODS_PATH)["items"], *plane.api("GET", VOLCANO_JOBS_PATH)["items"]],
        lambda seen: not seen,
        what="all pods and jobs to go",
    )
    for name in {each["metadata"]["name"] for each in plane.api("GET", QUEUES_PATH)["items"]} - {"root", "default"}:
        plane.wait_until(lambda name=name: plane.api("DELETE", f"{QUEUES_PATH}/{name}"), what=f"queue {name} to go")  # type: ignore[misc]
