"""Why the API server refuses pods to a controller, by the Events of the controller on its job."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from compiler.kubernetes import created_at, uid_of
from reconciler.cluster.client import ApiError, Client
from reconciler.cluster.objects import Object, ref_of
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
