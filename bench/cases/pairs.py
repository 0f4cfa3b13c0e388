"""Pairs of configurations: whether `gangplan simulate --compare` names the one that is better on the whole trace, and
what that costs."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from bench.cases.replay import kalos_like_month
from bench.measure import peak_memory
from bench.registry import Comparison, Figures, register_case
from bench.traces import trace_file
from compiler.pipeline import empty_cluster
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.traces.reading import read_trace
from compiler.traces.trace import Trace
from compiler.traces.workloads import RequestedTimes, lower_scheduler, make_workload
from solver.mip.executors import Mapper, process_executor
from solver.simulation.catalogue import POLICIES
from solver.simulation.contrast import EQUAL, UNCERTAIN, Contrast, Trial, default_budget, try_sides
from solver.simulation.pieces import Piece, PieceTask, Side
from solver.simulation.replay import Simulation
from solver.simulation.workload import SECOND, Workload

JOBS = 5_000
GPU, DEVICES = "nvidia.com/gpu", 8
PAIRS, CONFIGURATIONS = 200, 13
"""Pairs, and configurations of each trace."""
BUDGETS = (None, 3_000)
"""Values of --jobs; None for the command's default, within which the traces are replayed whole."""
EACH = 4
"""Number of pairs of which one is also replayed in windows, which no other pair shares."""
OUTCOMES = ("different", "whole trace", "certain, right", "certain, wrong", "not certain", "p95 in the right order")
Document = dict[str, object]
POLICIES_DRAWN = ("fifo", "first-fit", "easy", "best-fit", "volcano", "volcano", "volcano", "volcano")
QUEUE_PLUGINS: tuple[Document, ...] = (
    {"name": "proportion"},
    {"name": "capacity"},
    {"name": "capacity", "enableHierarchy": True},
)
ORGANIZATIONS = ("research", "products")


@dataclass(frozen=True, slots=True)
class Configuration:
    """A policy, and the repository that declares the cluster."""

    policy: str
    repository: Repository

    def workload(self, trace: Trace) -> Workload:
        """Return the trace on the cluster, as `gangplan simulate --repo` makes it."""
        specs = read_specs(self.repository)
        if errors := [found for found in specs.diagnostics if found.severity == "error"]:
            raise RuntimeError(f"the repository is not clean: {errors[0]}")
        found = make_workload(trace, empty_cluster(specs), RequestedTimes())
        return replace(found, scheduler=lower_scheduler(specs.scheduler, SECOND))


def _philly() -> tuple[Trace, range]:
    trace = read_trace(trace_file("philly-2017", "philly.csv.gz"))
    return replace(trace, jobs=trace.jobs[:JOBS]), range(80, 111)


def _ipsc() -> tuple[Trace, range]:
    """Users are four teams; arrivals are closer, so that jobs wait."""
    trace = read_trace(trace_file("nasa-ipsc-1993", "NASA-iPSC-1993-3.1-cln.swf.gz"))
    jobs = (replace(job, submit=0.7 * job.submit, queue=f"team-{int(job.user) % 4}") for job in trace.jobs[:JOBS])
    return replace(trace, jobs=tuple(jobs), machines=None), range(16, 22)


def _month() -> tuple[Trace, range]:
    trace = kalos_like_month()
    return replace(trace, jobs=trace.jobs[:JOBS]), range(240, 291)


TRACES: Mapping[str, Callable[[], tuple[Trace, range]]] = {"Philly": _philly, "iPSC": _ipsc, "month": _month}
"""Name -> (trace, numbers of nodes to draw from)."""


def draw_configuration(rng: random.Random, trace: Trace, nodes: range) -> Configuration:
    """Nodes, a tree of queues with limits and shares, the scheduler's plugins, and the policy."""
    policy, queues = rng.choice(POLICIES_DRAWN), rng.choice(QUEUE_PLUGINS)
    documents = [
        *_cluster_documents(rng.choice(nodes)),
        *_queue_documents(rng, trace, "enableHierarchy" in queues),
        _scheduler_document(rng, queues),
    ]
    text = "---\n".join(f"{json.dumps(document)}\n" for document in documents)
    return Configuration(policy, Repository({"cluster-specs/pairs/all.yaml": text.encode()}))


def _cluster_documents(nodes: int) -> Iterator[Document]:
    own = {"apiVersion": "gangplan.dev/v1alpha1"}
    yield {**own, "kind": "Cluster", "metadata": {"name": "pairs"}, "spec": {}}
    capacity = {"cpu": 128, "memory": "1Ti", GPU: DEVICES, "pods": 110}
    yield {**own, "kind": "NodePool", "metadata": {"name": "gpus"}, "spec": {"count": nodes, "capacity": capacity}}


def _queue_documents(rng: random.Random, trace: Trace, is_tree: bool) -> Iterator[Document]:
    """Yield the queues. Each deserves about what its jobs need on average; some may not hold much more than that."""
    needs, largest = Counter[str](), dict[str, int]()
    for job in trace.jobs:
        needs[job.queue] += round(job.devices * (job.duration or 0))
        largest[job.queue] = max(largest.get(job.queue, 0), job.devices)
    span = trace.jobs[-1].submit - trace.jobs[0].submit
    is_limited, deserved = rng.random() < 0.6, Counter[str]()
    for name in sorted(needs):
        need = needs[name] / span
        spec: Document = {"weight": rng.randint(1, 8), "priority": rng.randint(0, 2)}
        own = 1 + round(need * rng.uniform(0.3, 1.0))
        spec["deserved"] = {GPU: own}
        if is_limited and rng.random() < 0.5:
            spec["capability"] = {GPU: max(largest[name], own, round(need * rng.uniform(2.0, 6.0)))}
        if is_tree:
            spec["parent"] = rng.choice(ORGANIZATIONS)
            deserved[str(spec["parent"])] += own
        yield _queue(name, spec)
    for name in sorted(deserved):
        yield _queue(name, {"weight": rng.randint(1, 4), "deserved": {GPU: deserved[name]}})


def _queue(name: str, spec: Document) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**spec},
    }


def _scheduler_document(rng: random.Random, queues: Document) -> Document:
    factor = {"overcommit-factor": rng.choice((1.0, 1.2, 2.0))}
    second: list[Document] = [{"name": "overcommit", "arguments": factor}]
    names = [name for name in ("drf", "nodeorder", "binpack") if rng.random() < 0.5]
    second += [{"name": name} for name in ("predicates", *names)]
    tiers = [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": [*second, queues]}]
    return {
        "apiVersion": "gangplan.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "spec": {"actions": ["enqueue", "allocate", "backfill"], "tiers": tiers},
    }


def measure_pairs() -> Figures:
    """Pairs of configurations of each trace on all of it and within budgets. Each replay is done once, and counts as
    often as pairs ask for it."""
    began, cpu = time.perf_counter(), time.process_time()
    rng = random.Random(1)  # noqa: S311  # the same configurations each time
    counts = {budget: Counter[str]() for budget in BUDGETS}
    seconds = dict.fromkeys(BUDGETS, 0.0)
    pairs = [(name, pair) for name in TRACES for pair in combinations(range(CONFIGURATIONS), 2)]
    chosen = rng.sample(pairs, PAIRS)
    with process_executor() as mapper:
        for name in TRACES:
            trace, nodes = TRACES[name]()
            drawn = [draw_configuration(rng, trace, nodes) for _ in range(CONFIGURATIONS)]
            sides, replays = [Side(each.policy, each.workload(trace)) for each in drawn], _Replays(mapper)
            for at, (a, b) in enumerate(pair for of_trace, pair in chosen if of_trace == name):
                truth = _contrast(try_sides((sides[a], sides[b]), JOBS, 1, replays))
                for budget in BUDGETS[: 1 if at % EACH else None]:
                    before = replays.seconds
                    most = budget or min(default_budget(sides[side].policy) for side in (a, b))
                    trial = try_sides((sides[a], sides[b]), most, 1, replays)
                    if outcomes := [*_outcomes(truth, _contrast(trial))]:
                        counts[budget].update(outcomes)
                        seconds[budget] += replays.seconds - before
    rows = [
        (str(budget or "default"), *(str(count[outcome]) for outcome in OUTCOMES), f"{per_pair:.1f}")
        for budget, count in counts.items()
        for per_pair in (seconds[budget] / max(1, count["different"]),)
    ]
    usual, windows = counts.values()
    return Figures(
        time.perf_counter() - began,
        time.process_time() - cpu,
        peak_memory(),
        comparison=Comparison(
            f"{PAIRS} pairs on {JOBS} jobs: which is better by p95 (every fourth also in windows)",
            ("--jobs", *OUTCOMES, "CPU s a pair"),
            tuple(rows),
        ),
        claims={
            "by default 95 % of the different pairs are named rightly": 20 * _named(usual) >= 19 * usual["different"],
            "of the verdicts certain from windows 95 % are right": 19 * windows["certain, wrong"]
            <= windows["certain, right"],
        },
    )


def _named(count: Counter[str]) -> int:
    return count["whole trace"] + count["certain, right"]


class _Replays:
    """Replays through a mapper, each of them once. seconds: of CPU that all calls would have taken without that."""

    def __init__(self, mapper: Mapper) -> None:
        self.mapper, self.seconds = mapper, 0.0
        self._found: dict[int, tuple[PieceTask, Piece, float]] = {}

    def __call__(self, tasks: Sequence[PieceTask]) -> list[Piece]:
        fresh = [task for task in tasks if self._key(task) not in self._found]
        done = self.mapper.map(_replayed, None, fresh, sum(task.work for task in fresh))
        self._found.update((self._key(task), (task, *of)) for task, of in zip(fresh, done, strict=True))
        found = [self._found[self._key(task)] for task in tasks]
        self.seconds += sum(seconds for _, _, seconds in found)
        return [piece for _, piece, _ in found]

    @staticmethod
    def _key(task: PieceTask) -> int:
        """The workload is kept, so that no other has its identity."""
        return id(task.workload)


def _replayed(_: None, task: PieceTask) -> tuple[Piece, float]:
    began = time.process_time()
    simulation = Simulation(task.workload, POLICIES[task.policy](task.workload))
    piece = Piece(simulation.run(asked=task.asked), task.carried)
    return piece, time.process_time() - began


def _contrast(trial: Trial) -> Contrast:
    return trial.contrasts(lambda j: "all")["all"]


def _outcomes(truth: Contrast, found: Contrast) -> Iterator[str]:
    """Yield the counters of a pair."""
    if truth.verdict == EQUAL:
        return
    yield "different"
    if found.is_known:
        yield "whole trace"
    elif found.verdict == UNCERTAIN:
        yield "not certain"
    else:
        yield "certain, right" if found.verdict == truth.verdict else "certain, wrong"
    if found.after != found.before and (found.after > found.before) == (truth.after > truth.before):
        yield "p95 in the right order"


register_case("compare-pairs", f"compare {PAIRS} pairs of configurations", measure_pairs, group="long")
