"""Gangs whose controllers do not create every pod. Decisions on data; only `PodRefusals` asks the server.

No gate is lifted before all pods exist. A quota, a LimitRange or a webhook may refuse some of them, and most
controllers try for ever. So once Events name the refusal, or after a while, the gang keeps no room, until another pod
of it exists. One that has begun keeps it: its other pods wait for the missing ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import NamedTuple

from compiler.kubernetes import created_at, is_gated, status_of, stopped_by, uid_of
from compiler.run_kinds import end_of_run
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.client import ApiError, Client
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.observation.pods import VOLCANO_JOB, has_ended, pod_group_key
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.gates import lacking_pods, lost_pods
from reconciler.threads.rest import LookUps, doubled
from reconciler.timings import TIMINGS, PodTimings

_REASON = "FailedCreate"
"""How the reasons of such Events begin: Kubernetes' controllers and Volcano's write this, training-operator
FailedCreatePod."""
_QUOTED = re.compile(r'Message:"((?:[^"\\]|\\.)*)"')
"""The server's message inside the error that Volcano prints with all of its fields."""
_OF_POD = re.compile(r'^.*?\bpods? "[^"]*" is (forbidden|invalid): ', re.I)
"""What differs from one pod of a job to the next."""
_LONGEST = 500


class _Look(NamedTuple):
    """since: when the job's last pod appeared, on the clock. looks: how often Events were read. next_at: when they are
    read again. message: the refusal that they report."""

    since: float
    looks: int
    next_at: float
    message: str = ""


@dataclass(slots=True)
class PodRefusals:
    """Reads the Events of jobs that lack pods, each again until they name a refusal. While other jobs get pods that has
    time: the controller serves one after the other. looks: by the job's uid, and how many of its pods exist. served_at:
    when any of these jobs got a pod."""

    client: Client
    clock: Callable[[], float]
    timings: PodTimings = TIMINGS.pods
    looks: dict[tuple[str, int], _Look] = field(default_factory=dict)
    served_at: float = -inf

    def read(self, jobs: Iterable[tuple[Object, Collection[Object], float]]) -> Mapping[str, str]:
        """Return uid of a job -> why more pods of it are refused; nothing where that is not known. jobs: those that
        lack pods, with their pods and since when."""
        now, look_ups = self.clock(), LookUps(self.clock, self.timings.refusal_looks)
        known, self.looks = self.looks, {}
        lacking = {(uid_of(job), len(pods)): (job, pods, since) for job, pods, since in jobs}
        if known.keys() - lacking.keys():
            self.served_at = now
        for key, (job, pods, since) in lacking.items():
            look = known.get(key, _Look(since, 0, since + self.timings.first_refusal_look))
            if not look.message and now >= self._due_at(look) and look_ups.may_ask():
                pause = doubled(self.timings.first_refusal_look, look.looks, self.timings.longest_refusal_look)
                look = _Look(since, look.looks + 1, self.clock() + pause, self._message(job, pods))
            self.looks[key] = look
        return {uid: look.message for (uid, _), look in self.looks.items() if look.message}

    def _due_at(self, look: _Look) -> float:
        served_until = self.served_at + self.timings.first_refusal_look
        return max(look.next_at, min(served_until, look.since + self.timings.missing_reported_after))

    def _message(self, job: Object, pods: Iterable[Object]) -> str:
        """Return the newest refusal since the last pod was created; empty where none is known."""
        try:
            events = self.client.warnings_about(ref_of(job), uid_of(job))
        except ApiError:
            return ""
        newest_pod = max(map(created_at, pods), default="")
        found = [(_time_of(event), str(event.get("message") or "")) for event in events if _is_refusal(event)]
        at, text = max(found, default=("", ""))
        if at < newest_pod:
            return ""
        quoted = _QUOTED.search(text)
        return _OF_POD.sub("", quoted[1].replace('\\"', '"') if quoted else text)[:_LONGEST]

    def deadlines(self, now: float) -> list[float]:
        waiting = (self._due_at(look) for look in self.looks.values() if not look.message)
        return [at for at in waiting if at > now]


def _is_refusal(event: Object) -> bool:
    return str(event.get("reason")).startswith(_REASON)


def _time_of(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))


_REFUSED = "Events of the job name what refuses more (a ResourceQuota, a LimitRange, a webhook), if the controller runs"
_NO_GROUP = "it has no PodGroup: it was deleted, or Events of the job name why none is created, if the controller runs"
_NOT_ADMITTED = "Volcano's scheduler has not admitted its PodGroup (action enqueue)"


class Creation(NamedTuple):
    """How far the pods of a gang are created. job: its uid. since: on the clock, when the last of them appeared. cause:
    why there are not more, as far as it is known. has_begun: it keeps its room. is_prompt: its controller creates pods
    whatever the scheduler does. refusal: of more pods, where known."""

    job: str
    created: int
    planned: int
    since: float
    cause: str
    has_begun: bool
    is_prompt: bool
    refusal: str = ""

    @property
    def message(self) -> str:
        cause = f"the API server refuses more: {self.refusal}" if self.refusal else self.cause
        return f"its controller has created {self.created} of {self.planned} pods: {cause}"

    def may_give_room(self) -> bool:
        """Return whether it has not begun, and does not merely wait for the scheduler to admit it."""
        return not self.has_begun and bool(self.created or self.is_prompt or self.refusal)

    def has_lasted(self, now: float, patience: float) -> bool:
        return bool(self.refusal) or now - self.since >= patience


@dataclass(slots=True)
class MissingPods:
    """creations: by Ref.key, of gangs that lack pods. refused: Ref.key -> the last refusal of gangs without any pod."""

    refusals: PodRefusals
    timings: PodTimings = TIMINGS.pods
    creations: dict[str, Creation] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def observe(self, observation: Observation, snapshot: Snapshot | None, now: float) -> None:
        """Note which gangs lack pods. Pods that cannot be read leave the memory as it is."""
        if "Pod" not in observation.readable_kinds or snapshot is None or not snapshot.gated:
            return
        found = dict[str, Creation]()
        for key, gang in snapshot.gangs.items():
            if gang.decision not in ("start", "keep") and key not in self.creations:
                continue
            job, pods = observation.objects.get(key), observation.pods_by_job[0].get(key, ())
            if job is None:
                continue
            cause = _REFUSED if pods or gang.job.group_kind != VOLCANO_JOB else _cause(job, observation)
            counted = observation.memory.session.last(
                ("pods counted", key), (gang, job, *pods), partial(_count_pods, gang, job, pods)
            )
            if (creation := self._creation(key, gang, uid_of(job), counted, now, cause)) is not None:
                found[key] = creation
        pods_by_job = observation.pods_by_job[0]
        lacking = ((key, one.since) for key, one in found.items() if one.cause != _NOT_ADMITTED)
        messages = self.refusals.read((observation.objects[key], pods_by_job.get(key, ()), at) for key, at in lacking)
        self.creations = {key: one._replace(refusal=messages.get(one.job, "")) for key, one in found.items()}
        refused = {**self.refused, **{key: one.refusal for key, one in self.creations.items() if one.refusal}}
        without_pods = {key for key in snapshot.gangs if not pods_by_job.get(key)}
        self.refused = {key: text for key, text in refused.items() if key in without_pods}

    def _creation(
        self, key: str, gang: PlannedGang, job: str, counted: _Count | None, now: float, cause: str
    ) -> Creation | None:
        """Return how far the pods of the gang are created; None where it lacks none, or is not to begin."""
        if counted is None:
            return None
        (has_begun, created, lacking), known = counted, self.creations.get(key)
        is_same = known is not None and (known.job, known.created) == (job, created)
        if gang.decision not in ("start", "keep"):
            return known if is_same and not has_begun else None
        if not lacking:
            return None
        since = known.since if known and is_same else now
        is_prompt = gang.job.group_kind != VOLCANO_JOB
        return Creation(job, created, created + lacking, since, cause, has_begun, is_prompt)

    def with_refusals(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Return why jobs have no pods, by Ref.key, with the last refusal where it is known."""
        known = reasons.keys() & self.refused.keys()
        return {**reasons, **{key: f"{reasons[key]}; last refusal: {self.refused[key]}" for key in known}}

    def lasting(self, now: float) -> dict[str, str]:
        """Return why gangs are not given their nodes, by Ref.key, where that is not only so for a moment."""
        patience = self.timings.missing_reported_after
        return {key: one.message for key, one in self.creations.items() if one.has_lasted(now, patience)}

    def held_jobs(self, now: float) -> dict[str, str]:
        """Return why gangs keep no room, by Ref.key."""
        patience = self.timings.missing_keep_room
        late = ((key, one) for key, one in self.creations.items() if one.has_lasted(now, patience))
        return {key: f"it keeps no room: {one.message}" for key, one in late if one.may_give_room()}

    def deadlines(self, now: float) -> Iterator[float]:
        times = self.timings
        for one in self.creations.values():
            moments = (one.since + times.missing_reported_after, one.since + times.missing_keep_room)
            yield from (at for at in moments if at > now)
        yield from self.refusals.deadlines(now)


class _Count(NamedTuple):
    has_begun: bool
    created: int
    lacking: int


def _count_pods(gang: PlannedGang, job: Object, pods: Collection[Object]) -> _Count | None:
    """Return how many pods the gang has and lacks; None where its job has ended or is stopped."""
    if end_of_run(job) is not None or stopped_by(job):
        return None
    if gang.decision == "keep" or not all(map(is_gated, pods)):
        return _Count(True, len(pods), lost_pods(gang, pods))
    if not pods:  # of roles whose pods come one after the other the first is missing as well
        is_idle = bool(gang.written_pods) and (job.get("spec") or {}).get("replicas") == 0
        return None if is_idle else _Count(False, 0, sum(gang.pods_by_place().values()))
    return _Count(False, sum(not has_ended(pod) for pod in pods), lacking_pods(gang, pods))


def _cause(job: Object, observation: Observation) -> str:
    """Return why a Volcano Job has no pods at all."""
    if (group := observation.objects.get(pod_group_key(job))) is None:
        return _NO_GROUP
    return _NOT_ADMITTED if status_of(group).get("phase") in (None, "", "Pending") else _REFUSED
