"""gates: how fast gates are lifted where nothing else is to be done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.reconcile.bed import Bed, Row, Sizes
from bench.reconcile.gangs import GANGS
from bench.reconcile.looks import PODS_PATH
from compiler.kubernetes import SCHEDULING_GATE
from reconciler.changes.pods import GateLift
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Connector
from reconciler.cluster.write_threads import WriteThreads
from reconciler.observation.own_writes import OwnWrites
from reconciler.pods.writes import PodWrites
from reconciler.timings import TIMINGS

CREATORS = 8
GATES_BAR = 300
"""Gates a second."""


def _gated_pod(name: str) -> dict[str, Any]:
    """Return a pod that no scheduler handles: only the gates are measured."""
    containers = [{"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    spec = {"schedulerName": "nobody", "schedulingGates": [{"name": SCHEDULING_GATE}], "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def measure_gates(bed: Bed, sizes: Sizes) -> Iterator[Row]:
    """Seconds that 300 gates take of many that may be lifted at once, in batches as a pass has them, by the writer and
    with the rights of the reconciler."""
    gangs, pods = sizes.gangs or GANGS, sizes.pods
    names = [f"gang-{gang:04}-worker-{pod}" for gang in range(gangs) for pod in range(pods)]
    with ThreadPoolExecutor(CREATORS) as pool:
        list(pool.map(lambda name: bed.plane.api("POST", PODS_PATH, _gated_pod(name)), names))
    client = Client(Connector(bed.plane.kubeconfig_for("gangplan")))
    found, _ = client.list(client.resource("v1", "Pod"), "default")
    lifts = [GateLift(pod, "node-0", "node-0") for pod in found]
    writes = PodWrites(client, WriteThreads(), OwnWrites(), lambda: False)
    served, began = bed.cpu_seconds("kube-apiserver"), time.monotonic()
    most = TIMINGS.pods.batch
    for at in range(0, len(lifts), most):
        batch = {f"gang-{number}": [lift] for number, lift in enumerate(lifts[at : at + most])}
        failed = [result for result in writes.lift_gates(batch) if result.outcome != "done"]
        if failed:
            raise RuntimeError(f"{len(failed)} gates were not lifted: {failed[0].message}")
    seconds = time.monotonic() - began
    yield Row("gates", f"{GATES_BAR} gates of {len(lifts)}", seconds * GATES_BAR / len(lifts), bar=1.0)
    yield Row("gates", "a second", len(lifts) / seconds, "gates")
    yield Row("gates", "CPU of the API server", bed.cpu_seconds("kube-apiserver") - served)
