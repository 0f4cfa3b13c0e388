"""replays: pieces of real traces on stock Volcano with kwok, next to the model of `gangplan simulate --policy volcano`.

A piece is 100 jobs in a row, their arrivals and run times compressed so that it lasts some two minutes, on so few nodes
that jobs wait. The model gets each job's arrival and run time as they really were, and the moments of the scheduler's
cycles, so that what differs is its decisions. It is no prediction.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from bench.reconcile.bed import Bed, Row, Sizes
from bench.traces import trace_file
from compiler.traces.reading import read_trace
from compiler.traces.trace import TraceJob
from solver.simulation.volcano_configuration import DEFAULT_SCHEDULER
from tests.builders.declared import priority_class
from tests.differential.replayed import TimedJob, create_queues, cycles_apart, modelled_starts, run_jobs

PIECES = (
    ("philly", ("philly-2017", "philly.csv.gz"), 40_000),
    ("ipsc", ("nasa-ipsc-1993", "NASA-iPSC-1993-3.1-cln.swf.gz"), 9_000),
    ("openb", ("openb-2023", "openb_pod_list_default.csv"), 4_000),
)
"""Name, file, and the first job of the piece."""
JOBS, NODES, GPUS = 100, 3, 8
ARRIVALS, LONGEST, SHORTEST = 80.0, 30.0, 3.0
"""Seconds: until the last arrival, and of one job."""
WEIGHTS = {"qa": 1, "qb": 2, "qc": 3}
SHARE = 5.0
"""Percent of starts that may be more than a cycle apart."""
WORK = 0.9
"""Times what the nodes can do until the last arrival."""


def piece_of(jobs: Sequence[TraceJob], first: int) -> list[TimedJob]:
    """So many jobs in a row, compressed: queues are folded into three, sizes to what the nodes hold."""
    chosen = [job for job in jobs[first:] if job.devices and job.duration][:JOBS]
    begin, span = chosen[0].submit, max(1.0, chosen[-1].submit - chosen[0].submit)
    queues, draw = list(WEIGHTS), random.Random(first)  # noqa: S311  # the same draw each time
    found = []
    for job in chosen:
        size = min(job.devices, (NODES - 1) * GPUS)
        gpus = min(size, GPUS)
        runs, at = float(job.duration or 0), ARRIVALS * (job.submit - begin) / span
        found.append(
            TimedJob(at, runs, max(1, size // gpus), gpus, 1000 * gpus, draw.choice(queues), draw.choice((0, 0, 10)))
        )
    return _with_work(found)


def _with_work(jobs: Sequence[TimedJob]) -> list[TimedJob]:
    """Run times scaled until the jobs are as much work as the nodes can do, none too short or too long."""
    target, low, high = WORK * NODES * GPUS * ARRIVALS, 1e-6, 1e3
    for _ in range(60):
        factor = (low * high) ** 0.5
        found = [replace(job, runs=round(min(LONGEST, max(SHORTEST, job.runs * factor)))) for job in jobs]
        work = sum(job.pods * job.gpus * job.runs for job in found)
        low, high = (factor, high) if work < target else (low, factor)
    return found


def measure_replays(bed: Bed, _sizes: Sizes) -> Iterator[Row]:
    """The share of starts that are more than a cycle apart, of each piece."""
    bed.add_gpu_nodes(NODES)
    bed.set_schedule_period("1s")
    create_queues(bed.plane, WEIGHTS)
    bed.plane.api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class("p10", 10))
    for name, path, first in PIECES:
        jobs = piece_of(read_trace(trace_file(*path)).jobs, first)
        found = run_jobs(bed.plane, jobs)
        starts = modelled_starts(found, jobs, NODES, WEIGHTS, DEFAULT_SCHEDULER)
        apart = cycles_apart(found, starts)
        waits = sorted(seen.bound - seen.created for seen in found.seen)
        for j, cycles in enumerate(apart):
            if abs(cycles) > 1:
                click.echo(f"  {name} job {j}: {cycles:+} cycles; {jobs[j]}, {found.seen[j]}", err=True)
        off, moved = (100 * sum(abs(cycles) > most for cycles in apart) / len(apart) for most in (1, 0))
        yield Row(name, f"of {len(jobs)} starts, more than a cycle apart", off, "%", SHARE)
        yield Row(name, "not at the same cycle", moved, "%")
        yield Row(name, "period", found.period)
        yield Row(name, "median wait", waits[len(waits) // 2])
        yield Row(name, "longest wait", waits[-1])
        bed.plane.api("DELETE", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs?propagationPolicy=Background")
        bed.plane.wait_until(
            lambda: bed.plane.api("GET", "/api/v1/namespaces/default/pods?limit=1")["items"],
            lambda left: not left,
            what="an empty cluster",
        )
