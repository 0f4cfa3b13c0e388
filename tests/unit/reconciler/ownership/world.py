"""The part of what is ours, with a writer, on a cluster in memory; each pass is told what it sees."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from compiler.emit.manifest import Manifest
from compiler.kubernetes import annotations_of, uid_of
from reconciler.changes.allowed import Allowed, Changes, PrunePlan
from reconciler.changes.diff import Change
from reconciler.changes.planned_runs import PlannedRuns
from reconciler.changes.results import ChangeResult
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.git.poller import BranchHead
from reconciler.inventory.store import Inventory, InventoryEntry, InventoryStore, Origin
from reconciler.objects.writer import ClusterWriter
from reconciler.observation.observe import Observation
from reconciler.observation.seen import Seen
from reconciler.ownership.part import OwnershipPart, Releases
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.target import Target
from tests.builders.fake_cluster import FakeCluster

COMMIT = "c0ffee"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
STATUS = Ref("v1", "ConfigMap", "gangplan-system", "gangplan-test-status")
LABELS = {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "test"}
OURS = {
    "manager": "gangplan",
    "operation": "Apply",
    "time": "2026-01-02T00:00:00Z",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:gangplan.dev/cluster": {}}}, "f:data": {"f:a": {}}},
}
ALWAYS = Ref("v1", "ConfigMap", "default", "always")
"""In the repository of every world."""


@dataclass(frozen=True)
class Look:
    """What a pass begins with."""

    changes: Changes
    seen: Seen
    target: Target


class World:
    def __init__(self) -> None:
        self.cluster, self.time, self.inventory, self.leads_since = FakeCluster(), 1000.0, Inventory(), 0.0
        client = self.cluster.client()
        client.fence = lambda: None
        self.store = InventoryStore(client, "gangplan-system", "test")
        self.writer = ClusterWriter(client, self.store, lambda: self.time, sleep=lambda seconds: None)
        self.part = OwnershipPart(
            "test",
            client.find,
            self.writer,
            lambda: BranchHead(COMMIT),
            Releases(STATUS, lambda: annotations_of(client.find(STATUS) or {"metadata": {}}), lambda old, new: False),
            lambda change: "",
            lambda: self.time,
        )
        self.target = Target(COMMIT, snapshot=Snapshot(COMMIT, True))

    def put(self, name: str, *, marked: bool = True, job: bool = False, **metadata: Any) -> Object:
        kind = ("batch.volcano.sh/v1alpha1", "Job") if job else ("v1", "ConfigMap")
        mark = {"labels": LABELS, "managedFields": [OURS]} if marked else {}
        meta = {"namespace": "default", "name": name, **mark, **metadata}
        item = {"apiVersion": kind[0], "kind": kind[1], "metadata": meta}
        return self.cluster.put(f"{JOBS if job else CONFIGMAPS}/{name}", item)

    def put_pod(self, job: Object, phase: str = "Running") -> None:
        """A pod of this job."""
        name, owner = f"{ref_of(job).name}-0", {"apiVersion": job["apiVersion"], "kind": "Job", "controller": True}
        owners = [{**owner, "name": ref_of(job).name, "uid": uid_of(job)}]
        metadata = {"namespace": "default", "name": name, "ownerReferences": owners}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": phase}}
        self.cluster.put(f"{PODS}/{name}", pod)

    def enter(self, item: Object, origin: Origin = "created") -> None:
        self.inventory.enter(InventoryEntry(ref_of(item), uid_of(item), origin=origin))

    def put_ours(self, *names: str) -> Object:
        """Objects of ours; the last one."""
        for name in names:
            self.enter(self.put(name))
        return self.cluster.objects[f"{CONFIGMAPS}/{names[-1]}"]

    def read_inventory(self) -> None:
        """Go on as another process does."""
        self.inventory = self.store.read()

    def look(
        self,
        *desired: Object,
        due: tuple[Change, ...] = (),
        kinds: Collection[str] = ("ConfigMap", "Job.batch.volcano.sh"),
        **of_observation: Any,
    ) -> Look:
        """A pass that sees what the cluster holds, and is to make these changes."""
        objects = {ref_of(item).key: item for item in self.cluster.objects.values()}
        observation = Observation(objects, frozenset(kinds), **of_observation)
        seen = Seen(self.time, self.time, True, observation, self.inventory, self.leads_since)
        return Look(Changes(due, declared={ALWAYS.key, *(ref_of(item).key for item in desired)}), seen, self.target)

    def confirm(self, *desired: Object) -> None:
        self.part.confirm_entries(self.look(*desired).seen, PlannedRuns())

    def guard(self, look: Look) -> Allowed:
        return self.part.guard(look.changes, look.seen, look.target)

    def delete(self, look: Look, allowed: Allowed) -> list[ChangeResult]:
        return list(self.part.prune(allowed, look.seen, ()).results)

    def prune(self, look: Look) -> PrunePlan:
        allowed = self.guard(look)
        self.delete(look, allowed)
        return allowed.prune_plan

    def annotate(self, name: str, value: str) -> None:
        """Annotate the status ConfigMap."""
        metadata = {"namespace": STATUS.namespace, "name": STATUS.name, "annotations": {name: value}}
        path = f"/api/v1/namespaces/{STATUS.namespace}/configmaps/{STATUS.name}"
        self.cluster.put(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def allow_on_cluster(self, digest: str) -> None:
        """Annotate the Cluster in the repository."""
        self.target = replace(self.target, snapshot=Snapshot(COMMIT, True, allow_prune=digest))

    def deleted(self) -> list[str]:
        return [path.rpartition("/")[2] for method, path in self.cluster.writes if method == "DELETE"]


def manager(name: str, time: str, **fields: Any) -> dict[str, Any]:
    return {"manager": name, "operation": "Update", "time": time, "fieldsV1": fields}


def creation(name: str, kind: str = "ConfigMap") -> Change:
    ref = Ref("batch.volcano.sh/v1alpha1" if kind == "Job" else "v1", kind, "default", name)
    item = {"apiVersion": ref.api_version, "kind": kind, "metadata": {"namespace": "default", "name": name}}
    return Change("create", ref, Manifest(4, item, "x.yaml:1", "run" if kind == "Job" else ""))
