"""Jobs that Volcano's job controller has lost. Decisions on data, no IO.

The controller retries the clean-up of a deleted job with doubling pauses and at most ten a second. A late retry takes a
new job of the same name for the old one and removes it from the controller's cache (pkg/controllers/cache,
processCleanupJob; Volcano's issues 3968 and 5973, seen on 1.15.1): the job gets no status, or no pods, for ever. Nor
does the controller see that a PodGroup was deleted: a job without pods waits for it for ever. After fifteen failures to
make its pods (a ResourceQuota) the controller gives a job up as well. A controller that is only slow loses nothing: the
jobs of a wave wait for their turn. A job without pods has not begun, so it can be made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from compiler.cluster_state.cluster_state import StateError
from compiler.cluster_state.pods import RequestCache
from compiler.kubernetes import conditions_of, created_at, is_terminating, namespace_of, status_of, uid_of
from compiler.specs.quotas import has_scopes, limited_amounts
from reconciler.cluster.objects import Object
from reconciler.observation.pods import VOLCANO_JOB, pod_group_key
from reconciler.threads.rest import doubled
from reconciler.timings import TIMINGS, RunTimings

_POD_COUNTS = ("running", "succeeded", "failed", "terminating", "unknown", "retryCount", "taskStatusCount")
_UNBEGUN = ("Pending", "Terminating", "Terminated", "Failed")
"""Phases, in a job's conditions, of one that never began."""


@dataclass(slots=True)
class LostJobs:
    """idle_since: uid of a job without any progress -> since when, on the clock. busy_until: uid of an idle job -> when
    the controller last served one created with it. due_at: uid of an idle job -> when it counts as lost. By Ref.key:
    repeats, how often it was recreated; given_up, ended by the controller although it never began; refused_jobs, why
    one that was given up, or recreated without success, keeps no room: most likely a quota refuses it. exceeded:
    uids of jobs that were given up, for which their quotas ever had no room."""

    timings: RunTimings = TIMINGS.runs
    idle_since: dict[str, float] = field(default_factory=dict)
    busy_until: dict[str, float] = field(default_factory=dict)
    repeats: dict[str, int] = field(default_factory=dict)
    due_at: dict[str, float] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()
    refused_jobs: dict[str, str] = field(default_factory=dict)
    exceeded: set[str] = field(default_factory=set)

    def observe(
        self,
        jobs: Mapping[str, Object],
        pods: Mapping[str, Collection[Object]],
        objects: Mapping[str, Object],
        now: float,
        started: Collection[str] = (),
        quotas: Collection[Object] = (),
    ) -> None:
        """Note which of the jobs are idle. jobs: by Ref.key; pods: Ref.key of a job -> its pods; objects: by Ref.key,
        the PodGroups among them; started: those whose pods have been given nodes."""
        without_pods = {key: job for key, job in jobs.items() if not pods.get(key)}
        ended = {key: job for key, job in without_pods.items() if is_given_up(job)}
        self.given_up = frozenset(ended).difference(started)
        idle = {key: job for key, job in without_pods.items() if _is_idle(job, objects, key in started)}
        idle |= {key: ended[key] for key in sorted(self.given_up)}
        fitting = self._fitting_again([ended[key] for key in sorted(self.given_up)], quotas)
        served = jobs.keys() - idle.keys()
        self._note_waits(idle, [uid_of(jobs[key]) for key in served if not is_terminating(jobs[key])], now)
        last_served = max((created_at(jobs[key]) for key in served if _phase(jobs[key])), default="")
        backlog = len(idle) - len(self.given_up) - 1
        self.due_at = {uid_of(job): self._due_at(key, job, last_served, backlog) for key, job in idle.items()}
        self.due_at |= {uid: self.idle_since[uid] + self.timings.lost for uid in fitting}
        for key in [key for key in self.repeats if pods.get(key)]:
            del self.repeats[key]
        refused = without_pods.keys() & (self.given_up | self.repeats.keys())
        self.refused_jobs = {key: _refusal(self.repeats.get(key, 0)) for key in sorted(refused)}

    def _fitting_again(self, jobs: Iterable[Object], quotas: Collection[Object]) -> set[str]:
        """Return uids of the jobs that were given up and exceeded their quotas, and fit now."""
        exceeds = {uid_of(job): _exceeds_quotas(job, quotas) for job in jobs}
        exceeding = {uid for uid, found in exceeds.items() if found}
        self.exceeded = (self.exceeded | exceeding) & exceeds.keys()
        return self.exceeded - exceeding

    def _note_waits(self, idle: Mapping[str, Object], served: Collection[str], now: float) -> None:
        """Note since when each idle job waits, and how long the controller was busy with jobs created with it. served:
        uids of the jobs to which it owes nothing."""
        since = {uid_of(job): self.idle_since.get(uid_of(job), now) for job in idle.values()}
        first = min((self.idle_since[uid] for uid in served if uid in self.idle_since), default=inf)
        busy_until = {uid: until for uid, until in self.busy_until.items() if uid in since}
        self.busy_until = busy_until | {uid: now for uid, at in since.items() if first <= at + self.timings.cohort}
        self.idle_since = since

    def _due_at(self, key: str, job: Object, last_served: str, backlog: int) -> float:
        """Return when an idle job counts as lost. last_served: when the newest served job was created."""
        since = self.idle_since[uid_of(job)]
        if key in self.given_up:
            return since + self._patience(key, is_sure=True)
        patience = self._patience(key, last_served > created_at(job), self.timings.per_waiting_job * backlog)
        return self.busy_until.get(uid_of(job), since) + patience

    def _patience(self, key: str, is_sure: bool, backlog: float = 0.0) -> float:
        times = self.timings
        first, longest = times.lost, times.longest_given_up if key in self.given_up else times.longest_lost
        patience = doubled(first if is_sure else first * times.unsure_factor, self.repeats.get(key, 0)) + backlog
        return min(patience, longest)

    def message(self, job: Object, now: float) -> str:
        """Return why the job is made again now; empty when it is not lost."""
        due_at = self.due_at.get(uid_of(job))
        if due_at is None or now < due_at:
            return ""
        return "Volcano's job controller has not made its pods and has lost or given up the job, which has not begun"

    def record_repeat(self, key: str) -> None:
        self.repeats[key] = self.repeats.get(key, 0) + 1

    def deadlines(self, now: float) -> Iterator[float]:
        return (due_at for due_at in self.due_at.values() if due_at > now)


def _exceeds_quotas(job: Object, quotas: Iterable[Object]) -> bool:
    """Return whether a quota of its namespace has no room for all pods of a Volcano Job. Quotas with scopes do not
    count: they may be for other pods."""
    asked, requests = Counter[str](), RequestCache()
    try:
        for task in (job.get("spec") or {}).get("tasks") or ():
            amounts = requests.requests_of({"metadata": job["metadata"], "spec": task["template"]["spec"]})
            asked.update({name: amount * int(task.get("replicas", 1)) for name, amount in amounts.items()})
    except StateError:
        return False
    for quota in quotas:
        spec = quota.get("spec") or {}
        if namespace_of(quota) == namespace_of(job) and not has_scopes(spec):
            used = {key: amount for key, _, amount in limited_amounts(status_of(quota).get("used"))}
            limits = limited_amounts(spec.get("hard"))
            if any(asked[name] and used.get(key, 0) + asked[name] > hard for key, name, hard in limits):
                return True
    return False


def _refusal(repeats: int) -> str:
    times = f", though it was made again {'once' if repeats == 1 else f'{repeats} times'}" if repeats else ""
    return (
        f"Volcano makes no pods for it{times}, so it keeps no room and is made again later: its Events say what "
        "refuses them (a ResourceQuota, a LimitRange, a webhook)"
    )


def is_given_up(job: Object) -> bool:
    """Return whether Volcano ended the job, and its status shows no sign of a pod that ran or ended."""
    status = status_of(job)
    if f"Job.{job['apiVersion'].partition('/')[0]}" != VOLCANO_JOB or _phase(job) not in ("Terminated", "Failed"):
        return False
    has_pods = any(status.get(count) for count in _POD_COUNTS)
    return not has_pods and all(row.get("status") in _UNBEGUN for row in conditions_of(job))


def _is_idle(job: Object, objects: Mapping[str, Object], has_started: bool) -> bool:
    """Return whether the controller owes a job without pods something: its first status, its PodGroup, or its pods,
    which it makes when the scheduler has let the PodGroup in. A job that has started is kept without a PodGroup."""
    if is_terminating(job):
        return False
    phase = _phase(job)
    if phase != "Pending":
        return not phase
    group = objects.get(pod_group_key(job))
    if group is None:
        return not has_started
    return status_of(group).get("phase") in ("Inqueue", "Running")


def _phase(job: Object) -> str:
    return (status_of(job).get("state") or {}).get("phase") or ""


@dataclass(slots=True)
class DepartedJobs:
    """Deleted jobs whose names are reserved. times: Ref.key of such a job -> when it was seen to be deleted, and when
    the last of its pods was seen (on the clock)."""

    timings: RunTimings = TIMINGS.runs
    times: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key in self.times

    def record_departure(self, key: str, now: float) -> None:
        self.times[key] = now, now

    def observe(self, keys: Iterable[str], now: float) -> None:
        """Note the jobs that have pods left, and forget those whose names are free again. Each such name shortens the
        reservations of others, so these may be free at once: their end has passed and wakes no later pass."""
        self.times |= {key: (self.times.get(key, (now, now))[0], now) for key in keys}
        while free := {key for key, until in self.reservations().items() if until <= now}:
            self.times = {key: times for key, times in self.times.items() if key not in free}

    def reservations(self) -> dict[str, float]:
        """Return Ref.key of each job -> until when its name is reserved: a retry of the clean-up may come as long after
        the last pod as the pods took to end; of many jobs as late as the controller needs for a retry of each."""
        one_each = sum(key.startswith(f"{VOLCANO_JOB}/") for key in self.times) / self.timings.cleanups_a_second
        return {
            key: last_pod + max(last_pod - gone, one_each) + self.timings.cleanup_margin
            for key, (gone, last_pod) in self.times.items()
        }
