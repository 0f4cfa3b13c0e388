"""Finds the changes to write and to hold back, from the manifests of the plan and the live objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from compiler.decided import HELD_SENTENCE
from compiler.emit.manifest import Manifest
from compiler.kubernetes import ADOPT_ANNOTATION, annotations_of, is_gated, status_of, uid_of
from compiler.run_kinds import PLANNED_RUN_KINDS
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Changes
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, Ref, ref_of, version_of
from reconciler.inventory.store import InventoryEntry
from reconciler.objects.writer import ClusterWriter
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Seen
from reconciler.observation.pods import has_ended
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import Snapshot

UNFIXABLE = "it was written, and the server keeps other values (a webhook changes them, or it spells them otherwise)"
"""Why a change is not made again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The desired state of the cluster. manifests: Ref.key -> each of `items`. obstructed: objects whose manifest
    cannot be built. declared: Ref.key of every object in the plan, including obstructed ones."""

    items: tuple[tuple[Ref, Manifest], ...] = ()
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    obstructed: tuple[Change, ...] = ()
    declared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fates:
    """Decisions of other parts on objects.

    lost: why a job is recreated; empty where it is not. departed: Ref.key of deleted jobs whose names are not free yet.
    suspended: Ref.key of suspended objects, with the reason.
    """

    lost: Callable[[Object], str] = lambda job: ""
    departed: Collection[str] = ()
    suspended: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Differ:
    """desired: the manifests as the cluster should hold them. watches: the watched kinds, each in its version."""

    desired: DesiredManifests
    writer: ClusterWriter
    watches: InformerSet

    def collect(self, snapshot: Snapshot, runs: PlannedRuns, standing: Callable[[Manifest], Manifest]) -> Wanted:
        """Return the plan's manifests as the cluster should hold them. standing: the manifest that replaces one."""
        items, obstructed, declared = [], [], set[str]()
        self.desired.keep_only(snapshot.manifests)
        for manifest in snapshot.manifests:
            ref = self.desired.ref_of(manifest)
            run = runs.numbered(ref.key, manifest.run_digest) if manifest.run_digest else ""
            try:
                desired, ref = self.desired.get(manifest, run)
            except ApiError as error:
                obstructed.append(Change("held", ref, reason=str(error)))
                declared |= {ref.key, ref._replace(namespace=ref.namespace or "default").key}  # whichever it means
            else:
                items.append((ref, standing(desired)))
        manifests = {ref.key: manifest for ref, manifest in items}
        return Wanted(tuple(items), manifests, tuple(obstructed), frozenset(declared | manifests.keys()))

    def changes(self, wanted: Wanted, seen: Seen, target: Target, fates: Fates) -> Changes:
        due: list[Change] = []
        held: list[Change] = []
        obstructed = [*wanted.obstructed]
        for ref, manifest in wanted.items:
            if fates.suspended and ref.key in fates.suspended:
                live, reason = seen.observation.objects.get(ref.key), fates.suspended[ref.key]
                held.append(Change("held", ref, manifest, live, reason=reason, is_deferred=True))
            elif obstacle := self.reading_obstacle(seen, target, ref):
                obstructed.append(Change("held", ref, manifest, reason=obstacle))
            elif (change := self._required_change(seen, manifest, ref, fates)) is not None:
                if self.writer.is_unfixable(change):
                    reason = f"{UNFIXABLE}: {self.writer.memory.unkept[ref.key].paths}"
                    obstructed.append(replace(change, action="held", reason=reason))
                else:
                    (held if change.action in ("held", "forbidden") else due).append(change)
        suspended = frozenset(fates.suspended)
        return Changes(tuple(due), tuple(held), tuple(obstructed), wanted.declared, suspended, wanted.manifests)

    def reading_obstacle(self, seen: Seen, target: Target, ref: Ref) -> str:
        """Return why the object's state is uncertain; empty when it is certain. For a job the pods count too."""
        kinds = (ref.group_kind, "Pod") if target.runs.is_job(ref.key) else (ref.group_kind,)
        for kind in kinds:
            if kind not in seen.observation.readable_kinds:
                return seen.observation.obstacles.get(kind, f"{kind} was not read yet")
        return seen.observation.held_up.get(ref.key) or seen.doubts.get(ref.key) or self._version_obstacle(ref)

    def _version_obstacle(self, ref: Ref) -> str:
        """Return why the object cannot be written in its version, where its kind is watched in another one; else
        empty."""
        informer = self.watches.informers.get(ref.group_kind)
        if informer is None or informer.resource.api_version == ref.api_version:
            return ""
        try:
            self.desired.client.resource(ref.api_version, ref.kind)
        except ApiError as error:
            return f"{error}; it does in {informer.resource.api_version}"
        return ""

    def _required_change(self, seen: Seen, desired: Manifest, ref: Ref, fates: Fates) -> Change | None:
        key, memory = ref.key, self.writer.memory
        live = seen.observation.objects.get(key)
        run, entry = seen.inventory.runs.get(key), seen.inventory.entries.get(key)
        refused = memory.is_update_refused(key, desired, live)
        if live is not None and (lost := fates.lost(live)):
            return _unless_joined(Change("replace", ref, desired, live, reason=lost), desired, entry)
        if live is None and key in fates.departed:
            reason = "its former pods or jobs are ending, or Volcano still cleans up after them; then it returns"
            return Change("held", ref, desired, reason=reason)
        finished, started = run.digest if run else None, _has_started(seen, desired, ref, live)
        versions = (version_of(live), finished, started, refused)
        classify = partial(classify_change, finished_digest=finished, has_started=started, is_update_refused=refused)
        change, is_new = self.desired.change(key, desired, versions, partial(classify, desired, live))
        if change is None and is_new and live is not None and entry is not None and not entry.is_created:
            memory.record_own_fields(key, live)
        return change and _unless_joined(change, desired, entry)


def _has_started(seen: Seen, desired: Manifest, ref: Ref, live: Object | None) -> bool:
    """Return whether a job has begun; so has one whose pods are not known to be its own."""
    entry = seen.inventory.entries.get(ref.key)
    is_followed = ref.group_kind in PLANNED_RUN_KINDS and (desired.pods > 0 or not status_of(live or {}))
    if live is not None and not is_followed:
        return True
    if live is not None and entry is not None and entry.uid == uid_of(live) and entry.started:
        return True
    return any(not is_gated(pod) and not has_ended(pod) for pod in seen.pods.get(ref.key, ()))


def _unless_joined(change: Change, desired: Manifest, entry: InventoryEntry | None) -> Change:
    """Return the change; held where it would delete an object that existed before gangplan and is not given to it."""
    is_ours = entry is None or entry.is_created
    if change.action != "replace" or is_ours or annotations_of(desired.object).get(ADOPT_ANNOTATION) == "true":
        return change
    reason = f'it existed before gangplan, which deletes it only with {ADOPT_ANNOTATION}: "true"'
    return replace(change, action="held", reason=reason)


def withhold_waiting_jobs(changes: Changes, seen: Seen, snapshot: Snapshot) -> Changes:
    """Hold back waiting jobs that the plan holds, and those beyond the cluster's `maxWaitingPods`."""
    waiting = {key for key, gang in snapshot.gangs.items() if gang.decision == "wait"}
    if not waiting or not changes.due:
        return changes
    pods_of = {ref_of(manifest.object).key: manifest.pods for manifest in snapshot.manifests}
    present = waiting & seen.observation.objects.keys()
    remaining = snapshot.max_waiting_pods - sum(pods_of.get(key, 0) for key in present)
    due, held = [], [*changes.held]
    for change in changes.due:
        if change.action == "create" and change.ref.key in waiting:
            pods = pods_of.get(change.ref.key, 0)
            if pods > remaining or snapshot.gangs[change.ref.key].held:
                full = f"the cluster holds as many waiting pods as it may ({snapshot.max_waiting_pods})"
                reason = f"it waits, and {full if pods > remaining else HELD_SENTENCE}"
                held.append(Change("held", change.ref, change.desired, reason=reason, is_deferred=True))
                continue
            remaining -= pods
        due.append(change)
    return replace(changes, due=tuple(due), held=tuple(held))
