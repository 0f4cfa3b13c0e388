"""Whether Volcano's controllers and scheduler still act. Decisions on data, no IO.

A process that hangs, that lost its leader election, or that does not exist reports nothing itself; overdue work shows
it. A new Volcano Job gets a status from the controllers before anything else, and a PodGroup its phase from the
scheduler in its first session, also if it is not admitted; a pod whose gate was lifted is bound, or gets the
scheduler's message. A component has stalled if one of these is overdue by `SchedulerTimings.stalled` and nothing else
that only it writes has changed meanwhile. On a quiet cluster nothing is overdue, and a large wave is one change after
the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from compiler import kubernetes as k8s
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Seen
from reconciler.observation.pods import POD_GROUP, VOLCANO_JOB, pod_group_key

Signs = Mapping[str, Any]
"""uid of each object that the component has written -> the written value."""
_PHASES_OF_NEW_GROUPS = (None, "", "Pending")
"""Phases of PodGroups that the scheduler may not have examined: others write the last one as well."""


@dataclass(slots=True)
class StallDetector:
    """One component. what_stopped, deployment: for people. patience: seconds after which it has stalled. waiting:
    Ref.key of the jobs that wait for it. since: when they began to, or when it was last seen to act, on the clock.
    signs: as last seen, while jobs wait."""

    what_stopped: str
    deployment: str
    patience: float
    waiting: tuple[str, ...] = ()
    since: float = inf
    signs: Signs = field(default_factory=dict)

    def observe(self, waiting: Collection[str], signs: Signs, now: float) -> None:
        """Record which jobs wait for it, and what it has written."""
        has_acted = any(self.signs.get(uid) != written for uid, written in signs.items())
        if not self.waiting or has_acted:
            self.since = now
        self.waiting, self.signs = tuple(sorted(waiting)), signs if waiting else {}

    def restart(self, now: float) -> None:
        """Conclude nothing from the time before: the cluster could not be read."""
        self.since = now

    def message(self, now: float) -> str:
        """Return a sentence if it has stalled; empty if it has not, or that is unknown."""
        if not self.waiting or now - self.since < self.patience:
            return ""
        count = len(self.waiting)
        jobs = f"{count} jobs wait" if count > 1 else "a job waits"
        return (
            f"{self.what_stopped} for more than {self.patience:g} s, and {jobs} for that: look at deployment "
            f"{self.deployment} in {k8s.SCHEDULER_NAMESPACE} (whether it runs, leads and logs), then at the job's "
            "Events"
        )

    def deadlines(self, now: float) -> list[float]:
        """Return when it counts as stalled."""
        at = self.since + self.patience
        return [at] if self.waiting and at > now else []


def unserved_jobs(seen: Seen, gangs: Mapping[str, PlannedGang], repeats: Collection[str]) -> Iterator[str]:
    """Yield Ref.key of each Volcano Job without a status; of one that is being made again, as well."""
    for key, gang in gangs.items():
        if gang.job.group_kind != VOLCANO_JOB:
            continue
        job = seen.observation.objects.get(key)
        if job is None or k8s.is_terminating(job):
            if key in repeats:
                yield key
        elif not is_served(job):
            yield key


def unscheduled_jobs(seen: Seen, gangs: Mapping[str, PlannedGang], unbound: Collection[str]) -> Iterator[str]:
    """Yield Ref.key of each gang that may start, and of which the scheduler has not looked at the PodGroup or at
    pods."""
    of_kind = seen.observation.objects_of_kind(POD_GROUP)
    groups = {
        ref_of(each).key for each in of_kind if not k8s.status_of(each).get("phase")
    }  # its first session gives one
    if not groups and not unbound:
        return
    for key, gang in gangs.items():
        job = seen.observation.objects.get(key)
        if job is None or gang.decision == "wait":
            continue
        pods = filter(is_of_volcano, seen.pods.get(key, ()))
        if pod_group_key(job) in groups or any(k8s.uid_of(pod) in unbound and is_unseen_pod(pod) for pod in pods):
            yield key


def is_served(job: Object) -> bool:
    """Return whether the controllers have looked at the Volcano Job: they give it a status first."""
    return bool((k8s.status_of(job).get("state") or {}).get("phase"))


def is_unseen_pod(pod: Object) -> bool:
    """Return whether the scheduler has neither bound the pod nor given a reason. "SchedulingGated" is the API
    server's."""
    return not k8s.bound_node(pod) and all(reason == "SchedulingGated" for reason, _ in _scheduled_rows(pod))


def is_of_volcano(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("schedulerName") == k8s.VOLCANO_SCHEDULER)


def signs_of_controllers(jobs: Iterable[Object]) -> Signs:
    """Return the writes of Volcano's controllers into Volcano Jobs."""
    return {k8s.uid_of(job): k8s.status_of(job) for job in jobs if is_served(job)}


def signs_of_scheduler(groups: Iterable[Object], pods: Iterable[Object]) -> Signs:
    """Return the writes of Volcano's scheduler into PodGroups and pods."""
    signs: dict[str, Any] = {}
    for group in groups:
        if k8s.status_of(group).get("phase") not in _PHASES_OF_NEW_GROUPS:
            signs[k8s.uid_of(group)] = k8s.status_of(group)
    for pod in filter(is_of_volcano, pods):
        if not is_unseen_pod(pod):
            signs[k8s.uid_of(pod)] = k8s.bound_node(pod) or _scheduled_rows(pod)
    return signs


def _scheduled_rows(pod: Object) -> list[tuple[Any, Any]]:
    """Reason and message of the pod's condition PodScheduled."""
    rows = (row for row in k8s.conditions_of(pod) if row.get("type") == "PodScheduled")
    return [(row.get("reason"), row.get("message")) for row in rows]
