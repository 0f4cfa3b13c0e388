"""gangplan's own planner as a policy of the replay: of a deep queue the jobs that a plan may start now.

These are selected: enough similar ones precede the others to fill all room.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, le

from solver.options import Options
from solver.plan import Decision
from solver.planner import solve
from solver.problem import DeviceSlot, Gang, GangTimes, Node, Placement, Problem, Role, SlotHold, Vector
from solver.simulation.policies import Event
from solver.simulation.room import Hold
from solver.simulation.site import Running, Site
from solver.simulation.workload import SECOND, Job


class Planned:
    """Gangplan's plan of running and waiting jobs, at each event at which some waiting job fits. Of a deep queue only
    the foremost jobs are decided."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def decide(self, site: Site, event: Event) -> None:
        fitting = list(site.waiting_in_order(site.room))
        if not fitting:
            return
        waiting = list(site.waiting_in_order())
        if fitting == waiting and not site.closings and may_all_start(site, waiting):
            decisions = self._decisions(problem_by_queue(site, waiting), waiting)
            if all(decision.action == "start" for decision in decisions):
                _start(site, waiting, decisions)
                return
        foremost = Foremost(site, waiting)
        problem = whole_problem(site, foremost.jobs, foremost.stand_ins())
        _start(site, foremost.jobs, self._decisions(problem, foremost.jobs))

    def _decisions(self, problem: Problem, waiting: Sequence[int]) -> Sequence[Decision]:
        """Return gangplan's decisions on the waiting jobs, the last gangs of a problem."""
        return solve(problem, self.options, reasons=False).decisions[-len(waiting) :]


def whole_problem(site: Site, waiting: Sequence[int], others: Iterable[Gang] = ()) -> Problem:
    """Return each job that runs, and after them these that wait. others: gangs between the two."""
    return _problem(site, [*(_gang(site, j) for j in site.running), *others], waiting)


def problem_by_queue(site: Site, waiting: Sequence[int]) -> Problem:
    """Return the same problem, with one gang for all running jobs of a queue. It omits their ends, which do not matter
    where all waiting jobs start; and it is many times smaller."""
    return _problem(site, _running_by_queue(site), waiting)


def _problem(site: Site, running: Sequence[Gang], waiting: Sequence[int]) -> Problem:
    gangs = (*running, *(_gang(site, j) for j in waiting))
    return replace(site.workload.cluster, nodes=_nodes(site), gangs=gangs)


def _start(site: Site, jobs: Sequence[int], decisions: Sequence[Decision]) -> None:
    for j, decision in zip(jobs, decisions, strict=True):
        if decision.action == "start":
            site.start(j, _holds(site, j, decision))


def _running_by_queue(site: Site) -> list[Gang]:
    """Return the running jobs, as one gang for each queue with a role for each kind of pods."""
    kinds: dict[int, dict[object, int]] = {}
    roles: dict[int, list[Role]] = {}
    pods: dict[int, Counter[tuple[int, int]]] = {}
    slots: dict[int, Counter[tuple[int, int, int]]] = {}
    for j, running in site.running.items():
        job = site.job(j)
        of_queue = kinds.setdefault(job.queue, {})
        role = of_queue.setdefault((job.role.request, job.role.slot_requests), len(of_queue))
        if role == len(roles.setdefault(job.queue, [])):
            roles[job.queue].append(job.role)
        counts = pods.setdefault(job.queue, Counter())
        for held in running.holds:
            counts[role, held.node] += held.pods
        for slot in _slot_holds(site, job.role, running):
            slots.setdefault(job.queue, Counter())[role, slot.node, slot.slot] += slot.pods
    return [_whole_gang(queue, roles[queue], pods[queue], slots.get(queue, {})) for queue in sorted(kinds)]


def _whole_gang(
    queue: int, roles: Sequence[Role], pods: Mapping[tuple[int, int], int], slots: Mapping[tuple[int, int, int], int]
) -> Gang:
    total = Counter[int]()
    for (role, _), number in pods.items():
        total[role] += number
    return Gang(
        f"running-{queue}",
        queue,
        0,
        0,
        total.total(),
        tuple(replace(role, name=f"pods-{t}", replicas=total[t], minimum=total[t]) for t, role in enumerate(roles)),
        running=tuple(Placement(*at, number) for at, number in sorted(pods.items())),
        slot_holds=tuple(SlotHold(*at, number) for at, number in sorted(slots.items())),
    )


def _nodes(site: Site) -> tuple[Node, ...]:
    """Return the nodes with what their device slots have free, and with their maintenance; without room where they are
    away for another reason."""
    cluster, up = site.workload.cluster, site.believed_up()
    if not cluster.slot_groups and up.all() and not site.closings:
        return cluster.nodes
    found, closed = [], site.closings.windows()
    for n, node in enumerate(cluster.nodes):
        free = site.room.free.slots[n]
        slots = tuple(
            DeviceSlot(slot.slot_group, slot.capacity, tuple(free[at].tolist()))
            for slot, at in zip(node.slots, site.slot_positions[n], strict=True)
        )
        nothing = (0,) * len(cluster.resources)
        windows = tuple(
            (max(0, start - site.now) // SECOND, -((site.now - end) // SECOND))
            for start, end in sorted(closed.get(n, ()))
        )
        begins = windows[0][0] if windows else None
        node = replace(node, maintenance_in=begins, maintenance_windows=windows)
        found.append(replace(node, slots=slots) if up[n] else replace(node, slots=(), free=nothing))
    return tuple(found)


def _gang(site: Site, j: int) -> Gang:
    """Return a job as a gang: where it runs and until when, or as it waits. Jobs may share a name, gangs may not."""
    job, running = site.job(j), site.running.get(j)
    role = job.role
    times = GangTimes(duration=requested_seconds(job))
    gang = Gang(str(j), job.queue, job.priority, job.submit, role.replicas, (role,), times=times)
    if running is None:
        return gang
    return replace(
        gang,
        running=tuple(Placement(0, held.node, held.pods) for held in running.holds),
        times=replace(times, ends_in=max(0, -(-(running.believed_end - site.now) // SECOND))),
        slot_holds=tuple(sorted(_slot_holds(site, role, running), key=lambda hold: (hold.role, hold.node, hold.slot))),
    )


def _slot_holds(site: Site, role: Role, running: Running) -> Iterator[SlotHold]:
    """Yield the device slots of a job that runs, as of role 0."""
    for held in running.holds if role.slot_requests else ():
        for request, counts in zip(role.slot_requests, held.slots, strict=True):
            for at, pods in enumerate(counts):
                if pods:
                    slot = site.slot_positions[held.node].index((request.slot_group, at))
                    yield SlotHold(0, held.node, slot, pods)


def _holds(site: Site, j: int, decision: Decision) -> tuple[Hold, ...]:
    """Where the decision on a job puts its pods, and on which device slots."""
    role, found = site.job(j).role, []
    for placement in decision.placements:
        counts = [[0] * site.room.free.slots.shape[2] for _ in role.slot_requests]
        for use in decision.slot_uses:
            if use.node == placement.node:
                group, at = site.slot_positions[use.node][use.slot]
                for request, of_request in zip(role.slot_requests, counts, strict=True):
                    of_request[at] += use.pods if request.slot_group == group else 0
        found.append(Hold(placement.node, placement.pods, tuple(map(tuple, counts))))
    return tuple(found)


@dataclass(slots=True)
class _Line:
    """Jobs of one queue, priority and shape. room: how many of them fit at most. ends: requested times of the selected
    jobs, ascending."""

    room: int
    ends: list[int] = field(default_factory=list)

    def has_enough_before(self, seconds: int) -> bool:
        """Return whether as many earlier jobs as fit request no more time: a plan starts these first, whatever it
        reserves."""
        return bisect_right(self.ends, seconds) >= max(1, self.room)


class Foremost:
    """The waiting jobs of a site, without those that no plan starts now.

    Jobs of one queue, priority and shape start in order; a later one passes only if it ends before a reservation and
    earlier ones do not. A job is left out only if smaller ones before it already claim more than its queue can be
    entitled to, so that entitlements are claimed as before. In a queue with strict order none is left out, since each
    blocks those behind it.
    """

    def __init__(self, site: Site, waiting: Sequence[int]) -> None:
        """waiting: in order."""
        self.site = site
        self.jobs: list[int] = []
        self._left_out: dict[int, list[Job]] = {}
        self._lines: dict[object, _Line] = {}
        self._claims: dict[int, Counter[Vector]] = {}
        self._held = _held_amounts(site)
        for j in waiting:
            if self._is_behind(site.job(j)):
                self._left_out.setdefault(site.job(j).queue, []).append(site.job(j))
            else:
                self.jobs.append(j)

    def _is_behind(self, job: Job) -> bool:
        """Return whether the job is left out; else it claims its place in line."""
        key, seconds = (job.queue, job.priority, job.shape), requested_seconds(job)
        line = self._lines.get(key)
        if line is None:
            fits = int(self.site.room.fit_counts(job.role).sum()) // job.role.replicas
            line = self._lines[key] = _Line(fits)
        claims, demand = self._claims.setdefault(job.queue, Counter()), _demand(job)
        is_strict = self.site.workload.cluster.queues[job.queue].strict_order
        if not is_strict and line.has_enough_before(seconds) and self._are_exhausted(job.queue, demand):
            return True
        insort(line.ends, seconds)
        claims[demand] += 1
        return False

    def _are_exhausted(self, queue: int, demand: Vector) -> bool:
        """Return whether what the queue holds and what its earlier jobs that ask for no more claim is all that the
        cluster has of each resource of this demand."""
        total = self._held.get(queue, [0] * len(demand))
        for each, number in self._claims[queue].items():
            if all(map(le, each, demand)):
                total = [amount + number * more for amount, more in zip(total, each, strict=True)]
        totals = self.site.workload.cluster.totals
        return all(total[r] >= totals[r] for r, amount in enumerate(demand) if amount)

    def stand_ins(self) -> Iterator[Gang]:
        """For each queue a gang that asks for what its jobs that are left out do, and never starts: one of its pods has
        no node."""
        for queue, jobs in sorted(self._left_out.items()):
            pods = Counter[Role]()
            for job in jobs:
                pods[replace(job.role, replicas=1, minimum=1)] += job.role.replicas
            homeless = replace(next(iter(pods)), name="homeless", node_classes=frozenset())
            pods.subtract([next(iter(pods))])
            roles = [
                replace(role, name=f"pods-{t}", replicas=n, minimum=n) for t, (role, n) in enumerate(pods.items()) if n
            ]
            priority, age = min(job.priority for job in jobs), max(job.submit for job in jobs)
            yield Gang(f"waiting-{queue}", queue, priority, age, 1 + pods.total(), (*roles, homeless))


def _demand(job: Job) -> Vector:
    return tuple(amount * job.role.replicas for amount in job.role.request)


def _held_amounts(site: Site) -> dict[int, list[int]]:
    """Return queue -> what its jobs that run hold of each resource."""
    found: dict[int, list[int]] = {}
    for j in site.running:
        job = site.job(j)
        found[job.queue] = [*map(add, found.get(job.queue, [0] * len(job.role.request)), _demand(job))]
    return found


def requested_seconds(job: Job) -> int:
    """Return the requested time as a plan knows it, in whole seconds."""
    return -(-job.requested // SECOND)


def may_all_start(site: Site, waiting: Sequence[int]) -> bool:
    """Return whether the waiting jobs together request no more than the free amounts."""
    asked = [sum(amounts) for amounts in zip(*(_demand(site.job(j)) for j in waiting), strict=True)]
    free = site.room.free.amounts[site.room.up].sum(axis=0)
    return bool((free >= asked).all())
