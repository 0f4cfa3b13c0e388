"""Volcano as a policy: at each cycle the actions of its configuration, in their order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heapreplace, merge

import numpy as np

from solver.problem import Role, Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.entitlements import FloatArray
from solver.semantics.queues import PODS
from solver.simulation.policies import Event
from solver.simulation.room import Holds
from solver.simulation.site import Order, Site
from solver.simulation.volcano.evictions import MOST_EVICTIONS, Evictions
from solver.simulation.volcano.queues import QueueAccounts
from solver.simulation.volcano.session import JobState, NodeScores, Pod
from solver.simulation.workload import SECOND, Shape, Workload

ENQUEUE_VOTERS = ("overcommit", "proportion", "capacity")
LEAST_FACTOR, DEFAULT_FACTOR = 1.0, 1.2
EVICTING = ("preempt", "reclaim")


class Volcano:
    """Decides at cycles only. A job is admitted at one cycle (`enqueue`), has pods at the next, and starts whole there
    or later (`allocate`), each pod on the node with the best score; the first of equals, where Volcano draws one. A job
    that loses a pod (`preempt`, `reclaim`) loses all, as with the policy RestartJob, and is submitted again as a new
    one.

    A cycle is left out where the one before changed nothing and nothing has happened since. Sources: actions/enqueue,
    actions/allocate, plugins/overcommit; the job controller creates the pods (syncJob), and waits for `enqueue`.
    """

    def __init__(self, workload: Workload, most_evictions: int = MOST_EVICTIONS) -> None:
        scheduler = self.scheduler = workload.scheduler
        self.queues, roles = QueueAccounts(workload), (job.role for job in workload.jobs)
        self.demands: list[Vector] = [tuple(role.replicas * amount for amount in role.request) for role in roles]
        self.scores = NodeScores(scheduler, workload.cluster)
        self._named = sorted(range(len(workload.jobs)), key=lambda j: f"{workload.jobs[j].name}-")
        self._ranks = {j: rank for rank, j in enumerate(self._named)}
        self._by_priority = bool(scheduler.voters("enableJobOrder", ("priority",)))
        voters = scheduler.voters("enableJobEnqueued", ENQUEUE_VOTERS)
        self._enqueue_voters = voters[0] if voters and "enqueue" in scheduler.actions else ()
        overcommit = scheduler.voter("enableJobEnqueued", "overcommit")
        factor = DEFAULT_FACTOR if overcommit is None else overcommit.arguments.get("overcommit-factor", DEFAULT_FACTOR)
        self._factor = factor if type(factor) in (int, float) and factor >= LEAST_FACTOR else DEFAULT_FACTOR
        self._compared = [r for r, name in enumerate(workload.cluster.resources) if name != PODS]
        self._new, self._let_in = ([Lines() for _ in workload.cluster.queues] for _ in range(2))
        self._misfits: set[Shape] = set()
        self._counted = np.zeros((len(workload.cluster.nodes), len(self.scores.counted)), dtype=np.int64)
        self._states = {j: JobState(job.submit) for j, job in enumerate(workload.jobs)}
        self.evictions = Evictions(workload, self.queues, self.scores, self, most_evictions)
        self._inqueue = [0] * len(workload.cluster.resources)
        self._just_started: list[int] = []

    def decide(self, site: Site, event: Event) -> None:
        for j in event.ended:
            self._note_end(site, j)
        for j in event.arrived:
            self._note_arrival(site, j)
        if event.gives_room:
            self._misfits.clear()
        cycle = self.scheduler.next_cycle(site.now)
        if cycle > site.now:
            site.wake_at(cycle)
        elif self._run_cycle(site):
            site.wake_at(self.scheduler.next_cycle(site.now + 1))

    def order(self, site: Site, j: int) -> Order:
        """Return the key of JobOrder among waiting jobs: priority where its plugin is enabled, then age, which counts
        in seconds; then the name, which a podgroup's begins with."""
        job = site.job(j)
        return -job.priority if self._by_priority else 0, self._states[j].came // SECOND, self._ranks[j]

    def best_node(self, pod: Pod, nodes: IntArray, scores: FloatArray) -> int:
        """Return which of these nodes gets the pod, or room for it: the first of the best."""
        del pod, nodes
        return int(np.argmax(scores))

    def looked_at(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """In which order proportion looks at pods of a node that may go: as they would go."""
        return pods

    def _head(self, turns: Turns) -> int | None:
        return None if turns.head is None else self._named[turns.head]

    # ---- a cycle

    def _run_cycle(self, site: Site) -> bool:
        """Return whether another must follow."""
        counted, self._just_started = self._just_started, []
        coming = [q for q, lines in enumerate(self._new) if lines]
        if coming or any(self._let_in):
            self._fill_shares()
        let_in = self._enqueue(site, coming) if coming else []
        waiting = {q: lines.turns(self._misfits) for q, lines in enumerate(self._let_in) if lines}
        for j in counted:  # the podgroup is Inqueue until the cycle after, even if its pods have ended
            self._count_inqueue(j, -1)
        for action in self.scheduler.actions:
            if action == "allocate":
                self._allocate(site, waiting)
            elif action in EVICTING and any(self._let_in):
                self._make_room(site, action)
        evicted = self._evict(site)
        for j in let_in:
            self.make_pods(site, j)
        return bool(let_in or counted or self._just_started or evicted)

    def _fill_shares(self) -> None:
        """Fill proportion's shares of the usage and requests at the beginning of the cycle."""
        self.queues.open_cycle()

    def make_pods(self, site: Site, j: int) -> None:
        """Create the pods of an admitted job, after the cycle, as the controller does."""
        self._let_in[site.job(j).queue].add(site.job(j).shape, self.order(site, j))
        self._states[j] = replace(self._states[j], made=site.now)

    def _enqueue(self, site: Site, queues: list[int]) -> list[int]:
        """Return the admitted jobs, queue by queue."""
        idle, found = self._idle(site), list[int]()
        for q in sorted(queues, key=self.queues.key):
            turns = self._new[q].turns()
            while (j := self._head(turns)) is not None:
                if self._lets_in(q, self.demands[j], idle):
                    self._new[q].remove(site.job(j).shape, self.order(site, j))
                    turns.taken()
                    self.queues.ask(q, self.demands[j])
                    self._count_inqueue(j)
                    found.append(j)
                else:
                    turns.refused()
        return found

    def _lets_in(self, queue: int, demand: Vector, idle: list[float]) -> bool:
        """JobEnqueueable: return whether no plugin rejects it in the first tier with a voting plugin."""
        for voter in self._enqueue_voters:
            if voter == "overcommit":
                permits = all(not demand[r] or self._inqueue[r] + demand[r] <= idle[r] for r in self._compared)
            else:
                permits = self.queues.lets_in(voter, queue, demand)
            if not permits:
                return False
        return True

    def _idle(self, site: Site) -> list[float]:
        """Return the amounts that overcommit distributes: so many times the cluster, less its usage."""
        whole, up = self.scores.capacity, site.room.up
        used = (whole[up] - site.room.free.amounts[up]).sum(axis=0).tolist()
        return [total * self._factor - taken for total, taken in zip(whole[up].sum(axis=0).tolist(), used, strict=True)]

    def _allocate(self, site: Site, waiting: dict[int, Turns]) -> None:
        """Start jobs: one of the queue that is next, then the queues are compared again."""
        while waiting:
            queue = min(waiting, key=self.queues.key)
            started = self._first_that_starts(site, queue, waiting[queue])
            if started is None:
                del waiting[queue]

    def _first_that_starts(self, site: Site, queue: int, turns: Turns) -> int | None:
        """Start the first job of the queue that can, and name it. Refusals leave the order of the queues as it is."""
        while (j := self._head(turns)) is not None:
            job = site.job(j)
            if not site.room.fits(job.role):
                self._misfits.add(job.shape)
            elif self._may_start(queue, j) and (holds := self._place(site, j)):
                self._start(site, j, holds)
                turns.taken()
                return j
            turns.refused()
        return None

    def _may_start(self, queue: int, j: int) -> bool:
        """Return whether the job may start: jobs with future room in this cycle wait for it."""
        return j not in self.evictions.has_room and self.queues.allows(queue, self.demands[j])

    def _place(self, site: Site, j: int) -> Holds | None:
        """Pod after pod onto the node with the best score."""
        role = site.job(j).role
        counts = site.room.fit_counts(role)
        nodes = np.flatnonzero(counts)
        left, free, counted = counts[nodes], site.room.free.amounts[nodes], self._counted[nodes]
        request, own = np.array(role.request, dtype=np.int64), self.scores.counted_request(role.request)
        scores = self.scores.of_nodes(role.request, nodes, free, counted)
        pods, order = np.zeros(len(nodes), dtype=np.int64), list[int]()
        for k in range(role.replicas):
            at = self._nominated(j, k, nodes, scores)
            at = self.best_node((j, k), nodes, scores) if at is None else at
            order.append(int(nodes[at]))
            pods[at] += 1
            free[at] -= request
            counted[at] += own
            one = slice(at, at + 1)
            has_room = pods[at] < left[at]
            scores[at] = self.scores.of_nodes(role.request, nodes[one], free[one], counted[one])[0] if has_room else -1
        self._states[j] = replace(self._states[j], nodes=order)
        return tuple(site.room.hold(role, int(nodes[at]), int(pods[at])) for at in np.flatnonzero(pods))

    def _nominated(self, j: int, k: int, nodes: IntArray, scores: FloatArray) -> int | None:
        """Where in `nodes` the one is on which others were evicted for the pod, if it has room."""
        if (node := self.evictions.nominated.get(j, {}).get(k)) is None:
            return None
        found = np.flatnonzero((nodes == node) & (scores >= 0))
        return int(found[0]) if len(found) else None

    def _make_room(self, site: Site, action: str) -> None:
        """Evict for the jobs that could not start: queue by queue, each in its order."""
        running = {j: self._states[j] for j in site.running if j not in self._just_started}
        self.evictions.open_cycle(site, running, self._counted)
        waiting = {q for q, lines in enumerate(self._let_in) if lines}
        make_room = self.evictions.preempt if action == "preempt" else self.evictions.reclaim
        while waiting:
            queue = min(waiting, key=self.queues.key)
            waiting.remove(queue)
            make_room(queue, (self._named[rank] for rank in self._let_in[queue].in_order()))

    def _evict(self, site: Site) -> list[int]:
        """End the jobs that have lost a pod in this cycle: they are submitted again."""
        evicted = self.evictions.close_cycle()
        for j in evicted:
            self._restart(site, j)
        if evicted:
            self._misfits.clear()
        return evicted

    def _restart(self, site: Site, j: int) -> None:
        site.evict(j)
        self._note_end(site, j)
        self._states[j] = JobState(site.now)
        self.evictions.nominated.pop(j, None)
        self._note_arrival(site, j)

    # ---- state

    def _start(self, site: Site, j: int, holds: Holds) -> None:
        job = site.job(j)
        site.start(j, holds)
        self._let_in[job.queue].remove(job.shape, self.order(site, j))
        self._just_started.append(j)
        self.queues.ask(job.queue, self.demands[j], -1)
        self.queues.take(job.queue, self.demands[j])
        self._states[j] = replace(self._states[j], holds=holds)
        self.evictions.nominated.pop(j, None)
        self._count(job.role, holds, 1)

    def _note_arrival(self, site: Site, j: int) -> None:
        self._new[site.job(j).queue].add(site.job(j).shape, self.order(site, j))
        self.queues.jobs[site.job(j).queue] += 1

    def _note_end(self, site: Site, j: int) -> None:
        job = site.job(j)
        self.queues.take(job.queue, self.demands[j], -1)
        self.queues.jobs[job.queue] -= 1
        self._count(job.role, self._states[j].holds, -1)

    def _count(self, role: Role, holds: Holds, times: int) -> None:
        for held in holds:
            self._counted[held.node] += times * held.pods * self.scores.counted_request(role.request)

    def _count_inqueue(self, j: int, times: int = 1) -> None:
        for r, amount in enumerate(self.demands[j]):
            self._inqueue[r] += times * amount


class Lines:
    """The jobs of each shape in a line of its own. A refusal of one job applies to its whole line: room only shrinks
    within a cycle."""

    def __init__(self) -> None:
        self._lines: dict[Shape, list[Order]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, shape: Shape, order: Order) -> None:
        insort(self._lines.setdefault(shape, []), order)

    def remove(self, shape: Shape, order: Order) -> None:
        line = self._lines[shape]
        del line[bisect_left(line, order)]
        if not line:
            del self._lines[shape]

    def in_order(self) -> Iterator[int]:
        """Return the last parts of the orders of all jobs."""
        return (order[2] for order in merge(*self._lines.values()))

    def turns(self, without: Collection[Shape] = ()) -> Turns:
        """Return one round through the lines, but for those of some shapes."""
        return Turns({shape: line for shape, line in self._lines.items() if shape not in without})


class Turns:
    """A round: `head` is asked, then `taken` or `refused` is called for it, `taken` when it has left its line."""

    def __init__(self, lines: dict[Shape, list[Order]]) -> None:
        self._heads = [(line[0], line, shape) for shape, line in lines.items()]
        heapify(self._heads)

    @property
    def head(self) -> int | None:
        """Return the last part of the order of the job that is asked next."""
        return self._heads[0][0][2] if self._heads else None

    def taken(self) -> None:
        """The head is served; the next of its line is asked in its turn."""
        _, line, shape = self._heads[0]
        if line:
            heapreplace(self._heads, (line[0], line, shape))
        else:
            heappop(self._heads)

    def refused(self) -> None:
        """Nobody of the head's line is asked any more."""
        heappop(self._heads)
