"""Events while jobs start: looks for overcommitted nodes, a node that flaps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from bench.reconcile.bed import WAIT
from tests.builders.overbooked import GPU, overbooked_nodes
from tests.controlplane import ApiError, ControlPlane

PODS_PATH = "/api/v1/namespaces/default/pods"
NODES_PATH = "/api/v1/nodes"
WHOLE_LOOK = 5.0
"""Seconds between two looks at all pods: 1,600 are 8 MB."""
CACHED = "resourceVersion=0"
"""Such a list is read from the API server's cache, without etcd: a state that is at most a moment old."""
FLAP_SECONDS, CORDONED_SECONDS = 1.5, 0.3
"""From one cordon to the next, and until the node is open again."""


@dataclass(slots=True)
class Overbooking:
    """The most nodes that were overbooked at one look. nodes: those of that look, each with the GPUs beyond its own."""

    plane: ControlPlane
    gpus: Mapping[str, int]
    nodes: Mapping[str, int]
    looks: int = 0

    def look(self) -> None:
        """Look at all pods."""
        found = overbooked_nodes(self.plane.api("GET", f"{PODS_PATH}?{CACHED}")["items"], self.gpus)
        self.looks += 1
        if len(found) > len(self.nodes):
            self.nodes = found


@contextmanager
def looks_at_nodes(plane: ControlPlane) -> Iterator[Overbooking]:
    """Meanwhile, look for overbooked nodes now and then, and once more at the end."""
    nodes = plane.api("GET", f"{NODES_PATH}?{CACHED}")["items"]
    gpus = {node["metadata"]["name"]: int(node["status"]["allocatable"].get(GPU, 0)) for node in nodes}
    found = Overbooking(plane, gpus, {})
    with repeated(found.look, WHOLE_LOOK):
        yield found
    found.look()


@contextmanager
def flapping_node(plane: ControlPlane, name: str) -> Iterator[None]:
    """Meanwhile, cordon the node for a moment again and again; it is open afterwards."""
    stop = threading.Event()

    def set_cordoned(is_cordoned: bool) -> Any:
        return plane.api("PATCH", f"{NODES_PATH}/{name}", {"spec": {"unschedulable": is_cordoned or None}})

    def flap() -> None:
        set_cordoned(True)
        stop.wait(CORDONED_SECONDS)
        set_cordoned(False)

    try:
        with repeated(flap, FLAP_SECONDS - CORDONED_SECONDS):
            yield
    finally:
        stop.set()
        plane.wait_until(lambda: set_cordoned(False), timeout=WAIT, what=f"node {name} to be open")


@contextmanager
def repeated(step: Callable[[], None], pause: float) -> Iterator[None]:
    """Repeat `step` in a thread meanwhile. Requests without an answer are left out; any other error is raised at the
    end."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause):
            with suppress(ApiError, OSError):
                step()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            stop.set()
        running.result()


def granted_evictions(audit: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the pods of an audit's entries whose eviction the API server has granted."""
    for entry in audit:
        about = entry.get("objectRef") or {}
        is_eviction = entry["verb"] == "create" and about.get("subresource") == "eviction"
        if is_eviction and int((entry.get("responseStatus") or {}).get("code", 0)) < 300:
            yield str(about["name"])
