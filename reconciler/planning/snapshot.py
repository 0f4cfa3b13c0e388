"""The result of one compile, and the plan in it as the reconciler reads it. A snapshot is never changed."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from compiler import kubernetes as k8s
from compiler.cluster_state.refused_queues import local_name, local_parent
from compiler.emit.manifest import Manifest
from compiler.specs.gang_spec import JobKey
from compiler.volcano.shared_devices import VGPU_MEMORY
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Object, Ref, group_kind_of, ref_of
from reconciler.observation.culprits import Culprit

FORMAT_VERSION = 3


class RepositorySettings(NamedTuple):
    """Settings in the repository for the reconciler itself.

    allow_prune: the annotation of the Cluster that releases a list of deletions. volcano: the release whose rules the
    plan follows. use_state: NAMESPACE/NAME of the ConfigMap whose numbers order namespaces (the plugin fairshare),
    empty where none does. names_volcano: whether the Cluster names the release. scheduler_namespace: of Volcano's
    scheduler.
    """

    allow_prune: str = ""
    volcano: str = ""
    use_state: str = ""
    names_volcano: bool = False
    scheduler_namespace: str = k8s.SCHEDULER_NAMESPACE


class FormerPlan(NamedTuple):
    """Facts about the plan in force. places: job -> role -> node name -> pods, of the jobs that it starts or keeps.
    volcano: the release whose rules it follows, which counts while no pod of a scheduler is seen; empty for none."""

    places: Sequence[tuple[JobKey, Mapping[str, Mapping[str, int]]]] = ()
    volcano: str = ""


@dataclass(frozen=True)
class Snapshot:
    """ok: there is a verified plan and no file has an error; only then may it be applied. plan: as in `plan -o json`.
    gated: whether the cluster binds by gates. leaves: node name -> the hypernode that holds it. moments: when the
    answer may change although nothing happens, in seconds since the epoch. nodes_behind: nodes of whose device slots
    the cluster reports less than its pods hold (`lower.origins`). requests: Ref.key of a job -> what the plan counts
    for a pod of each of its roles; cpu in millicores."""

    commit: str
    ok: bool
    gated: bool = True
    plan: Mapping[str, Any] = field(default_factory=dict)
    manifests: tuple[Manifest, ...] = ()
    leaves: Mapping[str, str] = field(default_factory=dict)
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    max_waiting_pods: int = 0
    moments: tuple[int, ...] = ()
    nodes_behind: tuple[str, ...] = ()
    settings: RepositorySettings = field(default_factory=RepositorySettings)
    requests: Mapping[str, Sequence[Mapping[str, int]]] = field(default_factory=dict)

    @cached_property
    def jobs(self) -> Mapping[str, Manifest]:
        """Return Ref.key -> manifest, of what runs once and finishes."""
        return {ref_of(manifest.object).key: manifest for manifest in self.manifests if manifest.run_digest}

    @cached_property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """(apiVersion, kind) of all manifests."""
        return frozenset((manifest.object["apiVersion"], manifest.object["kind"]) for manifest in self.manifests)

    @cached_property
    def group_kinds(self) -> frozenset[str]:
        return frozenset(group_kind_of(*kind) for kind in self.kinds)

    @cached_property
    def cluster_queues(self) -> frozenset[str]:
        objects = (manifest.object for manifest in self.manifests)
        return frozenset(k8s.name_of(each) for each in objects if each["kind"] == "Queue")

    @cached_property
    def local_queue_parents(self) -> Mapping[str, str]:
        """NamespaceQueue -> its parent, by the names of Volcano's scheduler."""
        objects = (manifest.object for manifest in self.manifests)
        return {local_name(each): local_parent(each) for each in objects if each["kind"] == "NamespaceQueue"}

    @cached_property
    def job_kinds(self) -> frozenset[str]:
        """Return group kinds of the gangs."""
        return frozenset(gang.job.group_kind for gang in self.gangs.values())

    @cached_property
    def gangs(self) -> Mapping[str, PlannedGang]:
        """Return Ref.key of the job -> the planned gang, in the plan's order; only gangs whose pods the plan binds to
        nodes."""
        return {gang.job.key: gang for gang in self._planned_gangs if gang.bound}

    @cached_property
    def begun_gangs(self) -> Mapping[str, PlannedGang]:
        """Return the gangs as they are once they have begun."""
        begun = ((key, gang.decision == "start", gang) for key, gang in self.gangs.items())
        return {key: replace(gang, decision="keep") if starts else gang for key, starts, gang in begun}

    @cached_property
    def unbound_gangs(self) -> tuple[PlannedGang, ...]:
        """Return the gangs for which the plan reserves room and whose pods another scheduler places."""
        return tuple(gang for gang in self._planned_gangs if not gang.bound)

    @cached_property
    def _planned_gangs(self) -> tuple[PlannedGang, ...]:
        manifests = {ref_of(manifest.object).key: manifest.object for manifest in self.manifests}
        return tuple(_planned_gang(entry, manifests) for entry in self.plan.get("gangs", ()))

    def with_manifests_of(self, former: Snapshot) -> Snapshot:
        """Return this snapshot, with a former snapshot's own manifests where they are equal, so that results about them
        stay valid."""
        known = {ref_of(manifest.object): manifest for manifest in former.manifests}
        pairs = ((manifest, known.get(ref_of(manifest.object))) for manifest in self.manifests)
        manifests = tuple(old if old and _is_same(old, new) else new for new, old in pairs)
        return replace(self, manifests=manifests) if any(map(operator.is_not, manifests, self.manifests)) else self

    def as_json(self) -> str:
        manifests = [_shallow(manifest) for manifest in self.manifests]
        return json.dumps({"version": FORMAT_VERSION, **_shallow(self), "manifests": manifests}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Raises ValueError for the format of another gangplan."""
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError(f"a plan is an object, not {text[:20]}")  # noqa: TRY004 (of a text)
        if (version := data.pop("version", 1)) != FORMAT_VERSION:
            raise ValueError(f"the plan is of format {version}, this gangplan knows {FORMAT_VERSION}")
        manifests = tuple(Manifest(**manifest) for manifest in data.pop("manifests"))
        lists = {name: tuple(data[name]) for name in ("diagnostics", "moments", "nodes_behind")}
        settings = RepositorySettings(*data["settings"])
        return cls(**{**data, "manifests": manifests, "settings": settings, **lists})


def _shallow(item: Snapshot | Manifest) -> dict[str, Any]:
    """Return the fields by name. Their values are plain data, so they are not copied as `asdict` does it."""
    return {each.name: getattr(item, each.name) for each in fields(item)}


def _is_same(one: Manifest, other: Manifest) -> bool:
    """Return whether both are equal as text: to Python true is 1."""
    return one is other or (one == other and json.dumps(one.object) == json.dumps(other.object))


def _planned_gang(entry: Mapping[str, Any], manifests: Mapping[str, Object]) -> PlannedGang:
    job = Ref(entry["apiVersion"], entry["kind"], entry["namespace"], entry["name"])
    written = manifests.get(job.key)
    return PlannedGang(
        job,
        entry["decision"],
        entry["pods"],
        queue=entry["queue"],
        domains=tuple(entry["domains"]),
        reasons=tuple(f"{reason['code']}: {reason['message']}" for reason in entry["reasons"]),
        dependent_roles=frozenset(entry.get("dependentRoles", ())) | (_dependent_roles(written) if written else set()),
        evicted_for=tuple(entry["evictedFor"]),
        device_numbers=_device_numbers(entry.get("cells", ())),
        starts_at=entry["startsAt"],
        start_window=entry.get("startWindow"),
        has_helpers=written is not None and k8s.POD_OWNERS_ANNOTATION in k8s.annotations_of(written),
        held=entry.get("held", False),
        written_pods=entry.get("written", {}),
        bound=entry.get("bound", True),
        succeeded_pods=entry.get("succeeded", {}),
    )


def _dependent_roles(job: Object) -> frozenset[str]:
    """Return the roles that the controller creates only once others run. A Volcano Job lists them itself."""
    listed = k8s.annotations_of(job).get(k8s.DEPENDENT_ROLES_ANNOTATION, "").split(",")
    is_volcano_job = ref_of(job).group_kind == "Job.batch.volcano.sh"
    tasks = (job["spec"].get("tasks") or ()) if is_volcano_job else ()
    return frozenset(filter(None, listed)) | {
        task["name"] for task in tasks if (task.get("dependsOn") or {}).get("name")
    }


def _device_numbers(slot_uses: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Return role -> node -> the card of each new pod that takes a share of a virtual GPU, the highest number first."""
    numbers: dict[str, dict[str, list[int]]] = {}
    for use in sorted(slot_uses, key=lambda use: -int(use["cell"])):
        if use["division"] == VGPU_MEMORY:
            numbers.setdefault(use["role"], {}).setdefault(use["node"], []).extend([use["cell"]] * use["pods"])
    return numbers


@dataclass(frozen=True, slots=True)
class CompileBreakdown:
    """The end of a compile without an answer: killed, out of memory or time, an exception. It proves nothing about the
    commit. culprits: the live objects that an exception may be due to, the most likely first."""

    message: str
    culprits: Sequence[Culprit] = ()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that others read: whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)
