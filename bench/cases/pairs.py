"""Pairs of configurations: whether a sampled comparison (`gangplan simulate --compare --jobs`) names the one that is
better on the whole trace."""

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
from compiler.traces.policy_configuration import lower_scheduler
from compiler.traces.reading import read_trace
from compiler.traces.trace import Trace
from compiler.traces.workloads import RequestedTimes, make_workload
from solver.mip.executors import process_executor
from solver.simulation.catalogue import POLICIES
from solver.simulation.contrast import UNCERTAIN, Contrast, contrasts_by
from solver.simulation.pieces import Piece, PieceTask, piece_tasks
from solver.simulation.replay import Simulation
from solver.simulation.workload import SECOND, Workload

JOBS = 5_000
GPU, DEVICES = "nvidia.com/gpu", 8
PAIRS, CONFIGURATIONS = 200, 13
"""Pairs, and configurations of each trace."""
SAMPLED = 1_000
OUTCOMES = ("different", "certain, right", "certain, wrong", "not certain", "p95 in the right order")
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
        """The trace on the cluster, as `gangplan simulate --repo` makes it."""
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
    """Each queue deserves about what its jobs need on average; some may not hold much more than that."""
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
    """Configurations of each trace on all of it and on windows of it, and what each way says of pairs of them."""
    began, cpu = time.perf_counter(), time.process_time()
    rng, outcomes = random.Random(1), dict[str, Counter[str]]()  # noqa: S311  # the same configurations each time
    pairs = [(name, pair) for name in TRACES for pair in combinations(range(CONFIGURATIONS), 2)]
    chosen = rng.sample(pairs, PAIRS)
    with process_executor() as mapper:
        for name in TRACES:
            trace, nodes = TRACES[name]()
            drawn = [draw_configuration(rng, trace, nodes) for _ in range(CONFIGURATIONS)]
            sides = [(each.policy, each.workload(trace)) for each in drawn]
            whole = piece_tasks(sides, None, 1)
            ways = {"windows by outline": piece_tasks(sides, SAMPLED, 1), "one window": _one_window(sides)}
            tasks = [task for way in (whole, *ways.values()) for side in way for task in side]
            found = iter(mapper.map(_replayed, None, tasks, sum(task.work for task in tasks)))
            truth = [[next(found) for _ in side] for side in whole]
            for way, of_way in ways.items():
                pieces = [[next(found) for _ in side] for side in of_way]
                count = outcomes.setdefault(way, Counter())
                for a, b in [pair for of_trace, pair in chosen if of_trace == name]:
                    count.update(_outcomes(_contrast(truth[a], truth[b]), _contrast(pieces[a], pieces[b])))
    rows = tuple((way, *(str(count[outcome]) for outcome in OUTCOMES)) for way, count in outcomes.items())
    best = outcomes["windows by outline"]
    return Figures(
        time.perf_counter() - began,
        time.process_time() - cpu,
        peak_memory(),
        comparison=Comparison(
            f"{PAIRS} pairs on {JOBS} jobs: which is better by p95, by {SAMPLED} of them",
            ("windows", *OUTCOMES),
            rows,
        ),
        claims={
            "of the certain verdicts 95 % are right": 19 * best["certain, wrong"] <= best["certain, right"],
            "half of the different pairs have a certain verdict": 2 * best["certain, right"] >= best["different"],
        },
    )


def _one_window(sides: Sequence[tuple[str, Workload]]) -> list[list[PieceTask]]:
    """The same number of consecutive jobs, on an empty cluster."""
    first = random.Random(1).randrange(JOBS - SAMPLED + 1)  # noqa: S311  # the same draw each time
    return [
        [PieceTask(policy, replace(workload, jobs=workload.jobs[first : first + SAMPLED]), 0, 1.0)]
        for policy, workload in sides
    ]


def _replayed(_: None, task: PieceTask) -> Piece:
    simulation = Simulation(task.workload, POLICIES[task.policy](task.workload))
    return Piece(simulation.run(asked=task.asked), task.carried, task.weight)


def _contrast(before: Sequence[Piece], after: Sequence[Piece]) -> Contrast:
    return contrasts_by(before, after, lambda j: "all")["all"]


def _outcomes(truth: Contrast, said: Contrast) -> Iterator[str]:
    """What is counted of a pair. A second is Volcano's cycle, and no difference."""
    if abs(truth.after - truth.before) <= SECOND:
        return
    yield "different"
    verdict = "longer" if truth.after > truth.before else "shorter"
    if said.verdict == UNCERTAIN:
        yield "not certain"
    else:
        yield "certain, right" if said.verdict == verdict else "certain, wrong"
    if said.after != said.before and (said.after > said.before) == (truth.after > truth.before):
        yield "p95 in the right order"


register_case("compare-pairs", f"compare {PAIRS} pairs of configurations by windows", measure_pairs, group="long")
