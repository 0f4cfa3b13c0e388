"""gangplan's own planner as a policy of the replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from solver.options import Options
from solver.plan import Decision
from solver.planner import solve
from solver.problem import DeviceSlot, Gang, GangTimes, Node, Placement, Problem, Role, SlotHold
from solver.simulation.foremost import Foremost, may_all_start, requested_seconds
from solver.simulation.policies import Event
from solver.simulation.room import Hold
from solver.simulation.site import Running, Site
from solver.simulation.workload import SECOND


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
