"""One gang added to a running 1,000, in a process that has planned before: how long until there is a verified plan."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bench.measure import peak_memory
from bench.registry import Comparison, Figures, register_case
from bench.worlds import generate_repository

if TYPE_CHECKING:
    from compiler.outcome import Outcome

NODES, RUNNING_GANGS, ADDED_GANGS, LOAD = 10_000, 1_000, 5, 0.6
SECONDS = 0.4


def measure_added_gangs() -> Figures:
    """Return the slowest of `ADDED` gangs, each added by itself to the same 1,000 that run."""
    from compiler.cluster_state.cluster_state import ClusterState
    from compiler.pipeline import compile_repository
    from compiler.reading import read_specs
    from compiler.repository.tree import Repository
    from reconciler.cli import reduce_garbage_collection

    reduce_garbage_collection()  # as in every process of the command
    made = generate_repository(NODES, RUNNING_GANGS + ADDED_GANGS, LOAD, tiers=3)
    jobs = sorted(name for name in made.files if name.startswith("jobs/"))
    before = {name: text for name, text in made.files.items() if name not in jobs[RUNNING_GANGS:]}
    state = ClusterState.from_objects(running_pods(compile_repository(Repository(before))))
    compile_repository(Repository(before), state=state)
    rows, slowest = [], Figures(0, 0, 0)
    for name in jobs[RUNNING_GANGS:]:
        found, started, size = _measure_plan(read_specs(Repository({**before, name: made.files[name]})), state)
        rows.append(
            (
                size,
                *(f"{found.phases[phase]:.2f}" for phase in ("lower", "solve", "verify")),
                f"{found.seconds:.2f}",
                f"{found.cpu:.2f}",
            )
        )
        slowest = max(slowest, found, key=lambda figures: figures.seconds)
        if not started:
            raise RuntimeError(f"{name} does not start next to the {RUNNING_GANGS} that run")
    comparison = Comparison(
        f"One gang more, {RUNNING_GANGS:,} run on {NODES:,} nodes",
        ("gang", "lower", "solve", "verify", "seconds", "cpu s"),
        tuple(rows),
    )
    return Figures(slowest.seconds, slowest.cpu, peak_memory(), slowest.phases, comparison=comparison)


def _measure_plan(specs: Any, state: Any) -> tuple[Figures, bool, str]:
    """Return figures from the specs to a verified plan, whether the new gang starts next to all others, and its
    name."""
    from compiler.lower.lowering import lower
    from solver.planner import solve
    from solver.verify import verify

    marks, cpu = [time.perf_counter()], time.process_time()
    problem, _ = lower(specs, state)
    marks.append(time.perf_counter())
    plan = solve(problem)
    marks.append(time.perf_counter())
    faults = verify(problem, plan)
    marks.append(time.perf_counter())
    cpu = time.process_time() - cpu
    if faults:
        raise RuntimeError(f"not a valid plan: {faults[0]}")
    new = [d for d in plan.decisions if d.action == "start"]
    phases = dict(zip(("lower", "solve", "verify"), (b - a for a, b in itertools.pairwise(marks)), strict=True))
    gang = problem.gangs[new[0].gang] if new else None
    wish = (
        ""
        if gang is None
        else "anywhere"
        if gang.topology is None
        else f"{gang.topology.mode} tier {gang.topology.tier}"
    )
    size = "" if gang is None else f"{gang.minimum} pods, {wish}"
    return (
        Figures(marks[-1] - marks[0], cpu, 0, phases),
        [d.action for d in plan.decisions].count("keep") == RUNNING_GANGS and len(new) == 1,
        size,
    )


def running_pods(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Yield the cluster's pods once all of the plan's starts run, as the job controller labels them."""
    for decided in outcome.decisions:
        roles = {role.name: role for role in decided.gang.roles}
        for role, nodes in decided.pods.items():
            requests = {
                name: f"{amount}m" if name == "cpu" else str(amount)
                for name, amount in roles[role].pod.requests.items()
                if name != "pods"
            }
            for node, count in nodes.items():
                for number in range(count):
                    yield _running_pod(
                        decided.gang.document,
                        role,
                        node,
                        f"{decided.gang.document.name}-{role}-{node}-{number}",
                        requests,
                    )


def _running_pod(job: Any, role: str, node: str, name: str, requests: dict[str, str]) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": job.name, "volcano.sh/task-spec": role}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": job.namespace, "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "image": "registry.example.com/bench/main:1", "resources": {"requests": requests}}
            ],
        },
        "status": {"phase": "Running", "startTime": "2026-02-01T00:00:00Z"},
    }


register_case(
    "one-more",
    f"plan one gang more, {RUNNING_GANGS:,} run on {NODES:,} nodes, warm",
    measure_added_gangs,
    seconds=SECONDS,
)
