"""Runs of jobs: what is recorded of them, so that each runs once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.fields.timestamp import rfc3339
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, namespace_of, uid_of
from compiler.run_kinds import end_of_run, has_time_to_live, is_run
from reconciler.changes.diff import is_annotation_overwritten
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.context import Pass, Reconciler, planned_runs
from reconciler.inventory.store import FinishedRun, InventoryEntry
from reconciler.observation.look_ups import LookUps
from reconciler.observation.owners import pods_by_job
from reconciler.observation.unlabelled import is_unconfirmed
from reconciler.observation.volcano import VOLCANO_JOB
from reconciler.runs.lost_jobs import is_given_up
from reconciler.runs.run_record import RunRecord, final_record, with_pods

_FLOW = "JobFlow.flow.volcano.sh"
UNKNOWN_PHASE = "Unknown"
"""How a run ended that vanished, with a time to live, while no reconciler watched."""
MAX_FORMER_RUNS = 5
"""Former runs of a job that are kept at most."""
_OF_LAST_RUN = frozenset({"former", "failures", "events"})
"""What is kept of the last run only."""


def _is_run(r: Reconciler, item: Object) -> bool:
    """Whether the object runs once: as the plan has it, or by what it says itself."""
    return is_run(item) or r.planning.is_job(ref_of(item).key)


def former_flows(p: Pass) -> Iterator[str]:
    """The JobFlows that are gone and of which Jobs are left, by Ref.key: until they are collected a new one of the name
    would take them for its own and be over without a run."""
    if _FLOW not in p.observation.readable_kinds:
        return
    uids = {uid_of(flow) for flow in p.observation.objects_of_kind(_FLOW)}
    for job in p.observation.objects_of_kind(VOLCANO_JOB):
        for owner in job["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "JobFlow" and owner["uid"] not in uids:
                yield f"{_FLOW}/{namespace_of(job)}/{owner['name']}"


def record_deletions(r: Reconciler, p: Pass) -> None:
    """Take up what the watches saw go: a finished job has had its run, another of ours may be created again."""
    entries, new = p.inventory.entries, list(_believed_deletions(r, p))
    _record_gone_pods(r, p, [item for item, _ in new])
    for item, _ in new:
        if _is_run(r, item):
            r.departed_jobs.record_departure(ref_of(item).key, r.clock())
    for item, witnessed in r.deletions.take(p.inventory, new):
        ref = ref_of(item)
        if _is_run(r, item) and ref.key in entries and entries[ref.key].uid == uid_of(item):
            if (phase := end_of_run(item)) and not _has_never_begun(p, item):
                _record_run(r, p, item, phase)
            elif witnessed:
                p.inventory.enter(InventoryEntry(ref))


def _record_gone_pods(r: Reconciler, p: Pass, gone: Sequence[Object]) -> None:
    """Add the pods among these objects to the records of the jobs that have not ended. Only the replica that leads does
    so: what another had seen go is in the inventory already."""
    if not r.was_holder:
        return
    pods = r.deletions.take_pods(p.inventory, [item for item in gone if item["kind"] == "Pod"])
    jobs = {**p.observation.jobs, **{ref_of(item).key: item for item in gone if _is_run(r, item)}} if pods else {}
    now = rfc3339(int(r.wall_clock()))
    for key, found in pods_by_job(pods, jobs)[0].items():
        if found and r.planning.is_job(key) and _goes_on(p, key, uid_of(jobs[key])):
            entry = p.inventory.entries[key]
            p.inventory.enter(replace(entry, record=with_pods(entry.record, found, now)))


def _goes_on(p: Pass, key: str, uid: str) -> bool:
    """Whether this very object is ours and its end is not recorded."""
    entry, run = p.inventory.entries.get(key), p.inventory.runs.get(key)
    return entry is not None and entry.uid == uid and (run is None or run.details.get("uid") != uid)


def _believed_deletions(r: Reconciler, p: Pass) -> Iterator[tuple[Object, bool]]:
    """What the watches saw go, without jobs that are still there and have only lost our label. Where it is not known
    which of the two it is, the next pass is told again."""
    for item, witnessed in list(r.watches.take_deletions()):
        ref = ref_of(item)
        known = p.observation.objects.get(ref.key)
        if not is_unconfirmed(r, p, item):
            yield item, witnessed
        elif known is None or uid_of(known) != uid_of(item):
            r.watches.record_deletion(item, witnessed)
            if ref.group_kind in p.observation.readable_kinds and ref.key not in p.unconfirmed_ends:
                r.wake_event.set()


def record_finished_runs(r: Reconciler, p: Pass) -> None:
    """Enter the runs of the jobs that have ended."""
    planned = r.planning.snapshot.jobs.keys() if r.planning.snapshot else set()
    for key in (planned | p.inventory.entries.keys()) & p.observation.objects.keys():
        job = p.observation.objects[key]
        if r.planning.running.get(key) is job:
            continue
        if _is_run(r, job) and (phase := end_of_run(job)):
            r.planning.forget_running(key)
            if not _has_never_begun(p, job):
                _record_run(r, p, job, phase)
        else:
            r.planning.note_running(key, job)


def _has_never_begun(p: Pass, job: Object) -> bool:
    """Whether Volcano ended the job without a pod: it has had no run, and is made again."""
    entry = p.inventory.entries.get(ref_of(job).key)
    is_unstarted = entry is not None and entry.uid == uid_of(job) and not entry.started
    return is_unstarted and is_given_up(job) and not p.pods.get(ref_of(job).key)


def _record_run(r: Reconciler, p: Pass, job: Object, phase: str) -> None:
    """Enter a run that is over, once; what was seen of the job's former runs stays with it."""
    ref, digest = ref_of(job), run_digest_of(r, job)
    known, uid = p.inventory.runs.get(ref.key), uid_of(job)
    if known is not None and known.details.get("uid") == uid:
        digest = known.digest  # one object is one run, whatever is written into it afterwards
    if known is not None and (known.digest, known.phase) == (digest, phase):
        return
    record = final_record(_record_so_far(p, ref.key, uid), job, p.pods.get(ref.key, ()))
    details: dict[str, Any] = {**record, "uid": uid}
    former = list(known.details.get("former", ())) if known is not None else []
    if known is not None and known.digest != digest:
        former.append({"digest": known.digest, "phase": known.phase, **_of_former(known.details)})
    if former:
        details["former"] = former[-MAX_FORMER_RUNS:]
    p.inventory.record_run(FinishedRun(ref, digest, phase, details=details))


def _record_so_far(p: Pass, key: str, uid: str) -> RunRecord:
    """What the inventory knows of pods of this very object that are gone."""
    entry = p.inventory.entries.get(key)
    return entry.record if entry is not None and entry.uid == uid else {}


def _of_former(details: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in details.items() if key not in _OF_LAST_RUN}


def observe_lost_jobs(r: Reconciler, p: Pass, refs: Sequence[Ref]) -> None:
    """Look at the Volcano Jobs of the plan that are to have pods. refs: of `p.desired_manifests`."""
    jobs = {}
    for manifest, ref in zip(p.desired_manifests, refs, strict=True):
        live = p.observation.objects.get(ref.key)
        if live is not None and manifest.pods and ref.group_kind == VOLCANO_JOB:
            jobs[ref.key] = live
    started = {key for key in jobs.keys() & p.inventory.entries.keys() if p.inventory.entries[key].started}
    r.lost_jobs.observe(jobs, p.pods, p.observation.objects, r.clock(), started)


def run_digest_of(r: Reconciler, job: Object) -> str:
    """The digest of the run that a job in the cluster was made from; of the planned run where another manager has
    overwritten ours."""
    written = annotations_of(job).get(DIGEST_ANNOTATION)
    if written and not is_annotation_overwritten(job, DIGEST_ANNOTATION):
        return written
    return planned_runs(r, ref_of(job).key).of(ref_of(job).key)


def record_unobserved_ends(r: Reconciler, p: Pass) -> None:
    """Enter the runs of started jobs with a time to live that are gone although no reconciler saw them go: most likely
    they finished, and a doubled run is worse than one that a person has to ask for again. What was written into the
    repository since is another run.

    The server is asked for each of them: a list that lacks it is not enough.
    """
    failure, look_ups = "", LookUps(r.clock)
    for key, run in list(_unobserved_ends(r, p)):
        if not failure and not look_ups.may_ask():
            failure = "the server is yet to be asked whether it is gone"
            r.wake_event.set()
        try:
            if not failure and r.client.find(run.ref) is None:
                p.inventory.record_run(run)
                continue
        except ApiError as error:
            failure = f"whether it is gone is not known: {error}"
        p.doubt_end(key, failure or "the server's list does not show it, but it is there")


def _unobserved_ends(r: Reconciler, p: Pass) -> Iterator[tuple[str, FinishedRun]]:
    for key, manifest in p.snapshot.jobs.items() if p.snapshot else ():
        entry, run = p.inventory.entries.get(key), p.inventory.runs.get(key)
        if entry is None or not entry.uid or not entry.started or not has_time_to_live(manifest.object):
            continue
        digest = entry.run or planned_runs(r, key).numbered(key, manifest.run_digest)
        is_known = run is not None and run.digest == digest
        is_present = key in p.observation.objects
        if not is_known and not is_present and entry.ref.group_kind in p.observation.readable_kinds:
            record = final_record(entry.record, manifest.object, ())
            yield key, FinishedRun(entry.ref, digest, UNKNOWN_PHASE, details=record)
