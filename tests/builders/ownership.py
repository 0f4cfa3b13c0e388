"""The part of what is ours, with a writer, on a cluster in memory; each pass is told what it sees."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from compiler.kubernetes import annotations_of, uid_of
from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Allowed, ChangeResult, Changes, PrunePlan
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.git.mirror import BranchHead
from reconciler.observation.observe import Observation, Seen
from reconciler.ownership.part import OwnershipPart
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import RepositorySettings, Snapshot
from tests.builders.writing import CONFIGMAPS, LABELS, OURS, Writing, config_map, creation, thing, volcano_job

COMMIT = "c0ffee"
STATUS = Ref("v1", "ConfigMap", "gangplan-system", "gangplan-test-status")
ALWAYS = Ref("v1", "ConfigMap", "default", "always")
"""In the repository of every world."""


@dataclass(frozen=True)
class Look:
    """What a pass begins with."""

    changes: Changes
    seen: Seen
    target: Target


class World(Writing):
    def __init__(self) -> None:
        super().__init__()
        self.time, self.leads_since, find = 1000.0, 0.0, self.client.find
        self.part = OwnershipPart(
            "test",
            find,
            self.writer,
            lambda: BranchHead(COMMIT),
            STATUS,
            lambda: annotations_of(find(STATUS) or {"metadata": {}}),
            lambda change: "",
            lambda: self.time,
        )
        self.target = Target(COMMIT, snapshot=Snapshot(COMMIT, True))

    def make(self, name: str, *, marked: bool = True, job: bool = False, **metadata: Any) -> Object:
        """An object as it is, by default with our mark."""
        mark = {"labels": LABELS, "managedFields": [OURS]} if marked else {}
        return self.put((volcano_job if job else config_map)(name, **{**mark, **metadata}))

    def put_pod(self, job: Object, phase: str = "Running") -> None:
        """A pod of this job."""
        name, owner = f"{ref_of(job).name}-0", {"apiVersion": job["apiVersion"], "kind": "Job", "controller": True}
        owners = [{**owner, "name": ref_of(job).name, "uid": uid_of(job)}]
        self.put({**thing("Pod", name, ownerReferences=owners), "spec": {}, "status": {"phase": phase}})

    def put_ours(self, *names: str) -> Object:
        """Objects of ours; the last one."""
        for name in names:
            self.enter(self.make(name))
        return self.live(names[-1], CONFIGMAPS)

    def read_inventory(self) -> None:
        """Go on as another process does."""
        self.inventory = self.writer.store.read()

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
        status = config_map(STATUS.name, namespace=STATUS.namespace, annotations={name: value})
        self.cluster.put(f"/api/v1/namespaces/{STATUS.namespace}/configmaps/{STATUS.name}", status)

    def allow_on_cluster(self, digest: str) -> None:
        """Annotate the Cluster in the repository."""
        self.target = replace(self.target, snapshot=Snapshot(COMMIT, True, settings=RepositorySettings(digest)))

    def deleted(self) -> list[str]:
        return [path.rpartition("/")[2] for method, path in self.cluster.writes if method == "DELETE"]


def manager(name: str, time: str, **fields: Any) -> dict[str, Any]:
    return {"manager": name, "operation": "Update", "time": time, "fieldsV1": fields}


def creation_of(name: str, *, job: bool = False) -> Change:
    return creation(volcano_job(name) if job else config_map(name))
