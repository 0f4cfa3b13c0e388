"""Looks at the cluster all the time, and at what was evicted: for a cause, once, and for nobody who matters less."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of
from tests.builders.overbooked import overbooked_nodes
from tests.controlplane import ApiError, ControlPlane
from tests.e2e.stories.story import VOLCANO_JOBS_PATH, Object, is_gated
from tests.faults.nodes import GPUS, NAMES
from tests.faults.proxy import FaultProxy, Request

PODS_PATH = "/api/v1/namespaces/default/pods"


@dataclass
class Witness:
    """Looks at the cluster all the time, past the proxy. uids: (job, digest of the run) -> its objects.
    longest_partial: job -> seconds for which it was partly started while no fault was at work, less those in which the
    bed waited for a core: `starved`, of two times. overbooked: node -> the most GPUs that its pods asked for beyond
    what it has. whole_at: job -> when all of its pods were first seen to have started, on the monotonic clock."""

    plane: ControlPlane
    starved: Callable[[float, float], float] = lambda since, until: 0.0
    uids: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    longest_partial: dict[str, float] = field(default_factory=dict)
    overbooked: dict[str, int] = field(default_factory=dict)
    whole_at: dict[str, float] = field(default_factory=dict)
    calm_since: float = 0.0
    _partial_since: dict[str, float] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            try:
                jobs = self.plane.api("GET", VOLCANO_JOBS_PATH)["items"]
                pods = self.plane.api("GET", PODS_PATH)["items"]
            except (ApiError, OSError, ValueError):
                continue
            for node, more in overbooked_nodes(pods, dict.fromkeys(NAMES, GPUS)).items():
                self.overbooked[node] = max(more, self.overbooked.get(node, 0))
            for job in jobs:
                self._look(job, pods, time.monotonic())

    def _look(self, job: Object, pods: list[Object], now: float) -> None:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        self.uids.setdefault((name, annotations_of(job).get(DIGEST_ANNOTATION, "")), set()).add(uid)
        own = [pod for pod in pods if uid in owner_uids(pod)]
        released = sum(not is_gated(pod) for pod in own)
        wanted = sum(task["replicas"] for task in job["spec"]["tasks"])
        if sum(pod.get("status", {}).get("phase") in ("Running", "Succeeded") for pod in own) == wanted:
            self.whole_at.setdefault(name, now)
        is_open = job.get("status", {}).get("state", {}).get("phase", "") in ("Pending", "Running", "")
        if is_open and 0 < released < wanted:
            since = max(self._partial_since.setdefault(name, now), self.calm_since)
            seconds = now - since - self.starved(since, now)
            self.longest_partial[name] = max(self.longest_partial.get(name, 0.0), seconds)
        else:
            self._partial_since.pop(name, None)


def owner_uids(pod: Object) -> list[str]:
    return [owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()]


def gang_of(pod: str) -> str:
    """The gang of a pod of this name."""
    return pod.rpartition("-worker-")[0]


@dataclass
class Cause:
    """Why pods may be evicted before the next rest. since: on the monotonic clock. winner: the gang for which room is
    made, and no longer than until it runs; empty if nodes are the cause. is_reclaim: a queue takes back what it
    deserves; what is urgent in another one goes for that, too."""

    since: float
    winner: str = ""
    is_reclaim: bool = False

    def is_at_work(self, at: float, witness: Witness) -> bool:
        return self.since <= at <= witness.whole_at.get(self.winner, math.inf)


def granted_evictions(proxies: Sequence[FaultProxy], since: float) -> Iterator[tuple[str, Request]]:
    """Each with its pod's name."""
    for proxy in proxies:
        for request in proxy.writes("POST", r"/pods/[^/]+/eviction", since):
            yield request.path.split("/")[-2], request


def wrong_evictions(
    evictions: Iterable[tuple[str, Request]], causes: Sequence[Cause], urgent_jobs: Collection[str], witness: Witness
) -> Iterator[str]:
    """What is wrong with them. An eviction has a cause, names the uid that it is meant for, and leaves the pod its
    grace period; a place is cleared once for each cause at most; what is urgent goes for nodes only, or gives back what
    its queue borrowed: then it takes a place from what matters less in its own queue."""
    times: Counter[str] = Counter()
    returns: dict[str, Cause] = {}
    for pod, request in sorted(evictions, key=lambda each: each[1].at):
        known = [cause for cause in (*causes, *returns.values()) if cause.since <= request.at]
        times[pod] += 1
        options = (request.json or {}).get("deleteOptions", {})
        if "gracePeriodSeconds" in options or not options.get("preconditions", {}).get("uid"):
            yield f"evicted without its grace period, or whatever its uid: {request}"
        if not any(cause.is_at_work(request.at, witness) for cause in known):
            yield f"evicted without a cause: {request}"
        if times[pod] > len(known):
            yield f"evicted {times[pod]} times: {request}"
        gang = gang_of(pod)
        if gang in urgent_jobs and all(cause.winner and not cause.is_reclaim for cause in known):
            yield f"evicted although nothing is more urgent: {request}"
        if gang in urgent_jobs and any(cause.is_reclaim for cause in known):
            returns.setdefault(gang, Cause(request.at))
