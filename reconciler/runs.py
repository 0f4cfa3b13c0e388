"""Runs of jobs: what is recorded of them, so that each runs once."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.emit.manifest import JOB_KINDS
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, final_phase, uid_of
from reconciler.cluster.client import ApiError
from reconciler.cluster.inventory import FinishedRun, InventoryEntry
from reconciler.cluster.objects import Object, ref_of
from reconciler.context import Pass, Reconciler

UNKNOWN_PHASE = "Unknown"
"""How a run ended that vanished, with a time to live, while no reconciler watched."""


def is_job(key: str) -> bool:
    return key.partition("/")[0] in JOB_KINDS


def record_deletions(r: Reconciler, p: Pass) -> None:
    """Take up what the watches saw go: a finished job has had its run, another of ours may be created again."""
    entries = p.inventory.entries
    while r.watches.deleted_objects:
        item, witnessed = r.watches.deleted_objects.pop()
        ref = ref_of(item)
        if not is_job(ref.key):
            continue
        r.departed_jobs[ref.key] = r.clock(), r.clock()
        if ref.key in entries and entries[ref.key].uid == uid_of(item):
            if phase := final_phase(item):
                p.inventory.runs[ref.key] = FinishedRun(ref, run_digest_of(r, item), phase)
            elif witnessed:
                entries[ref.key] = InventoryEntry(ref)


def record_finished_runs(r: Reconciler, p: Pass) -> None:
    """Enter the runs of the jobs that have ended."""
    planned = r.planning.snapshot.jobs.keys() if r.planning.snapshot else set()
    for key in (planned | p.inventory.entries.keys()) & p.observation.objects.keys():
        job = p.observation.objects[key]
        if is_job(key) and (phase := final_phase(job)):
            p.inventory.runs[key] = FinishedRun(ref_of(job), run_digest_of(r, job), phase)


def finished_job_keys(r: Reconciler, p: Pass) -> frozenset[str]:
    """Jobs whose present specification has had its run."""
    return frozenset(key for key, run in p.inventory.runs.items() if run.digest == planned_run(r, key, run.digest))


def planned_run(r: Reconciler, key: str, default: str = "") -> str:
    """The digest of the job's run in the newest plan; `default` where it is in none."""
    manifest = r.planning.snapshot.jobs.get(key) if r.planning.snapshot else None
    return manifest.run_digest if manifest else default


def run_digest_of(r: Reconciler, job: Object) -> str:
    """The digest of the run that a job in the cluster was made from."""
    return annotations_of(job).get(DIGEST_ANNOTATION) or planned_run(r, ref_of(job).key)


def record_unobserved_ends(r: Reconciler, p: Pass) -> None:
    """Enter the runs of started jobs with a time to live that are gone although no reconciler saw them go: most likely
    they finished, and a doubled run is worse than one that a person has to ask for again.

    The server is asked for each of them: a list that lacks it is not enough.
    """
    failure = ""
    for key, run in list(_unobserved_ends(r, p)):
        try:
            if not failure and r.client.find(run.ref) is None:
                p.inventory.runs[key] = run
                continue
        except ApiError as error:
            failure = f"whether it is gone is not known: {error}"
        p.unconfirmed_ends[key] = failure or "the server's list does not show it, but it is there"


def _unobserved_ends(r: Reconciler, p: Pass) -> Iterator[tuple[str, FinishedRun]]:
    for key, manifest in p.snapshot.jobs.items() if p.snapshot else ():
        entry, run = p.inventory.entries.get(key), p.inventory.runs.get(key)
        if entry is None or not entry.uid or not entry.started or not _has_time_to_live(manifest.object):
            continue
        is_known = run is not None and run.digest == manifest.run_digest
        is_present = key in p.observation.objects or key in r.writer.memory.last_writes
        if not is_known and not is_present and entry.ref.group_kind in p.observation.readable_kinds:
            yield key, FinishedRun(entry.ref, manifest.run_digest, UNKNOWN_PHASE)


def _has_time_to_live(job: Object) -> bool:
    spec = job["spec"]
    return any(part.get("ttlSecondsAfterFinished") is not None for part in (spec, spec.get("runPolicy") or {}))
