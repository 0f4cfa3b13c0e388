"""Whether Volcano's controllers or scheduler have stalled: what gangs of the plan wait for, and what these do."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.kubernetes import is_terminating
from reconciler.changes.diff import Change
from reconciler.cluster.objects import ref_of
from reconciler.context import Pass, Reconciler
from reconciler.planning.snapshot import Snapshot
from reconciler.runs.lost_jobs import VOLCANO_JOB, pod_group_key
from reconciler.scheduler.stalls import (
    is_of_volcano,
    is_served,
    is_unseen_group,
    is_unseen_pod,
    signs_of_controllers,
    signs_of_scheduler,
)

_POD_GROUP = "PodGroup.scheduling.volcano.sh"
_NEEDED = frozenset({VOLCANO_JOB, _POD_GROUP, "Pod"})


def observe_stalls(r: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """Look at what the gangs of the plan wait for. While that cannot be read, nothing is concluded."""
    stalls, now, seen = r.stalls, r.clock(), p.observation
    if not seen.readable_kinds >= _NEEDED:
        stalls.restart(now)
        return
    if not stalls.take_look(now):
        return
    unserved, unscheduled = set(_unserved_jobs(r, p, snapshot)), set(_unscheduled_jobs(r, p, snapshot))
    stalls.controllers.observe(
        unserved, signs_of_controllers(seen.objects_of_kind(VOLCANO_JOB)) if unserved else {}, now
    )
    groups, pods = seen.objects_of_kind(_POD_GROUP), seen.objects_of_kind("Pod")
    stalls.scheduler.observe(unscheduled, signs_of_scheduler(groups, pods) if unscheduled else {}, now)


def stalled_components(r: Reconciler, p: Pass) -> Iterator[Change]:
    """A row for each component that has stalled, at the first job that waits for it."""
    gangs = p.snapshot.gangs if p.snapshot else {}
    for detector in r.stalls.detectors:
        message = detector.message(r.clock())
        waiting = [key for key in detector.waiting if key in gangs]
        if message and waiting:
            job = p.observation.objects.get(waiting[0])
            yield Change("held", gangs[waiting[0]].job, live=job, reason=message)


def _unserved_jobs(r: Reconciler, p: Pass, snapshot: Snapshot) -> Iterator[str]:
    """Ref.key of each Volcano Job without a status; of one that is being made again, since it got no pods, as well."""
    for key, gang in snapshot.gangs.items():
        if gang.job.group_kind != VOLCANO_JOB:
            continue
        job = p.observation.objects.get(key)
        if job is None or is_terminating(job):
            if key in r.lost_jobs.repeats:
                yield key
        elif not is_served(job):
            yield key


def _unscheduled_jobs(r: Reconciler, p: Pass, snapshot: Snapshot) -> Iterator[str]:
    """Ref.key of each gang that may start, and of which the scheduler has not looked at the PodGroup or at pods."""
    groups = {ref_of(each).key for each in p.observation.objects_of_kind(_POD_GROUP) if is_unseen_group(each)}
    if not groups and not r.binding.unbound_since:
        return
    for key, gang in snapshot.gangs.items():
        job = p.observation.objects.get(key)
        if job is None or gang.decision == "wait":
            continue
        given = [pod for pod in r.binding.waiting_pods(p.pods.get(key, ())) if is_of_volcano(pod)]
        if pod_group_key(job) in groups or any(map(is_unseen_pod, given)):
            yield key
