"""Drift and cold: a repository of many objects, all of them made by the reconciler."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bench.reconcile.bed import (
    WAIT,
    Bed,
    NotifiedReconciler,
    Row,
    Sizes,
    cpu_seconds,
    make_bed,
    percentile,
    print_requests,
    requests_by,
)
from compiler.kubernetes import CLUSTER_LABEL
from reconciler.cluster.client import ApiError, Client
from reconciler.cluster.objects import Ref
from reconciler.cluster.transport import Connector
from tests.e2e.stories.story import CLUSTER, SCHEDULER, GitRepository, node_pool, queue

PER_FILE = 250
EDITS_PER_SECOND, EDIT_SECONDS = 100, 20
EDITORS = 8
IDLE_SECONDS = 30.0
GOOD = "as in the repository"
DRIFT_BAR, COLD_BAR, IDLE_BAR, MEMORY_BAR = 1.0, 20.0, 0.3, 400.0


@dataclass(frozen=True, slots=True)
class ObjectsWorld:
    """A cluster that holds the objects, and their repository."""

    bed: Bed
    repository: GitRepository
    count: int
    client: Client


def config_map(at: int) -> dict[str, Any]:
    metadata = {"name": f"object-{at:05}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": GOOD, "number": str(at)}}


@contextmanager
def objects_world(sizes: Sizes) -> Iterator[ObjectsWorld]:
    """The reconciler has made every object once, and has ended."""
    with make_bed() as bed:
        bed.add_gpu_nodes(8)
        repository = GitRepository(bed.folder / "repo")
        specs = (CLUSTER, SCHEDULER, node_pool("gpu", 8, gpus=8), queue("team"))
        repository.write_file("cluster-specs/test/cluster.yaml", *specs)
        for start in range(0, sizes.objects, PER_FILE):
            maps = (config_map(at) for at in range(start, min(start + PER_FILE, sizes.objects)))
            repository.write_file(f"jobs/objects-{start:05}.yaml", *maps)
        commit = repository.commit()
        client = Client(Connector(bed.plane.kubeconfig))
        with NotifiedReconciler(bed, repository) as reconciler:
            path = f"/api/v1/namespaces/default/configmaps?limit=1&labelSelector={CLUSTER_LABEL}%3Dtest"

            def made() -> int:
                time.sleep(1.0)
                page = bed.plane.api("GET", path)
                return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or _rest(bed, path))

            bed.plane.wait_until(made, lambda seen: seen >= sizes.objects, timeout=WAIT, what="all objects")
            reconciler.wait_until_settled(commit)
        yield ObjectsWorld(bed, repository, sizes.objects, client)


def _rest(bed: Bed, path: str) -> int:
    """Return the number of objects beyond the first: a list with a selector has no total."""
    return len(bed.plane.api("GET", path.replace("limit=1&", ""))["items"]) - 1


@dataclass(slots=True)
class PutBack:
    """Watches the objects, and notes when edited ones hold their value again."""

    client: Client
    edited_at: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        resource = self.client.resource("v1", "ConfigMap")
        version = str(self.client.request("GET", resource.path(), {"limit": "1"})["metadata"]["resourceVersion"])
        threading.Thread(target=self._follow, args=(version,), daemon=True).start()

    def _follow(self, version: str) -> None:
        for line in self._lines(version):
            seen, item = time.monotonic(), json.loads(line)["object"]
            name = item["metadata"].get("name", "")
            is_good = (item.get("data") or {}).get("value") == GOOD
            if is_good and name in self.edited_at and name not in self.seconds:
                self.seconds[name] = seen - self.edited_at[name]

    def _lines(self, version: str) -> Iterator[bytes]:
        """Yield the lines of one watch; it breaks when the control plane exits."""
        with suppress(ApiError):
            yield from self.client.watch(self.client.resource("v1", "ConfigMap"), version, 600)

    def edit(self, at: int) -> None:
        """Change an object as a stranger would. Timed from before the request: the edit may be put back before its
        answer is read."""
        name = f"object-{at:05}"
        operations = [{"op": "replace", "path": "/data/value", "value": "edited"}]
        self.edited_at[name] = time.monotonic()
        self.client.patch(Ref("v1", "ConfigMap", "default", name), operations)


def measure_drift(world: ObjectsWorld, _sizes: Sizes) -> Iterator[Row]:
    """Yield edits at a steady rate, each of another object: seconds from the request until the watch shows it put back.
    They begin once the plan of the start is in force: a pass with a new plan compares all objects first."""
    edits = min(EDITS_PER_SECOND * EDIT_SECONDS, world.count)
    with NotifiedReconciler(world.bed, world.repository) as reconciler:
        reconciler.wait_until_settled(world.repository.run_git("rev-parse", "HEAD"))
        world.bed.plane.wait_until(
            lambda: reconciler.metric("gangplan_compile_seconds_count"), timeout=WAIT, what="the plan made at the start"
        )
        time.sleep(5.0)
        back = PutBack(world.client)
        back.start()
        computed, served = cpu_seconds(reconciler.pid), world.bed.cpu_seconds("kube-apiserver")
        requests = len(world.bed.plane.audited_requests())
        began = time.monotonic()
        with ThreadPoolExecutor(EDITORS) as editors:
            for at in range(edits):
                time.sleep(max(0.0, began + at / EDITS_PER_SECOND - time.monotonic()))
                editors.submit(back.edit, at * (world.count // edits))
        offered = edits / (time.monotonic() - began)
        world.bed.plane.wait_until(lambda: len(back.seconds), lambda seen: seen >= edits, what="all to be put back")
        print_requests(world.bed, requests)
        taken = list(back.seconds.values())
        yield Row("drift", f"{edits} edits of {world.count} objects, offered a second", offered, "")
        yield Row("drift", "put back, p50", percentile(taken, 0.5))
        yield Row("drift", "put back, p99", percentile(taken, 0.99), bar=DRIFT_BAR)
        yield Row("drift", "CPU of the reconciler", cpu_seconds(reconciler.pid) - computed)
        yield Row("drift", "CPU of the API server", world.bed.cpu_seconds("kube-apiserver") - served)


def measure_cold(world: ObjectsWorld, _sizes: Sizes) -> Iterator[Row]:
    """A start with nothing in the caches: seconds until an object is put back that was edited meanwhile; then it
    idles."""
    back = PutBack(world.client)
    back.start()
    back.edit(world.count // 2)
    with NotifiedReconciler(world.bed, world.repository) as reconciler:
        world.bed.plane.wait_until(lambda: back.seconds, timeout=WAIT, what="the edit to be put back")
        yield Row("cold", f"start to diff of {world.count} objects", max(back.seconds.values()), bar=COLD_BAR)
        yield Row("cold", "CPU of the reconciler by then", cpu_seconds(reconciler.pid))
        reconciler.wait_until_settled(world.repository.run_git("rev-parse", "HEAD"))
        time.sleep(10.0)
        requests, computed = len(world.bed.plane.audited_requests()), cpu_seconds(reconciler.pid)
        names = ("gangplan_pass_seconds_sum", "gangplan_pass_seconds_count")
        before = [reconciler.metric(name) for name in names]
        time.sleep(IDLE_SECONDS)
        seconds, passes = (reconciler.metric(name) - start for name, start in zip(names, before, strict=True))
        asked = requests_by(world.bed, requests)
        reads = ("get", "list", "watch")
        writes = sum(n for what, n in asked.items() if not what.startswith(reads) and not what.endswith(" leases"))
        yield Row("cold", "an idle pass, mean", seconds / max(passes, 1), bar=IDLE_BAR)
        yield Row("cold", f"writes in {IDLE_SECONDS:g} s of idling, the lease apart", writes, "", 0)
        yield Row("cold", "CPU of the reconciler while idle, a minute", (cpu_seconds(reconciler.pid) - computed) * 2)
        yield Row("cold", "peak memory of the reconciler", reconciler.peak_memory(), "MB", MEMORY_BAR)
