"""Seconds and memory of one compilation, phase by phase, as `gangplan compile` does it.

A stopwatch is put round the called functions, so that the total is the user's cost and the phases are its parts.
Nothing of the compiler is imported before `measure_compilation` is called: the imports are a phase too.
"""

from __future__ import annotations

import importlib
import os
import resource
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.registry import Figures, Quality
from bench.worlds import GeneratedRepository

if TYPE_CHECKING:
    from compiler.outcome import Outcome

TIMED_FUNCTIONS = {
    "check": ("compiler.reading", "consistent_specs"),
    "lower": ("compiler.pipeline", "lower"),
    "solve": ("compiler.pipeline", "solve"),
    "verify": ("compiler.pipeline", "verify"),
    "greedy": ("solver.placement.batch", "greedy_floor"),
    "admit": ("solver.placement.batch", "solve_admission"),
    "spread": ("solver.placement.batch", "place_independent_groups"),
    "grow": ("solver.planner", "grow_gangs"),
    "reasons": ("solver.planner", "explain_waiting_gangs"),
}
"""Phase -> module and name of the function as its caller finds it."""

SOLVE_PHASES = ("greedy", "admit", "spread", "grow", "reasons")
"""Phases that are parts of `solve`."""


class Stopwatch:
    """Seconds spent inside functions, calls added up. `check` runs inside `read` and is taken off it by the code that
    reports."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time_function(self, name: str, module: str, path: str) -> None:
        """Put the stopwatch round module.path, which may name a method (Class.method)."""
        owner: Any = importlib.import_module(module)
        *parents, attribute = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, attribute, self.timed_call(name, getattr(owner, attribute)))

    def timed_call(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        self.seconds.setdefault(name, 0.0)

        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - start

        return call


def peak_memory() -> int:
    """Bytes of resident memory that this process had at most. From the kernel's own high-water mark, which exec resets
    and getrusage does not."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say VmHWM; the benchmarks need Linux")


def measure_reading(world: GeneratedRepository) -> Figures:
    """Read and check a world, and no more."""
    wall, cpu, stopwatch = time.perf_counter(), time.process_time(), Stopwatch()
    stopwatch.timed_call("import", importlib.import_module)("compiler.pipeline")
    stopwatch.time_function("check", *TIMED_FUNCTIONS["check"])
    from compiler.reading import read_specs
    from compiler.repository.tree import Repository

    specs = stopwatch.timed_call("read", read_specs)(Repository(world.files))
    wall, cpu, most = time.perf_counter() - wall, time.process_time() - cpu, peak_memory()
    if len(specs.gangs) != world.gangs or specs.diagnostics:
        raise RuntimeError(f"{len(specs.gangs)} of {world.gangs} jobs were read: {specs.diagnostics[:1]}")
    return Figures(wall, cpu, most, _phase_seconds(stopwatch))


def measure_compilation(world: GeneratedRepository, with_quality: bool = True) -> Figures:
    """Compile a world against its state and emit the manifests; then, off the clock, rate the plan if wanted.

    Raises RuntimeError when there is no verified plan: a figure without one is worth nothing.
    """
    wall, cpu, stopwatch = time.perf_counter(), time.process_time(), Stopwatch()
    stopwatch.timed_call("import", importlib.import_module)("compiler.pipeline")
    for name, (module, path) in TIMED_FUNCTIONS.items():
        stopwatch.time_function(name, module, path)
    from compiler.cli.compile import write_in_parallel
    from compiler.cli.forks import LEAST_ITEMS
    from compiler.cli.reading_cache import ReadingCache
    from compiler.cluster_state.cluster_state import load_state
    from compiler.emit.waves import manifest_texts, texts_by_file
    from compiler.pipeline import compile_specs
    from compiler.reading import read_specs
    from compiler.repository.tree import Repository
    from reconciler.cli import reduce_garbage_collection
    from solver.mip.executors import process_executor

    reduce_garbage_collection()  # as in every process of the command
    tree = Repository(world.files)
    with process_executor(forks=len(tree.files) >= LEAST_ITEMS) as mapper:  # as the command does
        state = None if world.state is None else stopwatch.timed_call("state", load_state)(world.state)
        cache = ReadingCache(None)
        specs = stopwatch.timed_call("read", read_specs)(tree, None, cache.parse, cache.read_ahead)
        outcome = compile_specs(tree, specs, state, mapper=mapper)
    stopwatch.timed_call("emit", lambda: texts_by_file(manifest_texts(outcome, ahead=write_in_parallel)))()
    wall, cpu, most = time.perf_counter() - wall, time.process_time() - cpu, peak_memory()
    workers, cores = resource.getrusage(resource.RUSAGE_CHILDREN), len(os.sched_getaffinity(0))
    cpu, most = cpu + workers.ru_utime + workers.ru_stime, most + cores * workers.ru_maxrss * 1024
    if not outcome.ok or outcome.error_count:
        raise RuntimeError(f"no clean plan came out: {outcome.diagnostics[:1]}")
    parts = {name: stopwatch.seconds[name] for name in SOLVE_PHASES}
    quality = plan_quality(outcome) if with_quality else None
    claims = {"no reason is missing": _has_all_reasons(outcome)}
    return Figures(wall, cpu, most, _phase_seconds(stopwatch), parts, quality, claims=claims)


def _has_all_reasons(outcome: Outcome) -> bool:
    """Return whether it is known of each waiting gang why it waits."""
    from solver.facts import Undecided

    decisions = () if outcome.plan is None else outcome.plan.decisions
    return not any(isinstance(fact, Undecided) for decision in decisions for fact in decision.facts)


def _phase_seconds(stopwatch: Stopwatch) -> dict[str, float]:
    """In the order of the way through the house; what a phase holds of another is counted once."""
    seconds = stopwatch.seconds
    seconds["read"] -= seconds["check"]
    order = ("import", "state", "read", "check", "lower", "solve", "verify", "emit")
    return {name: seconds[name] for name in order if name in seconds}


def plan_quality(outcome: Outcome) -> Quality:
    from bench.bound import placed_by_greedy, placed_upper_bound
    from bench.worlds import GPU
    from solver.semantics.gang_classes import waiting_class

    problem, plan = outcome.problem, outcome.plan
    if problem is None or plan is None:
        raise RuntimeError("there is no plan to judge")
    gpu = problem.resources.index(GPU)
    started = [d for d in plan.decisions if d.action == "start"]
    objectives = [objective for batch in plan.batches for objective in batch.objectives]
    spread = [(o.value, o.bound) for o in objectives if o.name == "spread"]
    return Quality(
        asked=sum(
            waiting_class(j, gang).min_demand(len(problem.resources))[gpu] for j, gang in enumerate(problem.gangs)
        ),
        placed=sum(p.pods * problem.gangs[d.gang].roles[p.role].request[gpu] for d in started for p in d.placements),
        bound=placed_upper_bound(problem, gpu),
        gangs=len(problem.gangs),
        started=len(started),
        greedy=placed_by_greedy(problem, gpu),
        verdicts=dict(sorted(Counter(o.verdict for o in objectives).items())),
        spread=(sum(v for v, _ in spread), sum(b for _, b in spread)) if spread else None,
    )
