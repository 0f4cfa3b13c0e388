"""Pods of planned gangs whose gate others removed before they had a node. Decisions on data, no IO.

The scheduler may bind such a pod anywhere, before the gang's turn and on a node that another gang is given. An ungated
pod can be given no node, so it is evicted, and returns with the gate of its template. Where something removes each
gate, the evictions become rare.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.kubernetes import (
    DIGEST_ANNOTATION,
    annotations_of,
    bound_node,
    controller_of,
    is_gated,
    name_of,
    selected_hostname,
    status_of,
    uid_of,
)
from compiler.validation.judge import like_pod_specs
from reconciler.changes.planned import PlannedRuns
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Seen
from reconciler.observation.pods import has_ended
from reconciler.threads.rest import doubled
from reconciler.timings import PodTimings

GATE_REMOVED = "others removed its gate before it was given a node, so it is planned again"


class _Rounds(NamedTuple):
    """So often pods of a gang were evicted, when they may be again, and the last of them, which may still be shown."""

    number: int
    next_at: float
    pods: list[Object]


@dataclass(slots=True)
class EscapedPods:
    """By Ref.key of a job: rounds, and pods, which are there now and were not evicted yet."""

    timings: PodTimings = field(default_factory=PodTimings)
    rounds: dict[str, _Rounds] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=dict)

    def observe(self, seen: Seen, runs: PlannedRuns, keys: Collection[str], now: float) -> None:
        """Note which gangs have such pods, as far as these can be read. One that had none for as long as the longest
        pause is forgotten. keys: of jobs, as Ref.key."""
        faults = seen.observation.faults
        found = filter(_is_escaped, seen.observation.objects_of_kind("Pod"))
        escaped = {uid_of(pod) for pod in found if ref_of(pod).key not in faults}
        escaped -= {uid_of(pod) for each in self.rounds.values() for pod in each.pods}
        self.pods = {}
        for key in sorted(seen.pods.keys() & keys) if escaped else ():
            job, pods = seen.observation.objects[key], [pod for pod in seen.pods[key] if uid_of(pod) in escaped]
            is_planned_run = annotations_of(job).get(DIGEST_ANNOTATION, "") == runs.of(key)
            if pods and is_planned_run and key not in faults and gates_all_pods(job):
                self.pods[key] = pods
        oldest = now - self.timings.longest_escape_pause
        for key in [key for key, each in self.rounds.items() if each.next_at <= oldest]:
            if key not in self.pods:
                del self.rounds[key]

    def due_pods(self, now: float) -> dict[str, list[Object]]:
        """Return those to be evicted now."""
        paused = {key for key, each in self.rounds.items() if now < each.next_at}
        return {key: pods for key, pods in self.pods.items() if key not in paused}

    def record_round(self, key: str, pods: list[Object], now: float) -> None:
        """Note that these pods were evicted, or their end was granted."""
        number = self.rounds[key].number if key in self.rounds else 0
        pause = doubled(self.timings.first_escape_pause, number, self.timings.longest_escape_pause)
        self.rounds[key] = _Rounds(number + 1, now + pause, pods)
        del self.pods[key]

    def lasting(self) -> dict[str, str]:
        """Return Ref.key of a job -> what others do to its pods, where an eviction did not end it."""
        found = ((key, self.rounds[key]) for key in self.pods.keys() & self.rounds.keys())
        return {
            key: f"others remove the gates of its pods before these have nodes; rounds of evictions for it: "
            f"{each.number}, the last one of {name_of(each.pods[-1])}"
            for key, each in found
        }

    def deadlines(self) -> list[float]:
        return [self.rounds[key].next_at for key in self.pods.keys() & self.rounds.keys()]


def _is_escaped(pod: Object) -> bool:
    """Return whether the pod has neither our gate nor a node, bound or selected. Where nothing would create it again
    it is left alone, as is one that a kubelet has seen."""
    if bound_node(pod) or is_gated(pod) or selected_hostname(pod):  # nearly all of them
        return False
    is_new = status_of(pod).get("phase") in (None, "", "Pending") and not status_of(pod).get("startTime")
    return is_new and not has_ended(pod) and controller_of(pod) is not None


def gates_all_pods(job: Object) -> bool:
    """Return whether each pod template of a live job has our gate: then every pod of it was created with it."""
    specs = [spec for _, spec in like_pod_specs(job.get("spec"))]
    return bool(specs) and all(is_gated({"spec": spec}) for spec in specs)
