"""Nodes that go and come back, and a budget that forbids every eviction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.controlplane import ControlPlane

NODES, GPUS = 4, 8
"""GPUs of each node; so many has a node of the control plane that is told nothing."""
NAMES = tuple(f"gpu-{at}" for at in range(NODES))
DOMAIN = 2
"""Nodes of a supernode."""
BUDGETS_PATH = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
WAYS = ("lost", "cordoned", "deleted")
"""In which a node goes."""


def take_out(plane: ControlPlane, node: str, way: str) -> None:
    if way == "lost":
        plane.fail_node(node)
    elif way == "cordoned":
        plane.api("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    else:
        plane.remove_node(node)


def bring_back(plane: ControlPlane, node: str, way: str) -> None:
    if way == "lost":
        plane.recover_node(node)
    elif way == "cordoned":
        plane.api("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    else:
        plane.add_nodes([node])


@contextlib.contextmanager
def no_eviction_allowed(plane: ControlPlane) -> Iterator[None]:
    """A budget over all pods of the namespace that lets none of them go, for the length of a block."""
    name = "none-may-go"
    spec = {"minAvailable": 1000, "selector": {}}
    plane.api("POST", BUDGETS_PATH, {"apiVersion": "policy/v1", "metadata": {"name": name}, "spec": spec})
    plane.wait_until(
        lambda: plane.api("GET", f"{BUDGETS_PATH}/{name}").get("status", {}).get("observedGeneration"),
        what="the budget to be heard",
    )
    try:
        yield
    finally:
        plane.api("DELETE", f"{BUDGETS_PATH}/{name}")
