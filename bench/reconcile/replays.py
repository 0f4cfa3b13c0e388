"""replays: pieces of real traces on stock Volcano with kwok, next to the model of `gangplan simulate --policy volcano`.

A piece is 100 jobs in a row, their arrivals and run times compressed so that it lasts some two minutes, on so few nodes
that jobs wait. The model gets the arrival of each job and the end of each pod as the scheduler saw them, the moments of
its cycles, and its random draws, so that only decisions differ. One row is its result by the trace alone.
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
from solver.simulation.workload import DEFAULT_SCHEDULER
from tests.differential.replayed import (
    WEIGHTS,
    Modelled,
    RealReplay,
    TimedJob,
    causes,
    cycles_apart,
    delete_jobs,
    lay_out,
    modelled,
    predicted,
    run_jobs,
)

PIECES = (
    ("philly", ("philly-2017", "philly.csv.gz"), 40_000),
    ("ipsc", ("nasa-ipsc-1993", "NASA-iPSC-1993-3.1-cln.swf.gz"), 9_000),
    ("openb", ("openb-2023", "openb_pod_list_default.csv"), 4_000),
)
"""Name, file, and the first job of the piece."""
JOBS, NODES, GPUS = 100, 3, 8
ARRIVALS, LONGEST, SHORTEST = 80.0, 30.0, 3.0
"""Seconds: until the last arrival, and of one job."""
SHARE = 5.0
"""Most of 100 starts that may be more than a cycle apart."""
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
    """Yield for each piece: how many starts are apart, by cycles and by the clock; each of these by its cause."""
    nodes = [f"gpu-{at}" for at in range(NODES)]
    bed.add_gpu_nodes(NODES)
    lay_out(bed.plane, DEFAULT_SCHEDULER)
    for name, path, first in PIECES:
        jobs = piece_of(read_trace(trace_file(*path)).jobs, first)
        found = run_jobs(bed.plane, jobs)
        delete_jobs(bed.plane)
        world = (jobs, nodes, WEIGHTS, DEFAULT_SCHEDULER)
        model, alone = modelled(found, *world), predicted(found, *world)
        _print_causes(name, found, model)
        by_clock = sum(_is_near(found, j, start) for j, start in enumerate(model.starts))
        apart = [abs(cycles) for cycles in cycles_apart(found, model.starts)]
        yield Row(name, f"of {len(jobs)} starts, over a period apart by the clock", len(jobs) - by_clock, "", SHARE)
        yield Row(name, "more than a cycle apart", sum(cycles > 1 for cycles in apart), "", SHARE)
        yield Row(name, "not at the same cycle", sum(cycles > 0 for cycles in apart), "")
        yield Row(name, "on nodes that the model does not rate best", len(model.misses), "")
        unknown = sum(abs(cycles) > 1 for cycles in cycles_apart(found, alone))
        yield Row(name, "more than a cycle apart, by the trace alone", unknown, "")
        yield Row(name, "period", found.period)


def _is_near(found: RealReplay, j: int, start: float | None) -> bool:
    real = found.starts[j]
    return start is not None and real is not None and abs(real - start) <= found.period


def _print_causes(name: str, found: RealReplay, model: Modelled) -> None:
    """Each start at another cycle, and why."""
    apart = cycles_apart(found, model.starts)
    for j, cause in causes(found, model.starts).items():
        click.echo(f"  {name} job {j}: {apart[j]:+} cycles, {cause}", err=True)
