"""From a trace and a cluster to the input of a replay, with the scheduler's configuration for the policy `volcano`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from compiler.fields.quantity import is_device
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.traces.nodes import MACHINE, unlimited_queue
from compiler.traces.trace import MOST_SECONDS, Trace, TraceError, TraceJob
from solver.problem import DeviceSlot, Problem, Role, SlotRequest
from solver.simulation.workload import SECOND, Job, Outage, Plugin, VolcanoScheduler, Workload

WHOLE = 1000
"""Thousandths of a device."""

SHARED_GROUP = "device"
Amount = TypeVar("Amount", int, int | None)


@dataclass(frozen=True, slots=True)
class RequestedTimes:
    """The requested time that policies assume for a job whose trace states none. factor: times the real duration. past:
    the mean of the user's last two jobs that had ended by then (Tsafrir et al., Backfilling Using System-Generated
    Predictions, TPDS 2007), and the factor before there are any."""

    factor: float = 1.0
    past: bool = False

    def describe(self) -> str:
        """In words."""
        factor = f"{self.factor:g} times the real duration"
        return f"the mean of the user's last two jobs, else {factor}" if self.past else factor


@dataclass(frozen=True, slots=True)
class Sampling:
    """The trace is inflated until its jobs ask for `load` times the devices of the cluster: jobs drawn with replacement
    are added, and all are shuffled, by the seed. They come one by one; one that cannot start is lost (FGD, ATC'23)."""

    load: float
    seed: int


def window_of(trace: Trace, number: int, seed: int) -> Trace:
    """So many jobs of the trace that follow each other, drawn by the seed; all, where there are no more."""
    if number >= len(trace.jobs):
        return trace
    first = random.Random(seed).randrange(len(trace.jobs) - number + 1)  # noqa: S311  # the same draw each time
    note = f"A window of the trace: {number} of {len(trace.jobs)} jobs, from job {first + 1} (seed {seed})."
    return replace(
        trace, jobs=trace.jobs[first : first + number], notes=(*trace.notes, f"{note} The cluster is empty before it.")
    )


def make_workload(
    trace: Trace,
    cluster: Problem,
    requested: RequestedTimes,
    sampling: Sampling | None = None,
    outages: Sequence[Outage] = (),
    classes: Mapping[str, int] | None = None,
) -> Workload:
    """Return the workload. classes: model of devices -> the class of the nodes that have it. Raises TraceError where
    the cluster has nothing of what jobs are counted in."""
    device = device_resource(cluster)
    jobs = [job for job in trace.jobs if job.duration is not None]
    if not jobs and sampling is None:
        raise TraceError(
            "no job of the trace has a run time. Fix: name the column with --columns, for example `duration: my_column`"
        )
    if sampling is not None:
        jobs = _sampled(trace.jobs, cluster.totals[device], sampling)
    is_cpu = cluster.resources[device] == "cpu"
    shares = not is_cpu and any(job.share != WHOLE for job in jobs)
    cluster = _with_queues(_with_shares(cluster, device) if shares else cluster, jobs)
    unit = WHOLE if shares or is_cpu else 1
    origin = replay_origin(trace, sampling)
    builder = _JobBuilder(cluster, device, unit, shares, classes or {})
    believed = _requested_times(jobs, requested)
    found = [builder.job(job, job.submit - origin, limit) for job, limit in zip(jobs, believed, strict=True)]
    return Workload(cluster, found, device, unit, outages, loses_jobs=sampling is not None)


def replay_origin(trace: Trace, sampling: Sampling | None) -> float:
    """Return the moment of the trace at which its replay begins; drawn jobs have no dates."""
    return 0.0 if sampling is not None else trace.origin


def device_resource(cluster: Problem) -> int:
    """Return the resource in which jobs are counted: the device that the cluster has most of, else machines, else
    CPU."""
    totals = {name: total for name, total in zip(cluster.resources, cluster.totals, strict=True) if total}
    devices = sorted(filter(is_device, totals), key=lambda name: -totals[name])
    for name in (*devices, MACHINE, "cpu"):
        if name in totals:
            return cluster.resources.index(name)
    raise TraceError("the cluster has no devices and no CPU")


def _sampled(jobs: Sequence[TraceJob], total: int, sampling: Sampling) -> list[TraceJob]:
    if not any(job.devices for job in jobs):
        raise TraceError("no job of the trace requests devices: nothing to sample")
    draw = random.Random(sampling.seed)  # noqa: S311  # the same draw each time
    target, pool = sampling.load * total * WHOLE, list(jobs)
    asked = sum(job.devices * job.share for job in pool)
    while asked < target:
        pool.append(draw.choice(jobs))
        asked += pool[-1].devices * pool[-1].share
    draw.shuffle(pool)
    chosen = list[TraceJob]()
    for job in pool:
        if target <= 0:
            break
        chosen.append(replace(job, id=f"{len(chosen)}-{job.id}", submit=float(len(chosen))))
        target -= job.devices * job.share
    last = float(len(chosen))
    return [replace(job, duration=2 * last - job.submit, requested=None) for job in chosen]  # all stay to the end


def _with_queues(cluster: Problem, jobs: Sequence[TraceJob]) -> Problem:
    """Return the cluster with an unlimited queue for each that only the trace names, and without jobs of its own."""
    known = {queue.name for queue in cluster.queues}
    names = sorted({job.queue or "default" for job in jobs} - known)
    more = tuple(unlimited_queue(name, len(cluster.resources)) for name in names)
    return replace(cluster, queues=(*cluster.queues, *more), gangs=(), pod_rules=(), disruption_budgets=())


def _with_shares(cluster: Problem, device: int) -> Problem:
    """Return the same in thousandths of devices, each a device slot of its node."""

    def scaled(amounts: Sequence[Amount]) -> tuple[Amount, ...]:
        return tuple(amount * WHOLE if r == device and amount else amount for r, amount in enumerate(amounts))

    one = tuple(WHOLE if r == device else 0 for r in range(len(cluster.resources)))
    nodes = tuple(
        replace(
            node,
            capacity=scaled(node.capacity),
            free=scaled(node.free),
            slots=(DeviceSlot(0, one, one),) * node.capacity[device],
        )
        for node in cluster.nodes
    )
    queues = tuple(
        replace(
            queue,
            guarantee=scaled(queue.guarantee),
            deserved=scaled(queue.deserved),
            capability=scaled(queue.capability),
            used=scaled(queue.used),
        )
        for queue in cluster.queues
    )
    return replace(cluster, nodes=nodes, queues=queues, slot_groups=(SHARED_GROUP,))


class _JobBuilder:
    """Jobs of a trace on one cluster."""

    def __init__(self, cluster: Problem, device: int, unit: int, shares: bool, models: Mapping[str, int]) -> None:
        """unit: the amount of the resource that is one device. shares: whether devices are slots of their nodes."""
        self.cluster, self.device, self.unit, self.shares, self.models = cluster, device, unit, shares, models
        self.queues: Mapping[str, int] = {queue.name: q for q, queue in enumerate(cluster.queues)}
        self.classes = frozenset(node.node_class for node in cluster.nodes)
        columns = zip(*(node.capacity for node in cluster.nodes), strict=True)
        self.largest = dict(zip(cluster.resources, map(max, columns), strict=True))

    def job(self, job: TraceJob, submit: float, requested: float) -> Job:
        """Return the job in the units of the cluster; it ends at its requested time where the trace states one."""
        ran = job.duration or 0.0
        duration = ran if job.requested is None else min(ran, job.requested)
        return Job(
            job.id,
            round(submit * SECOND),
            max(1, round(duration * SECOND)),
            max(1, round(requested * SECOND)),
            self._role(job),
            self.queues[job.queue or "default"],
            job.priority,
            job.user,
        )

    def _role(self, job: TraceJob) -> Role:
        """Pods of the largest equal size that a node can hold."""
        name = self.cluster.resources[self.device]
        known = (("cpu", job.cpu), ("memory", job.memory))
        rest = {resource: amount for resource, amount in known if self.largest.get(resource)}
        least = max((-(-amount // self.largest[resource]) for resource, amount in rest.items()), default=1)
        each = self._devices_of_pod(job.devices, least)
        pods = job.devices // each if each else max(1, least)
        asked = {"pods": pods, **rest, **({name: job.devices * self._amount_of_one(job)} if each else {})}
        request = tuple(-(-asked.get(resource, 0) // pods) for resource in self.cluster.resources)
        share = tuple(job.share if r == self.device else 0 for r in range(len(request)))
        slots = (SlotRequest(0, each, share),) if self.shares and each else ()
        return Role("pod", pods, pods, request, self._open_to(job), slot_requests=slots)

    def _devices_of_pod(self, devices: int, least: int) -> int:
        """Return the most devices of one node of which all pods can have so many, in at least so many pods if
        possible."""
        most = self.largest.get(self.cluster.resources[self.device], 0) // self.unit
        sizes = [size for size in range(min(most, devices), 0, -1) if devices % size == 0]
        return next((size for size in sizes if devices // size >= least), max(sizes, default=0))

    def _amount_of_one(self, job: TraceJob) -> int:
        return job.share if self.shares else self.unit

    def _open_to(self, job: TraceJob) -> frozenset[int]:
        """Return the classes of nodes that have one of the job's models; all, where it names none or these are not
        known."""
        return frozenset(self.models[model] for model in job.models if model in self.models) or self.classes


def _requested_times(jobs: Sequence[TraceJob], model: RequestedTimes) -> list[float]:
    """Return the durations that policies assume for the jobs."""
    found, ended = list[float](), dict[str, list[tuple[float, float]]]()
    for job in jobs:
        ran = job.duration or 0.0
        over = (duration for end, duration in reversed(ended.get(job.user, [])) if end <= job.submit)
        known = list(islice(over, 2)) if model.past else []
        if job.requested is not None:
            found.append(job.requested)
        elif known:
            found.append(sum(known) / len(known))
        else:
            found.append(min(model.factor * ran, MOST_SECONDS))
        if model.past:
            ended.setdefault(job.user, []).append((job.submit + ran, ran))
    return found


def assumptions(trace: Trace, workload: Workload, requested: RequestedTimes, sampling: Sampling | None) -> list[str]:
    """Return the assumptions of a replay of the workload, a sentence each."""
    found = [*trace.notes]
    unended = sum(job.duration is None for job in trace.jobs) if sampling is None else 0
    left_out = {
        **trace.left_out,
        **({"no run time": unended + trace.left_out.get("no run time", 0)} if unended else {}),
    }
    if left_out:
        reasons = ", ".join(f"{reason}: {number}" for reason, number in sorted(left_out.items()))
        found.append(f"Lines left out: {reasons}.")
    stated = sum(job.requested is not None for job in trace.jobs if job.duration is not None)
    if sampling is not None:
        found.append(
            f"Jobs are drawn until they request {sampling.load:g} times the cluster (seed {sampling.seed}). "
            "A job that does not fit on arrival is lost; none ends."
        )
    elif not (unstated := len(workload.jobs) - stated):
        found.append("Requested times are those of the trace; a job ends at its requested time.")
    else:
        which = (
            f"{unstated} {'job states' if unstated == 1 else 'jobs state'} no requested time"
            if stated
            else "The trace states no requested times"
        )
        found.append(f"{which}: policies assume {requested.describe()}.")
    found += _node_hours("Outages", "jobs on a lost node start again", workload.outages, is_known=False)
    found += _node_hours("Maintenance", "only volcano does not know of it before", workload.outages, is_known=True)
    return found


def _node_hours(what: str, then: str, outages: Sequence[Outage], is_known: bool) -> list[str]:
    lost = [outage.end - outage.start for outage in outages if (outage.known is not None) is is_known]
    return [f"{what}: {len(lost)}, {sum(lost) / SECOND / 3600:.1f} node hours; {then}."] if lost else []


def lower_scheduler(scheduler: SchedulerSpec | None, period: int) -> VolcanoScheduler:
    """Return the configuration as the policy `volcano` of a replay takes it; without one, what Volcano's chart
    installs."""
    if scheduler is None:
        return VolcanoScheduler(period=period)
    tiers = (tuple(Plugin(each.name, each.arguments, each.flags) for each in tier) for tier in scheduler.tiers)
    return VolcanoScheduler(scheduler.actions, tuple(tiers), period)
