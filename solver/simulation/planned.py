"""gangplan's own planner as a policy of the replay."""

from __future__ import annotations

from dataclasses import replace

from solver.options import Options
from solver.plan import Decision
from solver.planner import solve
from solver.problem import DeviceSlot, Gang, GangTimes, Node, Placement, SlotHold
from solver.simulation.policies import Event
from solver.simulation.room import Hold
from solver.simulation.site import Site
from solver.simulation.workload import SECOND


class Planned:
    """The plan that gangplan makes of what runs and what waits, at each event at which some waiting job fits."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def decide(self, site: Site, event: Event) -> None:
        if next(site.waiting_in_order(site.room), None) is None:
            return
        jobs = [*site.running, *site.waiting_in_order()]
        cluster = site.workload.cluster
        problem = replace(cluster, nodes=_nodes(site), gangs=tuple(_gang(site, j) for j in jobs))
        plan = solve(problem, self.options, reasons=False)
        for j, decision in zip(jobs, plan.decisions, strict=True):
            if decision.action == "start":
                site.start(j, _holds(site, j, decision))


def _nodes(site: Site) -> tuple[Node, ...]:
    """The nodes with what their device slots have free; without room where they are away."""
    cluster = site.workload.cluster
    if not cluster.slot_groups and site.room.up.all():
        return cluster.nodes
    found = []
    for n, node in enumerate(cluster.nodes):
        free = site.room.free.slots[n]
        slots = tuple(
            DeviceSlot(slot.slot_group, slot.capacity, tuple(free[at].tolist()))
            for slot, at in zip(node.slots, site.slot_positions[n], strict=True)
        )
        nothing = (0,) * len(cluster.resources)
        found.append(replace(node, slots=slots) if site.room.up[n] else replace(node, slots=(), free=nothing))
    return tuple(found)


def _gang(site: Site, j: int) -> Gang:
    """A job as a gang: where it runs and until when, or as it waits."""
    job, running = site.job(j), site.running.get(j)
    role = job.role
    times = GangTimes(duration=-(-job.requested // SECOND))
    gang = Gang(job.name, job.queue, job.priority, job.submit, role.replicas, (role,), times=times)
    if running is None:
        return gang
    holds = list[SlotHold]()
    for held in running.holds:
        for request, counts in zip(role.slot_requests, held.slots, strict=True):
            taken = [(at, pods) for at, pods in enumerate(counts) if pods]
            holds += [
                SlotHold(0, held.node, site.slot_positions[held.node].index((request.slot_group, at)), pods)
                for at, pods in taken
            ]
    return replace(
        gang,
        running=tuple(Placement(0, held.node, held.pods) for held in running.holds),
        times=replace(times, ends_in=max(0, -(-(running.believed_end - site.now) // SECOND))),
        slot_holds=tuple(sorted(holds, key=lambda hold: (hold.role, hold.node, hold.slot))),
    )


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
