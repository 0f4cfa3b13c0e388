"""Volcano's actions preempt and reclaim: whose pods go for whom in one cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol

import numpy as np

from solver.problem import Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.entitlements import FloatArray
from solver.semantics.eviction_rights import (
    SHARE_DELTA,
    ReclaimLimits,
    contend_without_entitlement,
    queues_to_check,
    reclaim_ancestors,
)
from solver.simulation.site import Site
from solver.simulation.volcano.queues import Key, QueueAccounts
from solver.simulation.volcano.session import JobState, NodeScores, Pod, Session
from solver.simulation.workload import Shape, VolcanoScheduler, Workload

MakeRoom = Callable[[Session, Pod, int], bool]

MOST_EVICTIONS = 100
"""Most evictions of one job. Volcano may let two jobs evict each other for ever."""


class Draws(Protocol):
    """Choices that Volcano draws at random, or leaves to the order of a map."""

    def best_node(self, pod: Pod, nodes: IntArray, scores: FloatArray) -> int:
        """Return which of these nodes is tried first for the pod."""

    def looked_at(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """In which order proportion looks at pods of a node that may go."""


class Evictions:
    """Evicts pod by pod, and takes everything back where a gang does not get room for all of its pods.

    nominated: job -> pod -> the node on which others were evicted for it. has_room: the jobs that have got room in this
    cycle. times: how often each job was evicted. Sources: actions/preempt and actions/reclaim (util.ValidateVictims,
    Session.BuildVictimsPriorityQueue), plugins/{priority,gang,conformance,drf}.
    """

    def __init__(
        self, workload: Workload, accounts: QueueAccounts, scores: NodeScores, draws: Draws, most: int = MOST_EVICTIONS
    ) -> None:
        scheduler = workload.scheduler
        self.accounts, self.scores, self.draws = accounts, scores, draws
        self.rules = ReclaimRules(scheduler, accounts)
        self.nominated: dict[int, dict[int, int]] = {}
        self.has_room: set[int] = set()
        self._starves = bool(scheduler.voters("enableJobStarving", ("priority", "gang")))
        preempting, reclaiming = ("priority", "gang", "conformance", "drf"), ("gang", "conformance")
        self._preempt_votes = scheduler.voters("enablePreemptable", preempting)
        self._reclaim_votes = scheduler.voters("enableReclaimable", (*reclaiming, "proportion", "capacity"))
        self._orders = [*chain.from_iterable(scheduler.voters("enableJobOrder", ("priority", "drf")))]
        self._most, self.times = most, Counter[int]()
        self._session: Session | None = None

    # ---- a cycle

    def open_cycle(self, site: Site, running: Mapping[int, JobState], counted: IntArray) -> None:
        """running: the jobs that ran before this cycle. counted: what nodeorder counts the pods of each node as."""
        if self._session is None:
            self._session = Session(site, self.accounts, self.scores, running, counted)
            self._session.open_to_eviction([j for j in running if self.times[j] < self._most])

    def close_cycle(self) -> list[int]:
        """Return the jobs that have lost pods. The accounts of the queues are as before: these jobs end, and nobody has
        started."""
        if self._session is None:
            return []
        evicted = sorted({each.pod[0] for each in self._session.done if each.times < 0})
        self._session.undo()
        self._session = None
        self.times.update(evicted)
        self.has_room.clear()
        return evicted

    def preempt(self, queue: int, jobs: Iterable[int]) -> None:
        """Make room for jobs of the queue, in their order, out of its other jobs."""
        waiting = [*jobs]
        self._make_room_for(waiting, [queue], self._preempt_pod)
        self._give_idle(waiting)

    def reclaim(self, queue: int, jobs: Iterable[int]) -> None:
        """Make room for jobs of the queue, in their order, out of the jobs of others."""
        if not self.rules.is_overused(queue):
            self._make_room_for(jobs, self._others(queue), self._reclaim_pod)

    def _others(self, queue: int) -> Collection[int]:
        """Return the queues from which this one may reclaim."""
        queues = self.accounts.cluster.queues
        return {q for q, other in enumerate(queues) if other.reclaimable} - {queue}

    def _make_room_for(self, jobs: Iterable[int], sources: Collection[int], make_room: MakeRoom) -> None:
        if (session := self._session) is None or not self._starves:
            return
        refused, held = set[Shape](), np.zeros_like(session.future)
        for q in sources:
            held += session.held.get(q, 0)
        for j in jobs:
            if j in self.has_room or (shape := session.site.job(j).shape) in refused:
                continue
            mark = len(session.done)
            if all(self._find_node(session, pod, held, make_room) for pod in session.pods_without_room(j)):
                self.has_room.add(j)
                self._nominate(session, j, mark)
            else:
                session.undo(mark)
                refused.add(shape)

    def _give_idle(self, jobs: Iterable[int]) -> None:
        """Preempt within a job without running pods: its waiting pods get idle room, one by one, and hold it although
        there is not enough for all of them."""
        refused = set[Shape]()
        if (session := self._session) is None or not self._starves:
            return
        nothing = np.zeros_like(session.future)
        for j in jobs:
            if j not in self.has_room and (shape := session.site.job(j).shape) not in refused:
                found = (self._find_node(session, pod, nothing, self._idle_pod) for pod in session.pods_without_room(j))
                if all(found):
                    self.has_room.add(j)
                elif not session.left[j]:
                    refused.add(shape)

    def _find_node(self, session: Session, pod: Pod, held: IntArray, make_room: MakeRoom) -> bool:
        """Return whether the pod has got room on a node. held: node -> the most that may go there."""
        role, room = session.role(pod[0]), session.site.room
        is_open = room.up & np.isin(room.classes, [*role.node_classes])
        nodes = np.flatnonzero(is_open & (session.future + held >= session.request(pod[0])).all(axis=1))
        scores = np.zeros(len(nodes))
        if make_room != self._reclaim_pod:
            scores = self.scores.of_nodes(role.request, nodes, session.future[nodes], session.counted[nodes])
        while len(nodes):
            at = self.draws.best_node(pod, nodes, scores)
            if make_room(session, pod, int(nodes[at])):
                session.give(pod, int(nodes[at]))
                return True
            nodes, scores = np.delete(nodes, at), np.delete(scores, at)
        return False

    def _nominate(self, session: Session, j: int, mark: int) -> None:
        named, has_evicted = self.nominated.setdefault(j, {}), False
        for each in session.done[mark:]:
            if each.times > 0 and has_evicted:
                named[each.pod[1]] = each.node
            has_evicted = each.times < 0

    # ---- one pod, one node

    def _preempt_pod(self, session: Session, pod: Pod, node: int) -> bool:
        j, queue = pod[0], session.site.job(pod[0]).queue
        pods = self._in_order(session, queue, session.pods_on(node, [queue]))
        victims = self._voted(session, j, pods, self._preempt_votes)
        return self._may_preempt(pod) and self._evict_until(session, j, node, victims, queue)

    def _idle_pod(self, session: Session, pod: Pod, node: int) -> bool:
        queue = session.site.job(pod[0]).queue
        return self._may_preempt(pod) and self._evict_until(session, pod[0], node, (), queue)

    def _may_preempt(self, pod: Pod) -> bool:
        """A pod that has been nominated to a node preempts no more (taskEligibleToPreempt)."""
        return pod[1] not in self.nominated.get(pod[0], ())

    def _reclaim_pod(self, session: Session, pod: Pod, node: int) -> bool:
        j, home = pod[0], session.site.job(pod[0]).queue
        pods = self._in_order(session, home, session.pods_on(node, self._others(home)))
        if not pods or not self.rules.may_reclaim(home, session.role(j).request):
            return False
        return self._evict_until(session, j, node, self._voted(session, j, pods, self._reclaim_votes))

    def _evict_until(
        self, session: Session, j: int, node: int, victims: Sequence[Pod], queue: int | None = None
    ) -> bool:
        """Evict pods in their order until one of the job fits, and the queue may hold it if one is named; none where
        all of them would not make enough room."""
        request, mark = session.request(j), len(session.done)
        if (request > session.future[node] + sum(session.request(v) for v, _ in victims)).any():
            return False
        for victim in (None, *victims):
            if victim is not None:
                session.evict(victim, node)
            may_hold = queue is None or self.accounts.allows(queue, session.role(j).request)
            if may_hold and (request <= session.future[node]).all():
                return True
        session.undo(mark)
        return False

    def _in_order(self, session: Session, home: int, pods: Sequence[Pod]) -> list[Pod]:
        """Return the victims in order (BuildVictimsPriorityQueue): of the queue that is served last, its last job, that
        job's last pod, the youngest."""
        site, keys = session.site, {q: self.rules.victim_key(home, q) for q in session.held}

        def key(pod: Pod) -> tuple[object, ...]:
            j, k = pod
            measures = {"priority": float(site.job(j).priority), "drf": -self._share(session, j, session.left[j])}
            return keys[site.job(j).queue], [measures[name] for name in self._orders], -k, -session.running[j].made, -j

        return sorted(pods, key=key)

    # ---- who votes for it

    def _voted(self, session: Session, j: int, pods: Sequence[Pod], voters: Sequence[Sequence[str]]) -> Sequence[Pod]:
        """Session.Preemptable and Reclaimable: what all voters of the first tier release that release anything. As
        there, a voter after two that agree on nothing begins again."""
        for tier in voters:
            victims: Sequence[Pod] = ()
            for name in tier:
                found = self._released(name, session, j, pods)
                victims = [pod for pod in (victims or pods) if pod in found]
                if not found:
                    break
            if victims:
                return victims
        return ()

    def _released(self, name: str, session: Session, j: int, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Return the pods that a plugin releases for job j. gang keeps whole gangs, which have no pod to spare."""
        job = session.site.job
        if name == "gang":
            return ()
        if name == "priority":
            return [pod for pod in pods if job(pod[0]).priority < job(j).priority]
        if name == "drf":
            return self._with_larger_shares(session, j, pods)
        if name == "conformance":
            return pods
        pods = self.draws.looked_at(pods) if name == "proportion" else pods
        held = [(job(v).queue, job(v).role.request) for v, _ in pods]
        return [pods[at] for at in self.rules.reclaimable(name, (job(j).queue, job(j).role.request), held)]

    def _with_larger_shares(self, session: Session, j: int, pods: Sequence[Pod]) -> list[Pod]:
        """Return the pods that drf releases: without them their job's dominant share is no smaller than that of job j
        with its pod."""
        own, left, found = self._share(session, j, session.left[j] + 1), session.left.copy(), list[Pod]()
        for pod in pods:
            left[pod[0]] -= 1
            if own <= self._share(session, pod[0], left[pod[0]]) + float(SHARE_DELTA):
                found.append(pod)
        return found

    def _share(self, session: Session, j: int, pods: int) -> float:
        """Return the dominant share of so many pods of the job."""
        amounts = zip(session.role(j).request, self.accounts.cluster.totals, strict=True)
        return pods * max(amount / total for amount, total in amounts if total)


Claim = tuple[int, Vector]
"""(queue, what a pod of it asks for or holds)."""


class ReclaimRules:
    """Sources: plugins/proportion and plugins/capacity."""

    def __init__(self, scheduler: VolcanoScheduler, accounts: QueueAccounts) -> None:
        self.accounts = accounts
        self._due = tuple(
            tuple((due or None) if r in accounts.compared else None for r, due in enumerate(row))
            for row in accounts.deserved
        )
        self._overuse = bool(scheduler.voters("enabledOverused", ("proportion",)))
        self._reclaimers = scheduler.voters("enablePreemptive", ("proportion", "capacity"))

    def is_overused(self, queue: int) -> bool:
        """Overused of proportion: the queue holds its share of every resource."""
        share, held = self.accounts.shares[queue], self.accounts.held[queue]
        return self._overuse and share is not None and all(s <= h for s, h in zip(share, held, strict=True))

    def may_reclaim(self, queue: int, request: Vector) -> bool:
        """Preemptive: return whether a pod of the queue may reclaim room, by proportion within its share, by capacity
        within the deserved amount of it or a queue above it for one resource."""
        held, opened = self.accounts.held[queue], self.accounts.opened[queue]
        for voter in chain.from_iterable(self._reclaimers):
            most = self.accounts.shares[queue] if voter == "proportion" else self.accounts.real[queue]
            if not opened or most is None or not self.accounts.fits(held, request, most):
                return False
            above = reclaim_ancestors(self.accounts.cluster, queue)
            if voter == "capacity" and not any(self._is_due(q, request) for q in (queue, *above)):
                return False
        return True

    def _is_due(self, queue: int, request: Vector) -> bool:
        rows = zip(self.accounts.held[queue], request, self._due[queue], strict=True)
        return any(due is not None and amount and held + amount <= due for held, amount, due in rows)

    def reclaimable(self, voter: str, home: Claim, pods: Sequence[Claim]) -> list[int]:
        """Return which of these pods proportion or capacity releases, one after the other, for a pod of another queue
        (`home`)."""
        held, found = [[*amounts] for amounts in self.accounts.held], list[int]()
        for at, (queue, request) in enumerate(pods):
            checked = [queue] if voter == "proportion" else queues_to_check(self.accounts.cluster, home[0], queue)
            share = self.accounts.shares[queue] or (0,) * len(request)
            if voter == "proportion":
                goes = any(has > most for has, most in zip(held[queue], share, strict=True))
            else:
                goes = self._has_to_spare(held, home, (queue, request), checked)
            if goes:
                found.append(at)
                for q in checked:
                    held[q] = [has - amount for has, amount in zip(held[q], request, strict=True)]
        return found

    def _has_to_spare(self, held: Sequence[Sequence[int]], home: Claim, pod: Claim, checked: Sequence[int]) -> bool:
        """Reclaimable of capacity: the guarantee is kept, and the queue, with those above it that are checked, holds
        more than it deserves of a resource that the pod holds, or deserves nothing of them."""
        queue, request = pod
        guarantee = self.accounts.cluster.queues[queue].guarantee
        if any(held[queue][r] - amount < (guarantee[r] or 0) for r, amount in enumerate(request)):
            return False
        if contend_without_entitlement(self.accounts.cluster, home[0], queue, self._due, request):
            return False
        asked = frozenset(r for r in self.accounts.compared if home[1][r])
        return all(self._limits(held[q], q, asked).allow(request, "full") for q in checked)

    def _limits(self, held: Sequence[int], queue: int, asked: frozenset[int]) -> ReclaimLimits:
        due = {r: amount for r, amount in enumerate(self._due[queue]) if amount is not None}
        above = {r: max(0, held[r] - amount) for r, amount in due.items()}
        return ReclaimLimits(asked, frozenset(), frozenset(due), frozenset(), above, {})

    def victim_key(self, home: int, queue: int) -> Key:
        """Return the key of a queue: pods of the queue with the smallest are evicted first for a pod of `home`, nearest
        to it below the root, then of the queue that is served last (VictimQueueOrder)."""
        shared = len({*self.accounts.paths[home][1:]} & {*self.accounts.paths[queue][1:]})
        return -shared, *(-part for part in self.accounts.key(queue))
