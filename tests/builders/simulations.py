"""Small workloads for replays: `workload(machines(4), job("a", size=2, runs=10))`."""

from __future__ import annotations

from collections.abc import Sequence

from solver.problem import Node, Problem, Queue, Role
from solver.simulation import catalogue
from solver.simulation.replay import Replay, Simulation
from solver.simulation.workload import SECOND, Job, Outage, Workload

POLICIES = [name for name in catalogue.POLICIES if name != "volcano"]
"""Those that decide at once."""


def machines(count: int, gpus: int = 1, weights: Sequence[int] = (1,)) -> Problem:
    """A cluster of nodes with so many GPUs each, and a queue without limits for each weight."""
    nodes = tuple(Node(f"n{n}", 0, None, (gpus,), (gpus,)) for n in range(count))
    queues = tuple(Queue(f"q{q}", None, weight, 0, (None,), (None,), (None,), (0,)) for q, weight in enumerate(weights))
    return Problem(("gpu",), nodes, (), queues, ())


def job(
    name: str,
    *,
    size: int = 1,
    runs: int,
    at: int = 0,
    requested: int | None = None,
    gpus: int = 1,
    priority: int = 0,
    queue: int = 0,
) -> Job:
    """size: pods of `gpus` each. runs, at, requested: seconds; the last is what it runs, where it is not given."""
    pods = Role("pod", size, size, (gpus,), frozenset({0}))
    believed = runs if requested is None else requested
    return Job(name, at * SECOND, runs * SECOND, believed * SECOND, pods, queue=queue, priority=priority)


def workload(
    cluster: Problem, *jobs: Job, outages: Sequence[tuple[int, ...]] = (), loses_jobs: bool = False
) -> Workload:
    """outages: (node, start, end) in seconds, of maintenance also when it was announced."""
    away = [Outage(node, *(moment * SECOND for moment in moments)) for node, *moments in outages]
    return Workload(cluster, jobs, 0, 1, away, loses_jobs)


def replay(policy: str, world: Workload) -> Replay:
    return Simulation(world, catalogue.POLICIES[policy](world)).run()


def starts(policy: str, world: Workload) -> dict[str, int | None]:
    """Job -> the second of its start."""
    runs = zip(world.jobs, replay(policy, world).runs, strict=True)
    return {job.name: None if run.start is None else run.start // SECOND for job, run in runs}
