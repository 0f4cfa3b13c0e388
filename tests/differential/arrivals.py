"""Random small workloads on the real Volcano and in the model of `gangplan simulate --policy volcano`: who starts at
which cycle, and on which nodes.

`scripts/hunt --replays` tries other seeds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from solver.simulation.workload import CHART_TIERS, DEFAULT_SCHEDULER, VolcanoScheduler
from tests.controlplane import ControlPlane
from tests.differential.replayed import (
    UNKNOWN,
    WEIGHTS,
    RealReplay,
    TimedJob,
    causes,
    cycles_apart,
    delete_jobs,
    lay_out,
    modelled,
    run_jobs,
)

NODES = ("gpu-0", "gpu-1")
JOBS, ARRIVALS = 11, 5.0
EVICTING = VolcanoScheduler((*DEFAULT_SCHEDULER.actions, "preempt", "reclaim"), CHART_TIERS)
RUNS = (2.4, 5.4, 9.4), (1.4, 2.4, 3.4)
"""Seconds, of an even and of an odd seed: more is evicted of what runs longer."""
SAME = 0.8
"""The least share of starts at the same cycle: the excuses of `causes` are for single jobs."""


def random_arrivals(seed: int) -> list[TimedJob]:
    """A job that fills the nodes, and others that ask for more than there is, some in the same second."""
    draw = random.Random(seed)  # noqa: S311  # the same draw each time
    found = [TimedJob(0, RUNS[seed % 2][-1], 2, 8, 8000, "qa")]
    for _ in range(JOBS - 1):
        pods, gpus = draw.choice((1, 1, 1, 2)), draw.choice((1, 2, 4, 8))
        at, runs = draw.uniform(1, ARRIVALS), draw.choice(RUNS[seed % 2])
        found.append(TimedJob(at, runs, pods, gpus, 1000 * gpus, draw.choice(list(WEIGHTS)), draw.choice((0, 0, 10))))
    return found


def disagreements(found: RealReplay, jobs: Sequence[TimedJob]) -> list[str]:
    """Where the model and Volcano disagree without a cause."""
    model = modelled(found, jobs, NODES, WEIGHTS, EVICTING)
    apart, named = cycles_apart(found, model.starts), causes(found, model.starts)
    said = [f"job {j}: {apart[j]:+} cycles, {jobs[j]}" for j, cause in named.items() if cause == UNKNOWN]
    pairs = zip(found.restarts, model.restarts, strict=True)
    said += [
        f"job {j}: {here} restarts for {there}, {jobs[j]}" for j, (here, there) in enumerate(pairs) if here != there
    ]
    said += [f"job {j}: not on the best nodes, {jobs[j]}" for j in model.misses if not named]
    if len(named) > (1 - SAME) * len(jobs):
        said.append(f"{len(named)} of {len(jobs)} jobs at another cycle")
    return said


def hunt(minutes: float, seed: int | None) -> int:
    """Try workloads until the time is over, or that of a seed; the exit code: 1 where they disagree."""
    end, number, failed = time.monotonic() + 60 * minutes, 0, list[int]()
    with ControlPlane() as plane:
        plane.add_nodes(NODES)
        lay_out(plane, EVICTING)
        while (seed is None or not number) and time.monotonic() < end:
            at = random.SystemRandom().randrange(10**9) if seed is None else seed
            number += 1
            print(f"workload with seed {at}", flush=True)
            found = run_jobs(plane, random_arrivals(at))
            delete_jobs(plane)
            if said := disagreements(found, random_arrivals(at)):
                failed.append(at)
                print("\n".join(said))
    verdict = f"to repeat: scripts/hunt --replays --seed {failed[0]}" if failed else "agreed"
    print(f"{number} workloads; {verdict}")
    return 1 if failed else 0
