"""Replays and published results: the schedule of Batsim's EASY, job by job, and FGD's GPU allocation on openb."""

from __future__ import annotations

import csv
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bench.measure import peak_memory
from bench.registry import Comparison, Figures, register_case
from bench.traces import trace_file
from compiler.traces.nodes import machines_cluster, read_nodes
from compiler.traces.reading import read_trace
from compiler.traces.trace import Trace
from compiler.traces.workloads import RequestedTimes, Sampling, make_workload
from solver.problem import Problem
from solver.simulation.catalogue import POLICIES
from solver.simulation.measures import Promises
from solver.simulation.replay import Replay, Simulation
from solver.simulation.workload import SECOND

SEEDS = range(1, 11)
LOAD = 1.3
NODES, DEVICES = 302, 8
"""Sizes of Kalos (AcmeTrace, NSDI'24)."""
PHILLY_NODES, LOOSE_LIMITS = 90, 3.0
"""Nodes on which 20,000 jobs of Philly wait now and then; requested times in real durations, for promised starts."""
PHILLY_JOBS = slice(20_000, 60_000, 2)
"""The busiest month of Philly, every other job."""
MONTH_BARS = {"easy": 60, "volcano": 60, "gangplan": 600}
"""Policy -> seconds."""
PUBLISHED = {"fgd": (95.27, 95.49), "best-fit": (92.87, 93.25)}
"""Policy -> its GPU allocation in percent, least and most of ten seeds (ATC'23, expected results of its artifact)."""


def measure_easy() -> Figures:
    """Return the schedule of a workload of 801 jobs on 32 machines and that of Batsim."""
    began, cpu = time.perf_counter(), time.process_time()
    trace = read_trace(trace_file("batsim-medium-late", "medium_late.json"))
    world = make_workload(trace, machines_cluster(trace.machines or 1), RequestedTimes())
    found = Simulation(world, POLICIES["easy"](world)).run()
    seconds, spent = time.perf_counter() - began, time.process_time() - cpu
    with trace_file("batsim-medium-late", "easy_out_jobs.csv").open(newline="") as lines:
        published = {row["job_id"]: row for row in csv.DictReader(lines)}
    runs = dict(zip((job.name for job in world.jobs), found.runs, strict=True))
    starts = sum(round(float(row["starting_time"]) * SECOND) == runs[name].start for name, row in published.items())
    places = sum(_machines(row) == {hold.node for hold in runs[name].holds} for name, row in published.items())
    rows = (("EASY", str(len(published)), str(starts), str(places)),)
    return Figures(
        seconds,
        spent,
        peak_memory(),
        comparison=Comparison("EASY and Batsim's", ("policy", "jobs", "same start", "same machines"), rows),
        claims={"every job starts when and where it does in Batsim": starts == places == len(published)},
    )


def _machines(row: Mapping[str, str]) -> set[int]:
    ranges = [[int(end) for end in part.split("-")] for part in row["allocated_resources"].split()]
    return {number for ends in ranges for number in range(ends[0], ends[-1] + 1)}


def measure_openb() -> Figures:
    """The mean GPU allocation of each policy over ten seeds."""
    began, cpu = time.perf_counter(), time.process_time()
    trace = read_trace(trace_file("openb-2023", "openb_pod_list_default.csv"))
    cluster, classes = read_nodes(trace_file("openb-2023", "openb_node_list_all_node.csv"))
    rows, claims = list[tuple[str, ...]](), dict[str, bool]()
    for name, (least, most) in PUBLISHED.items():
        shares = []
        for seed in SEEDS:
            world = make_workload(trace, cluster, RequestedTimes(), Sampling(LOAD, seed), (), classes)
            shares.append(_allocated(Simulation(world, POLICIES[name](world)).run()))
        mean = sum(shares) / len(shares)
        rows.append((name, f"{mean:.2f}", f"{min(shares):.2f}", f"{max(shares):.2f}", f"{least}", f"{most}"))
        claims[f"{name}: the mean is within the published range"] = least <= mean <= most
    return Figures(
        time.perf_counter() - began,
        time.process_time() - cpu,
        peak_memory(),
        comparison=Comparison(
            "openb, GPU allocation in percent at load 130 %",
            ("policy", "mean", "least", "most", "published least", "published most"),
            tuple(rows),
        ),
        claims=claims,
    )


def kalos_like_month() -> Trace:
    """20,000 jobs of Philly, larger and longer, so that they keep a cluster of Kalos' size busy and queue at times."""
    rng = random.Random(1)  # noqa: S311  # the same jobs each time
    jobs = read_trace(trace_file("philly-2017", "philly.csv.gz")).jobs[PHILLY_JOBS]
    larger = (
        replace(job, devices=job.devices * rng.choice((1, 2, 4, 8)), duration=1.9 * (job.duration or 0)) for job in jobs
    )
    return Trace(tuple(larger))


def measure_month(policy: str) -> Figures:
    """Return a replay of a month on 302 nodes of 8 devices."""
    began, cpu = time.perf_counter(), time.process_time()
    world = make_workload(kalos_like_month(), equal_nodes(NODES), RequestedTimes())
    found = Simulation(world, POLICIES[policy](world)).run()
    runs = [run for run in found.runs if run.start is not None]
    return Figures(
        time.perf_counter() - began,
        time.process_time() - cpu,
        peak_memory(),
        claims={"every job has ended": found.is_complete and len(runs) == len(world.jobs)},
    )


def measure_promises() -> Figures:
    """Promised starts under EASY on two traces, against the real ones and those by limits."""
    began, cpu = time.perf_counter(), time.process_time()
    philly = read_trace(trace_file("philly-2017", "philly.csv.gz"))
    worlds = {
        f"month on {NODES} nodes": (kalos_like_month(), NODES),
        f"Philly on {PHILLY_NODES} nodes": (replace(philly, jobs=philly.jobs[:20_000]), PHILLY_NODES),
    }
    rows, claims = list[tuple[str, ...]](), dict[str, bool]()
    for name, (trace, nodes) in worlds.items():
        world = make_workload(trace, equal_nodes(nodes), RequestedTimes(LOOSE_LIMITS))
        promises = Promises(world, seed=1)
        Simulation(world, POLICIES["easy"](world), promises).run()
        score = promises.score()
        if score is None or score.limits_error is None:
            raise RuntimeError(f"no job waited: {name}")
        times = (f"{score.error / SECOND:.0f}", f"{score.limits_error / score.error:.1f}")
        rows.append((name, str(score.made), f"{score.inside:.1%}", f"{score.width:.0%}", *times))
        claims[f"{name}: 75 to 85 % of the windows hold"] = 0.75 <= score.inside <= 0.85
        claims[f"{name}: the error is at least 3 times smaller than by limits"] = 3 * score.error <= score.limits_error
    heads = ("trace", "promises", "inside", "width / wait", "error, s", "error by limits / error")
    return Figures(
        time.perf_counter() - began,
        time.process_time() - cpu,
        peak_memory(),
        comparison=Comparison("Promised starts under EASY, requests of three times the durations", heads, tuple(rows)),
        claims=claims,
    )


def equal_nodes(number: int) -> Problem:
    """So many nodes of eight devices."""
    cluster = machines_cluster(number)
    nodes = tuple(replace(node, capacity=(DEVICES,), free=(DEVICES,)) for node in cluster.nodes)
    return replace(cluster, nodes=nodes)


def _allocated(found: Replay) -> float:
    return 100 * max(span.used for span in found.spans) / found.workload.cluster.totals[found.workload.device]


register_case("replay-easy", "replay 801 jobs under EASY", measure_easy, seconds=10)
register_case("replay-openb", "replay openb under FGD and best fit, ten seeds", measure_openb, group="long")
register_case("promised-starts", "promise starts on two traces", measure_promises, group="long")
for policy, seconds in MONTH_BARS.items():
    title = f"replay a month of 20,000 jobs on {NODES} nodes under {policy}"
    register_case(
        f"replay-month-{policy}", title, partial(measure_month, policy), group="long", seconds=seconds, peak=1 << 30
    )
