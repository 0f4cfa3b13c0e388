"""Finds objects that left the repository, decides which may be deleted, and deletes them.

An object that we created is deleted when it leaves the repository, an older one is released. An entry of the inventory
is removed when the server, asked by name, returns that the object does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from compiler import kubernetes as k8s
from compiler.run_kinds import PLANNED_RUN_KINDS
from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Allowed, ChangeResult, Changes, Effects, PrunePlan
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.git.mirror import BranchHead
from reconciler.inventory.keeper import is_marked, origin_of
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.observation.observe import Seen
from reconciler.observation.own_writes import OwnWrites
from reconciler.ownership.guard import PruneSafety, Toll, pods_of_all, prune_plan, sum_tolls, takes_data, toll_of_change
from reconciler.ownership.queues import without_occupied_queues, without_occupied_replacements
from reconciler.part import Part
from reconciler.planning.branch import Target
from reconciler.threads.rest import LookUps
from reconciler.timings import TIMINGS, LookUpTimings, OwnershipTimings

log = logging.getLogger(__name__)


class Deleter(Protocol):
    """The methods of `reconciler.objects.writer.ClusterWriter` that the part needs; documented there."""

    own: OwnWrites

    def is_due(self, change: Change) -> bool: ...
    def is_out_of_time(self) -> bool: ...
    def prune_objects(self, changes: Sequence[Change], inventory: Inventory) -> list[ChangeResult]: ...
    def announce(self, key: str) -> None: ...
    def refused_keys(self) -> set[str]: ...
    def may_still_come(self, ref: Ref, seconds: float) -> bool: ...


@dataclass(slots=True)
class OwnershipPart(Part):
    """find: asks the server by name. head: the branch's. status: the ConfigMap whose annotations release deletions that
    are held back. hold_reason: why an object is not touched."""

    cluster: str
    find: Callable[[Ref], Object | None]
    deleter: Deleter
    head: Callable[[], BranchHead]
    status: Ref
    annotations_of_status: Callable[[], Mapping[str, str]]
    hold_reason: Callable[[Change], str]
    clock: Callable[[], float]
    timings: OwnershipTimings = TIMINGS.ownership
    look_up_timings: LookUpTimings = TIMINGS.look_ups

    # --- ownership

    def confirm_entries(self, seen: Seen, runs: PlannedRuns) -> None:
        """Note the uids of created objects, and starts and runs of jobs."""
        for key, entry in list(seen.inventory.entries.items()):
            if (item := seen.observation.objects.get(key)) is None:
                continue
            is_job = runs.is_job(key)
            if entry.uid != k8s.uid_of(item):
                entry = _with_uid_of(self.cluster, entry, item)
            elif not is_job or (entry.started and _is_known_run(entry, item)):
                continue
            if entry.uid == k8s.uid_of(item) and not entry.started:
                has_begun = is_job and entry.ref.group_kind not in PLANNED_RUN_KINDS and bool(k8s.status_of(item))
                if has_begun or not all(map(k8s.is_gated, seen.pods.get(key, ()))):
                    entry = replace(entry, started=True)
            if entry.uid == k8s.uid_of(item) and is_job and not _is_known_run(entry, item):
                entry = replace(entry, run=runs.digest_of(item))
            seen.inventory.enter(entry)

    def _settle_lost_inventory(self, changes: Changes, seen: Seen, target: Target) -> str:
        """Without an inventory, begin an empty one or rebuild it from our marks. Return why that could run a job a
        second time, so that nothing is written."""
        if not seen.inventory.is_lost or target.snapshot is None:
            return ""
        observation = seen.observation
        obstacles = [*_problems(seen, target), *map(observation.obstacles.get, sorted(observation.withdrawn_kinds))]
        if obstacles:
            return f"there is no inventory, and what is ours cannot be found while a read fails: {obstacles[0]}"
        marked = {key: item for key, item in observation.objects.items() if self._is_ours(item)}
        head = self.head().commit
        creations = [change for change in changes.due if change.action == "create"]
        reruns = sorted(str(change.ref) for change in creations if change.run_digest)
        if marked and reruns and self.annotations_of_status().get(k8s.ALLOW_REBUILD_ANNOTATION) != head:
            names = ", ".join(reruns[:5]) + (", ..." if len(reruns) > 5 else "")
            return (
                f"the inventory is lost, {len(marked)} objects carry our mark, and {len(reruns)} jobs of the "
                f"repository have no object, so they may have had their run: {names}. Nothing is written. To make the "
                f"inventory again from the marks and run these jobs, set the annotation {k8s.ALLOW_REBUILD_ANNOTATION}"
                f": {head} on ConfigMap {self.status.name}; to keep one from running, take it out of the repository "
                "first"
            )
        for item in marked.values():
            seen.inventory.enter(InventoryEntry(ref_of(item), k8s.uid_of(item), origin=origin_of(item, self.cluster)))
        seen.inventory.settle_loss()
        self.confirm_entries(seen, target.runs)
        if marked:
            log.warning("the inventory was lost and is recreated", extra={"objects": len(marked), "jobs": len(reruns)})
        return ""

    def _is_ours(self, item: Object) -> bool:
        """Return whether an object of the repository carries our mark; our own ConfigMaps do as well."""
        ref = ref_of(item)
        is_own = ref.namespace == self.status.namespace and ref.name.startswith(f"gangplan-{self.cluster}-")
        return is_marked(item, self.cluster) and not is_own

    # --- what may be deleted

    def guard(self, changes: Changes, seen: Seen, target: Target) -> Allowed:
        """Return the allowed changes and deletions; replacements that would end too much at once are held back."""
        standstill = self._settle_lost_inventory(changes, seen, target)
        live, obstructed = self._live_inventory(changes, seen, target)
        has_left = not seen.inventory.entries.keys() <= changes.declared
        replaced = [change for change in changes.due if change.action == "replace"]
        pods = _pods_of_all(seen) if has_left or replaced else seen.pods
        tolls = ((change, toll_of_change(change, pods.get(change.ref.key, ()))) for change in replaced)
        dying = ((change, any(toll) or takes_data(change)) for change, toll in tolls)
        ended = {change.ref.key: change for change, dies in dying if dies}
        plan = self._prune_plan(changes, seen, target, live, pods, [*ended.values()])
        held = {change.ref.key for change in plan.held_changes}
        if plan.excess:
            reason, others = "; ".join(plan.excess), ended.keys() - held
            more = [replace(change, action="held", reason=reason) for key, change in ended.items() if key in others]
            plan, held = replace(plan, held_changes=(*plan.held_changes, *more)), held | others
        due = tuple(change for change in changes.due if change.ref.key not in ended.keys() & held)
        changes = replace(changes, due=due, obstructed=(*changes.obstructed, *obstructed))
        changes = without_occupied_replacements(seen.observation, changes)
        plan = without_occupied_queues(seen.observation, plan.holding(self.hold_reason))
        return Allowed(changes, plan, standstill)

    def _prune_plan(
        self,
        changes: Changes,
        seen: Seen,
        target: Target,
        live: Mapping[str, Object | None],
        pods: Mapping[str, list[Object]],
        ended: Sequence[Change],
    ) -> PrunePlan:
        """Annotations that release something are read only when something is held."""
        head = self.head()
        is_of_head = target.snapshot is not None and target.snapshot.commit == head.commit
        safety = PruneSafety(
            head.commit,
            has_compiled=is_of_head and not target.rewrite_message and not head.problem,
            problems=_problems(seen, target),
            recent=self._recent_toll(seen, live),
            status_name=self.status.name,
            timings=self.timings,
        )
        plan = prune_plan(changes.declared, seen.inventory, live, pods, safety, ended)
        awaits_leave = plan.excess or plan.waits_for_release
        if awaits_leave and safety.has_compiled:
            on_cluster = target.snapshot.settings.allow_prune if target.snapshot else ""
            allowed = {self.annotations_of_status().get(k8s.ALLOW_PRUNE_ANNOTATION, ""), on_cluster} - {""}
            safety = replace(safety, allowed=frozenset(allowed))
            plan = prune_plan(changes.declared, seen.inventory, live, pods, safety, ended)
        return plan

    def _live_inventory(
        self, changes: Changes, seen: Seen, target: Target
    ) -> tuple[Mapping[str, Object | None], list[Change]]:
        """Return the current state of the inventory's objects, and a held change for each unreadable one. An object
        whose kind is in no plan is read by name."""
        live: dict[str, Object | None] = {}
        obstructed: list[Change] = []
        obstacles = dict(seen.observation.obstacles)
        for key, entry in seen.inventory.entries.items():
            kind = entry.ref.group_kind
            if kind in seen.observation.readable_kinds:
                live[key] = seen.observation.objects.get(key)
            elif key not in changes.declared and target.snapshot is not None:
                if kind not in obstacles:
                    try:
                        live[key] = self.find(entry.ref)
                        continue
                    except ApiError as error:
                        obstacles[kind] = str(error)
                doubt = f"unknown whether it still exists: {obstacles[kind]}"
                obstructed.append(Change("held", entry.ref, reason=f"it is no longer in the repository, and {doubt}"))
        return live, obstructed

    def _recent_toll(self, seen: Seen, live: Mapping[str, Object | None]) -> Toll:
        """Return the losses within the hour. Announced deletions do not count if the object exists, or the server did
        not accept them."""
        inventory = seen.inventory
        if inventory.announced:  # rare, and it visits all objects
            there = {k8s.uid_of(item) for item in filter(None, live.values()) if not k8s.is_terminating(item)}
            unknown = {entry.uid for key, entry in inventory.entries.items() if key not in live}
            inventory.settle_announced(there | (unknown - self.deleter.own.deleted_uids()))
        inventory.trim_deletions(int(seen.wall_now), self.timings.prune_window)
        return sum_tolls(Toll(*row[1:]) for row in inventory.deletions)

    # --- deleting it

    def announce_deletions(self, changes: Iterable[Change], seen: Seen, plan: PrunePlan) -> None:
        """Note what these changes end before any is made: a process that is killed meanwhile would let as much go
        again. One that is tried again counts from then on."""
        ended = [change for change in changes if change.action in ("prune", "replace")] if plan.counts else []
        pods, now = _pods_of_all(seen) if ended else {}, int(seen.wall_now)
        for change in ended:
            toll = toll_of_change(change, pods.get(change.ref.key, ()))
            if any(toll) and change.live and seen.inventory.announce_deletion(k8s.uid_of(change.live), now, toll):
                self.deleter.announce(change.ref.key)

    def prune(self, allowed: Allowed, seen: Seen, done: Iterable[ChangeResult]) -> Effects:
        """Delete and release objects that left the repository, and remove entries without an object. done: of the
        changes so far."""
        # A new object of another kind takes a name first. One that the server refuses may need the room.
        tried = {result.change.ref.key for result in done if result.outcome == "done"} | self.deleter.refused_keys()
        new = (change.ref for change in allowed.changes.due if change.action == "create")
        plan, awaited = allowed.prune_plan, {(ref.namespace, ref.name) for ref in new if ref.key not in tried}
        due = [change for change in (*plan.releases, *plan.changes) if self.deleter.is_due(change)]
        due = [change for change in due if (change.ref.namespace, change.ref.name) not in awaited]
        self.announce_deletions(due, seen, plan)
        results = self.deleter.prune_objects(due, seen.inventory)
        self._trim_gone_entries(seen, plan.vanished_keys)
        return Effects(tuple(results))

    def _trim_gone_entries(self, seen: Seen, vanished: Collection[str]) -> None:
        """Remove entries whose object was deleted, or recreated without our mark. Intents stay while a request may
        still arrive."""
        look_ups = LookUps(self.clock, self.look_up_timings)
        has_intents = seen.now - seen.leads_since <= self.timings.intent
        for key in vanished:
            entry = seen.inventory.entries[key]
            if (has_intents and not entry.uid) or self.deleter.may_still_come(entry.ref, self.timings.intent):
                continue
            if self.deleter.is_out_of_time() or not look_ups.may_ask():
                return
            try:
                item = self.find(entry.ref)
            except ApiError as error:
                reason = {"object": str(entry.ref), "reason": str(error)}
                log.info("whether an object is gone is not known", extra=reason)
                continue
            found = _with_uid_of(self.cluster, entry, item)
            if item is not None and found.uid == k8s.uid_of(item):
                seen.inventory.enter(found)
            else:
                seen.inventory.drop_entry(key)


def _is_known_run(entry: InventoryEntry, job: Object) -> bool:
    return k8s.annotations_of(job).get(k8s.DIGEST_ANNOTATION, "") == entry.run


def _with_uid_of(cluster: str, entry: InventoryEntry, item: Object | None) -> InventoryEntry:
    """Return the entry of an intent, or of an object recreated just before a stop, with its uid: ours only with our
    mark."""
    if item is None or k8s.uid_of(item) == entry.uid or not is_marked(item, cluster):
        return entry
    if k8s.is_terminating(item):  # deleted by us for a new run, or older than the one that we know
        return entry if entry.uid else replace(entry, uid=k8s.uid_of(item))
    return InventoryEntry(entry.ref, k8s.uid_of(item), origin=origin_of(item, cluster))


def _problems(seen: Seen, target: Target) -> tuple[str, ...]:
    return (*dict.fromkeys((*seen.observation.problems, *target.problems)),)


def _pods_of_all(seen: Seen) -> Mapping[str, list[Object]]:
    observation = seen.observation
    return pods_of_all(seen.inventory.entries, seen.pods, observation.objects, observation.objects_of_kind("Pod"))
