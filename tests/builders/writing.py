"""A writer before a cluster in memory, and the objects that it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change, field_differences
from reconciler.changes.results import ChangeResult
from reconciler.cluster.client import Client
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Inventory, InventoryEntry, InventoryStore, Origin
from reconciler.objects.writer import ClusterWriter
from reconciler.pods.writes import PodWrites
from reconciler.timings import TIMINGS, ObjectTimings
from tests.builders.fake_cluster import FakeCluster

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
LABELS = {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "test"}
OURS = {
    "manager": "gangplan",
    "operation": "Apply",
    "time": "2026-01-02T00:00:00Z",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:gangplan.dev/cluster": {}}}, "f:data": {"f:a": {}}},
}


def thing(kind: str, name: str, *, api: str = "v1", namespace: str = "default", **metadata: Any) -> Object:
    """An object without contents. namespace: "" for one of the cluster."""
    space = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {**space, "name": name, **metadata}}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    return {**thing("ConfigMap", name, **metadata), **({"data": data} if data else {})}


def volcano_job(name: str, spec: Object | None = None, **metadata: Any) -> Object:
    made = thing("Job", name, api="batch.volcano.sh/v1alpha1", **metadata)
    return {**made, "spec": spec} if spec is not None else made


def gated_pod(name: str) -> Object:
    return {**thing("Pod", name), "spec": {"schedulingGates": [{"name": "gangplan.dev/placement"}]}}


def manifest_of(item: Object) -> Manifest:
    """As the plan has it; a job's run is named by the job."""
    is_job = item["kind"] == "Job"
    return Manifest(5 if is_job else 4, item, "x.yaml:1", f"sha256:{item['metadata']['name']}" if is_job else "")


def creation(item: Object) -> Change:
    return Change("create", ref_of(item), manifest_of(item))


def writer_for(
    client: Client, clock: Callable[[], float] = lambda: 0.0, timings: ObjectTimings = TIMINGS.objects
) -> ClusterWriter:
    store = InventoryStore(client, "gangplan-system", "test")
    return ClusterWriter(client, store, clock, sleep=lambda seconds: None, timings=timings)


class Writing:
    """A writer at whose clock a test turns, its cluster, and the inventory."""

    def __init__(self, timings: ObjectTimings = TIMINGS.objects) -> None:
        self.cluster, self.time, self.inventory = FakeCluster(), 0.0, Inventory()
        self.client = self.cluster.client()
        self.client.fence = lambda: None
        self.writer = writer_for(self.client, lambda: self.time, timings)

    def put(self, item: Object) -> Object:
        """Store the object as somebody else wrote it."""
        folder = {"Job": JOBS, "ConfigMap": CONFIGMAPS, "Pod": PODS}[item["kind"]]
        return self.cluster.put(f"{folder}/{item['metadata']['name']}", item)

    def enter(self, live: Object, origin: Origin = "created", uid: str = "") -> None:
        self.inventory.enter(InventoryEntry(ref_of(live), uid or live["metadata"]["uid"], origin=origin))

    def update(self, item: Object, live: Object) -> Change:
        """The change of the live object to this one."""
        action = "in-place" if item["kind"] == "Job" else "update"
        return Change(action, ref_of(item), manifest_of(item), live, field_differences(item, live))  # type: ignore[arg-type]

    def apply(self, *changes: Change) -> list[ChangeResult]:
        return self.writer.apply_changes(changes, self.inventory)

    def pod_writes(self) -> PodWrites:
        return PodWrites(self.client, self.writer.threads, self.writer.own, lambda: False)

    def outcome(self, change: Change) -> tuple[str, str]:
        """How one change ends, and the message."""
        (result,) = self.apply(change)
        return result.outcome, result.message

    def live(self, name: str, folder: str = JOBS) -> Object:
        return self.cluster.objects[f"{folder}/{name}"]
