"""Pods that the scheduler does not bind: which node is to blame, when a gang is tried again. Decisions on data, no IO.

The scheduler knows more than the plan (volumes, claimed devices). A gang whose pods are not bound in time has failed a
round. A node that the scheduler blames is closed to this gang alone; for another cause (a missing claim) the gang
pauses. After `PodTimings.rounds` it is held with the scheduler's message and keeps no nodes from others. The scheduler
never sees pods without their PodGroup; Volcano's job controller recreates it when a pod is deleted, so such a round
ends early.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from compiler.kubernetes import bound_node, conditions_of, uid_of
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.pods import has_ended
from reconciler.threads.rest import doubled
from reconciler.timings import PodTimings

SILENCE = "the scheduler said nothing"
NO_GROUP = "its PodGroup is not found, and Volcano binds no pod without it"
_OF_GANG = "pod group is not ready"
"""How the scheduler's message begins on pods that wait for others of their gang."""
_NO_NODE = re.compile(r"persistentvolumeclaim|storageclass|not found|quota", re.I)
"""Causes that no other node would fix."""
_MISSING_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found', re.I)


@dataclass(frozen=True, slots=True)
class UnboundPod:
    """A pod that was given `node` and not bound in time. message: the scheduler's, `SILENCE` for none."""

    pod: Object
    node: str
    message: str
    blames_node: bool


@dataclass(slots=True)
class GangTrouble:
    """A gang that could not be bound. run: the digest of the run and the number of the operator's retry. closed: node
    -> until when. held_until: nothing of it starts before. may_retry_at: from then on a changed cause ends the hold.
    cause: what the closed nodes were like. is_given_up: it has had all of its rounds."""

    run: tuple[str, int]
    message: str = ""
    rounds: int = 0
    failed_at: float = -inf
    closed: dict[str, float] = field(default_factory=dict)
    held_until: float = -inf
    may_retry_at: float = inf
    cause: Mapping[str, str | None] = field(default_factory=dict)
    is_given_up: bool = False

    def record_round(
        self, overdue: Sequence[UnboundPod], now: float, timeout: float, timings: PodTimings, prints: Mapping[str, str]
    ) -> None:
        """Count a failed round: close the nodes to blame, pause if there is none, hold after the last round. prints:
        node -> digest of its state."""
        if now - self.failed_at >= timeout / 2:  # pods of one round may come a little after each other
            self.rounds += 1
            self.failed_at = now
        blamed = [each.node for each in overdue if each.blames_node]
        self.closed.update(dict.fromkeys(blamed, now + doubled(timings.closed, self.rounds - 1)))
        if self.rounds >= timings.rounds:
            self.is_given_up = True
            beyond = self.rounds - timings.rounds
            self.may_retry_at = now + doubled(timings.first_hold, beyond, timings.longest_hold)
            self.held_until = now + timings.longest_hold
        elif not blamed:
            self.held_until = now + doubled(timings.first_pause, self.rounds - 1)
        self.message, self.cause = overdue[0].message, {node: prints.get(node) for node in self.closed}

    def look_again_at(self, at: float) -> None:
        """Ask then, and not before, whether the cause has changed."""
        self.may_retry_at = at

    def end_hold(self, now: float) -> None:
        self.held_until, self.closed = now, {}

    def is_held(self, now: float) -> bool:
        return now < self.held_until

    @property
    def reason(self) -> str:
        """Return why nothing of the gang starts, for its owner."""
        times = "once" if self.rounds == 1 else f"{self.rounds} times"
        after = "it is tried again when its specification or the cause changes, or after `gangplan rerun`"
        end = f"; {after}" if self.is_given_up else ""
        return f"its pods were given nodes {times} and the scheduler did not bind them: {self.message}{end}"

    @property
    def missing_claim(self) -> str:
        """Return the name of the PersistentVolumeClaim that the scheduler misses, "" for none."""
        found = _MISSING_CLAIM.search(self.message)
        return found[1].rpartition("/")[2] if found else ""


@dataclass(slots=True)
class BindingMemory:
    """unbound_since: uid of a pod -> when it was first seen to wait for the scheduler. orphaned_since: the same, and
    without its PodGroup. troubles: by the Ref.key of a job. scheduler_acted_at: when another pod was seen bound: a
    scheduler that binds nothing is not the fault of a gang."""

    timings: PodTimings = field(default_factory=PodTimings)
    unbound_since: dict[str, float] = field(default_factory=dict)
    orphaned_since: dict[str, float] = field(default_factory=dict)
    troubles: dict[str, GangTrouble] = field(default_factory=dict)
    bound_pods: frozenset[str] = frozenset()
    scheduler_acted_at: float = -inf

    def observe(
        self,
        pods: Iterable[Object],
        now: float,
        gated: Collection[str] = (),
        has_group: Callable[[Object], bool] = lambda pod: True,
    ) -> None:
        """Record which pods are bound and which wait for the scheduler. pods: with nodes. gated: uids of pods that it
        may not see yet. has_group: whether a pod has its PodGroup, if it names one."""
        bound, waiting, orphaned = set(), {}, {}
        for pod in pods:
            uid = uid_of(pod)
            if uid in gated:
                continue
            if bound_node(pod):
                bound.add(uid)
            elif not has_ended(pod):
                waiting[uid] = self.unbound_since.get(uid, now)
                if not has_group(pod):
                    orphaned[uid] = self.orphaned_since.get(uid, now)
        if bound - self.bound_pods:
            self.scheduler_acted_at = now
        self.bound_pods, self.unbound_since, self.orphaned_since = frozenset(bound), waiting, orphaned

    def forget(self, keys: Iterable[str]) -> None:
        """Hold nothing against these gangs any more."""
        for key in keys:
            del self.troubles[key]

    def trouble_of(self, key: str, run: tuple[str, int]) -> GangTrouble:
        """Return the trouble of the gang; a new one for this run if there is none."""
        return self.troubles.setdefault(key, GangTrouble(run))

    def overdue_pods(self, pods: Sequence[Object], nodes: NodeIndex, now: float, timeout: float) -> list[UnboundPod]:
        """Return the pods of a gang to act on: those whose node is to blame, rather than those that wait for these;
        where no node is, all that wait for too long. None while the scheduler is silent about all of them and has bound
        no other pod meanwhile."""
        late = self.overdue_uids(now, timeout)
        waiting = [pod for pod in pods if uid_of(pod) in late]
        found = []
        for pod in waiting:
            message = NO_GROUP if uid_of(pod) in self.orphaned_since else scheduler_message(pod)
            found.append(UnboundPod(pod, nodes.node_of(pod) or "", message or SILENCE, blames_node(message)))
        if blamed := [each for each in found if each.blames_node]:
            return [each for each in blamed if not each.message.startswith(_OF_GANG)] or blamed
        since = min((self.unbound_since[uid_of(pod)] for pod in waiting), default=now)
        is_ignored = self.scheduler_acted_at > since
        return found if is_ignored or any(each.message != SILENCE for each in found) else []

    def overdue_uids(self, now: float, timeout: float) -> set[str]:
        """Return the uids of pods that have waited for too long, or without their PodGroup."""
        overdue = {uid for uid, since in self.unbound_since.items() if now - since >= timeout}
        return overdue | {uid for uid, since in self.orphaned_since.items() if now - since >= self.timings.orphaned}

    def waiting_pods(self, pods: Iterable[Object]) -> list[Object]:
        """Return the pods that were given a node and are not bound."""
        return [pod for pod in pods if uid_of(pod) in self.unbound_since]

    def lasting(
        self, pods_by_job: Mapping[str, Collection[Object]], nodes: NodeIndex, since: float
    ) -> Iterator[tuple[str, str]]:
        """Yield Ref.key of each job with pods that have waited for the scheduler since then, and its message on one of
        them, rather than on the whole gang. Silence is not reported: it may have other work."""
        late = {uid for uid, at in self.unbound_since.items() if at <= since}
        for key, pods in pods_by_job.items() if late else ():
            waiting = [pod for pod in pods if uid_of(pod) in late]
            rows = [(message, nodes.node_of(pod)) for pod in waiting if (message := scheduler_message(pod))]
            if rows:
                message, node = min(rows, key=lambda row: row[0].startswith(_OF_GANG))
                yield key, f"its pods are not bound to their nodes, {len(waiting)} of {len(pods)}; on {node}: {message}"

    def held_jobs(self, now: float) -> dict[str, str]:
        """Return Ref.key of a job -> why nothing of it starts now."""
        return {key: trouble.reason for key, trouble in self.troubles.items() if trouble.is_held(now)}

    def closed_nodes(self, now: float) -> dict[str, frozenset[str]]:
        """Return Ref.key of a job -> nodes that are closed to it."""
        found = ((key, trouble.closed.items()) for key, trouble in self.troubles.items())
        closed = {key: frozenset(node for node, until in nodes if until > now) for key, nodes in found}
        return {key: nodes for key, nodes in closed.items() if nodes}

    def deadlines(self, timeout: float) -> list[float]:
        """Return the times at which something is to be done although nothing happens."""
        found = [since + timeout for since in self.unbound_since.values()]
        found += [since + self.timings.orphaned for since in self.orphaned_since.values()]
        for trouble in self.troubles.values():
            found += [trouble.held_until, *trouble.closed.values()]
        return found


def scheduler_message(pod: Object) -> str:
    """Return the scheduler's message on why it could not bind the pod; "" without a message about the pod itself (it is
    gated, or waits for its siblings)."""
    for condition in conditions_of(pod):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or "") if condition.get("reason") == "Unschedulable" else ""
    return ""


def blames_node(message: str) -> bool:
    """Return whether the scheduler's message on a pod that one hostname selects is about that node."""
    return bool(message) and not _NO_NODE.search(message)
