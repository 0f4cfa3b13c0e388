"""Runs of jobs: their records, so that each runs once, and jobs that have lost their run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

from compiler.emit.manifest import Manifest
from compiler.fields.times import rfc3339
from compiler.kubernetes import namespace_of, uid_of
from compiler.run_kinds import end_of_run, has_time_to_live, is_run
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import ChangeResult
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.inventory.store import FinishedRun, Inventory, InventoryEntry
from reconciler.observation.observe import Observation, Seen
from reconciler.observation.owners import pods_by_job
from reconciler.observation.pods import POD_GROUP, VOLCANO_JOB
from reconciler.part import Part
from reconciler.runs.lost_jobs import DepartedJobs, LostJobs, is_given_up
from reconciler.runs.run_record import final_record, with_pods
from reconciler.threads.memo import drop_other_keys
from reconciler.threads.rest import LookUps
from reconciler.timings import TIMINGS, LookUpTimings, RunTimings

_FLOW = "JobFlow.flow.volcano.sh"
UNKNOWN_PHASE = "Unknown"
"""How a run ended that vanished, with a time to live, while no reconciler watched."""
MAX_FORMER_RUNS = 5
"""Former runs of a job that are kept at most."""
_OF_LAST_RUN = frozenset({"former", "failures", "events"})
"""Details kept of the last run only."""


@dataclass(slots=True)
class RunsPart(Part):
    """find: asks the server for an object by name. wake: requests a pass. running: Ref.key of a job -> the object,
    where that had not ended."""

    find: Callable[[Ref], Object | None]
    clock: Callable[[], float]
    wake: Callable[[], None]
    timings: RunTimings = TIMINGS.runs
    look_up_timings: LookUpTimings = TIMINGS.look_ups
    lost_jobs: LostJobs = field(init=False)
    departed_jobs: DepartedJobs = field(init=False)
    running: dict[str, Object] = field(default_factory=dict)
    _last_inventory: Inventory | None = None
    _unsaved: list[tuple[Object, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lost_jobs, self.departed_jobs = LostJobs(self.timings), DepartedJobs(self.timings)

    def record_deletions(self, seen: Seen, runs: PlannedRuns, gone: Sequence[tuple[Object, bool]]) -> None:
        """Record the deletions seen by the watches: a finished job has had its run, another of ours may be created
        again. gone: the last state of each object, and whether the deletion itself was seen."""
        inventory = seen.inventory
        for item, _ in gone:
            if _is_run(runs, item):
                self.departed_jobs.record_departure(ref_of(item).key, seen.now)
        of_any_replica = [each for each in gone if each[0]["kind"] != "Pod"]
        entries = self._missing_in(inventory, list(gone) if seen.is_leading else of_any_replica)
        self._record_gone_pods(seen, runs, [item for item, _ in entries])
        for item, witnessed in entries:
            if _is_run(runs, item) and _is_entered(inventory, item):
                if (phase := end_of_run(item)) and not _has_never_begun(seen, item):
                    _record_run(seen, runs, item, phase)
                elif witnessed:
                    inventory.enter(InventoryEntry(ref_of(item)))

    def _missing_in(self, inventory: Inventory, new: list[tuple[Object, bool]]) -> list[tuple[Object, bool]]:
        """Return the deletions to enter into this inventory. A deletion is seen once, and entered again into an
        inventory that is read again before it is stored: else a job deleted by a person would count as one that
        finished unseen."""
        again: list[tuple[Object, bool]] = []
        if self._last_inventory is not None and self._last_inventory.is_stored:
            self._unsaved = []
        elif inventory is not self._last_inventory:
            counting = (row[0]["kind"] == "Pod" or _is_entered(inventory, row[0]) for row in self._unsaved)
            again = list(compress(self._unsaved, counting))
            self._unsaved = again
        self._unsaved, self._last_inventory = self._unsaved + new, inventory
        return again + new

    def _record_gone_pods(self, seen: Seen, runs: PlannedRuns, gone: Sequence[Object]) -> None:
        """Add the pods among these objects to the records of the jobs that have not ended. The replica that leads does
        so: what another had seen go is in the inventory already."""
        pods = [item for item in gone if item["kind"] == "Pod"]
        gone_jobs = {ref_of(item).key: item for item in gone if _is_run(runs, item)}
        jobs = {**seen.observation.jobs, **gone_jobs} if pods else {}
        now = rfc3339(int(seen.wall_now))
        for key, found in pods_by_job(pods, jobs)[0].items():
            if found and runs.is_job(key) and _goes_on(seen.inventory, jobs[key]):
                entry = seen.inventory.entries[key]
                seen.inventory.enter(replace(entry, record=with_pods(entry.record, found, now)))

    def record_ends(self, seen: Seen, runs: PlannedRuns) -> None:
        """Enter the runs of the jobs that have ended, and reserve the names of deleted ones that have pods or jobs
        left."""
        for key in (runs.jobs.keys() | seen.inventory.entries.keys()) & seen.observation.objects.keys():
            job = seen.observation.objects[key]
            if self.running.get(key) is job:
                continue
            if _is_run(runs, job) and (phase := end_of_run(job)):
                self.running.pop(key, None)
                if not _has_never_begun(seen, job):
                    _record_run(seen, runs, job, phase)
            else:
                self.running[key] = job
        with_pods_left = seen.observation.pods_by_job[1]
        self.departed_jobs.observe((*filter(runs.is_job, with_pods_left), *former_flows(seen.observation)), seen.now)

    def record_unobserved_ends(self, seen: Seen, runs: PlannedRuns) -> dict[str, str]:
        """Enter the runs of started jobs with a time to live that were deleted unobserved: a doubled run is worse than
        one that a person has to request again. The server is asked for each: absence from a list is not enough. Return
        Ref.key -> why it is unknown whether the job still exists."""
        doubts: dict[str, str] = {}
        failure, look_ups = "", LookUps(self.clock, self.look_up_timings)
        for key, run in list(_unobserved_ends(seen, runs)):
            if not failure and not look_ups.may_ask():
                failure = "the server is yet to be asked whether it is gone"
                self.wake()
            try:
                if not failure and self.find(run.ref) is None:
                    seen.inventory.record_run(run)
                    continue
            except ApiError as error:
                failure = f"whether it is gone is not known: {error}"
            doubts[key] = failure or "the server's list does not show it, but it is there"
        return doubts

    def observe_lost_jobs(self, seen: Seen, wanted: Iterable[tuple[Ref, Manifest]]) -> None:
        """Look at the Volcano Jobs that are to have pods, of what the cluster is to hold; at none while their pods or
        PodGroups are uncertain."""
        objects, entries = seen.observation.objects, seen.inventory.entries
        of_pods = (ref for ref, manifest in wanted if manifest.pods)
        keys = {ref.key for ref in of_pods if ref.group_kind == VOLCANO_JOB}
        is_certain = seen.observation.readable_kinds >= {"Pod", POD_GROUP}
        jobs = {key: objects[key] for key in sorted(keys & objects.keys())} if is_certain else {}
        started = {key for key in jobs.keys() & entries.keys() if entries[key].started}
        quotas = seen.observation.objects_of_kind("ResourceQuota")
        self.lost_jobs.observe(jobs, seen.pods, objects, seen.now, started, quotas)

    def record_results(self, results: Iterable[ChangeResult]) -> None:
        """Count how often lost jobs were made again."""
        for result in results:
            change = result.change
            replaced = change.live if result.outcome == "done" and change.action == "replace" else None
            if replaced is not None and self.lost_jobs.message(replaced, self.clock()):
                self.lost_jobs.record_repeat(change.ref.key)

    def deadlines(self, now: float) -> Iterator[float]:
        """Yield when names are free again, and when jobs count as lost."""
        yield from self.departed_jobs.reservations().values()
        yield from self.lost_jobs.deadlines(now)

    def forget_except(self, live: Collection[str]) -> None:
        """Forget all objects but these, by Ref.key."""
        drop_other_keys(self.lost_jobs.repeats, live)
        drop_other_keys(self.running, live)


def _is_entered(inventory: Inventory, item: Object) -> bool:
    """Return whether the inventory has this very object."""
    entry = inventory.entries.get(ref_of(item).key)
    return entry is not None and entry.uid == uid_of(item)


def _is_run(runs: PlannedRuns, item: Object) -> bool:
    """Return whether the object runs once, by the plan or by its own fields."""
    return is_run(item) or runs.is_job(ref_of(item).key)


def former_flows(observation: Observation) -> Iterator[str]:
    """Yield the Ref.key of deleted JobFlows with remaining Jobs. Until these are collected, a new JobFlow of the name
    would adopt them and finish without a run."""
    if _FLOW not in observation.readable_kinds:
        return
    uids = {uid_of(flow) for flow in observation.objects_of_kind(_FLOW)}
    for job in observation.objects_of_kind(VOLCANO_JOB):
        for owner in job["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "JobFlow" and owner["uid"] not in uids:
                yield f"{_FLOW}/{namespace_of(job)}/{owner['name']}"


def _goes_on(inventory: Inventory, job: Object) -> bool:
    """Return whether this very object is ours and its end is not recorded."""
    run = inventory.runs.get(ref_of(job).key)
    return _is_entered(inventory, job) and (run is None or run.details.get("uid") != uid_of(job))


def _has_never_begun(seen: Seen, job: Object) -> bool:
    """Return whether Volcano ended the job without a pod: it has had no run, and is made again. Without an
    inventory its status decides."""
    key, is_entered = ref_of(job).key, _is_entered(seen.inventory, job)
    is_unstarted = not seen.inventory.entries[key].started if is_entered else seen.inventory.is_lost
    return is_unstarted and is_given_up(job) and not seen.pods.get(key)


def _record_run(seen: Seen, runs: PlannedRuns, job: Object, phase: str) -> None:
    """Enter a finished run, once, with the records of the job's former runs."""
    inventory, ref, uid = seen.inventory, ref_of(job), uid_of(job)
    known, digest = inventory.runs.get(ref.key), runs.digest_of(job)
    if known is not None and known.details.get("uid") == uid:
        digest = known.digest  # one object is one run, whatever changes in it later
    if known is not None and (known.digest, known.phase) == (digest, phase):
        return
    so_far = inventory.entries[ref.key].record if _is_entered(inventory, job) else {}
    details: dict[str, Any] = {**final_record(so_far, job, seen.pods.get(ref.key, ())), "uid": uid}
    former = list(known.details.get("former", ())) if known is not None else []
    if known is not None and known.digest != digest:
        kept = {key: value for key, value in known.details.items() if key not in _OF_LAST_RUN}
        former.append({"digest": known.digest, "phase": known.phase, **kept})
    if former:
        details["former"] = former[-MAX_FORMER_RUNS:]
    inventory.record_run(FinishedRun(ref, digest, phase, details=details))


def _unobserved_ends(seen: Seen, runs: PlannedRuns) -> Iterator[tuple[str, FinishedRun]]:
    for key, manifest in runs.jobs.items():
        entry, run = seen.inventory.entries.get(key), seen.inventory.runs.get(key)
        if entry is None or not entry.uid or not entry.started or not has_time_to_live(manifest.object):
            continue
        digest = entry.run or runs.of(key)
        is_known = run is not None and run.digest == digest
        is_present = key in seen.observation.objects
        if not is_known and not is_present and entry.ref.group_kind in seen.observation.readable_kinds:
            record = final_record(entry.record, manifest.object, ())
            yield key, FinishedRun(entry.ref, digest, UNKNOWN_PHASE, details=record)
