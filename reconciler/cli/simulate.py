"""`gangplan simulate TRACE`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from compiler.cli.executor import open_executor
from compiler.cli.inputs import (
    ANY_FILE,
    FILE,
    echo,
    executor_option,
    load_tree,
    output_option,
    repo_option,
    reported,
    terminal_style,
    write_file,
)
from compiler.cluster_state.cluster_state import read_objects
from compiler.cluster_state.run_records import RecordedRun, recorded_runs, records_object
from compiler.fields.quantity import is_device
from compiler.pipeline import empty_cluster, lowered_problem
from compiler.reading import read_specs
from compiler.reading.clusters import NO_CLUSTER_CODES
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import SchedulerSpec, Specs
from compiler.specs.gang_spec import JobKey
from compiler.specs.node_spec import NodeSpec
from compiler.syntax.parse import Adopt, ParsedFile, parse_file
from compiler.traces.history import history_trace
from compiler.traces.nodes import MOST_MACHINES, declared_maintenance, machines_cluster, read_nodes, read_outages
from compiler.traces.reading import read_columns, read_trace
from compiler.traces.trace import Trace, TraceError
from compiler.traces.workloads import (
    RequestedTimes,
    Sampling,
    assumptions,
    lower_scheduler,
    make_workload,
    replay_origin,
    window_of,
)
from compiler.views import machine
from compiler.views.simulation import (
    ContrastView,
    SimulationView,
    comparison_page,
    contrast_document,
    contrast_text,
    simulation_document,
    simulation_page,
    simulation_text,
    text_as_markdown,
)
from compiler.views.style import Style
from reconciler.cli.diff import read_sides
from reconciler.git.commits import read_revision
from reconciler.git.history import commits_of, is_shallow
from reconciler.git.process import GitError
from reconciler.inventory.store import runs_of
from solver.problem import Problem
from solver.simulation.catalogue import POLICIES
from solver.simulation.contrast import default_budget, try_sides
from solver.simulation.measures import Promises
from solver.simulation.pieces import Piece, PieceTask, Side
from solver.simulation.replay import Replay, Simulation, Watch
from solver.simulation.workload import SECOND, Workload

PROGRESS_SECONDS = 10.0


def _requested_times(ctx: click.Context, param: click.Parameter, text: str) -> RequestedTimes:
    if text == "past":
        return RequestedTimes(past=True)
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise click.BadParameter(f"expected a positive number or past, not {text!r}", ctx, param)
    return RequestedTimes(factor)


@click.command()
@click.argument("trace", type=FILE, required=False)
@click.option(
    "--history", is_flag=True, help="Replay the jobs that commits of the repository brought, instead of a TRACE"
)
@click.option("--records", type=FILE, help="Runs of the reconciler for --history, as kubectl get configmaps -o json")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice([*POLICIES]),
    default=("gangplan",),
    show_default=True,
    help="Policy to replay; may be repeated to compare policies",
)
@click.option(
    "--compare",
    metavar="BASE..[HEAD]",
    help="Replay on the cluster of two revisions, and show whose waits change; HEAD is by default the working tree",
)
@click.option(
    "--machines",
    type=click.IntRange(1, MOST_MACHINES),
    help="Replay on this many equal machines instead of the cluster",
)
@click.option("--nodes", "nodes_file", type=FILE, help="Replay on the nodes of a CSV: name, cpu_milli, memory_mib, gpu")
@click.option("--columns", "columns_file", type=FILE, help="YAML file that maps meanings to columns of the trace")
@click.option(
    "--requested",
    default="1",
    show_default=True,
    metavar="FACTOR|past",
    callback=_requested_times,
    help="Requested times where the trace has none: a multiple of the real ones, or from the user's past jobs",
)
@click.option(
    "--schedule-period",
    type=click.FloatRange(min=0.001),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="From one cycle of the policy volcano to the next",
)
@click.option("--outages", "outages_file", type=FILE, help="CSV of nodes that are away: node, start, end, announced")
@click.option(
    "--sample",
    type=click.FloatRange(0.001, 100),
    help="Draw jobs until they request this many times the cluster's devices",
)
@click.option(
    "--jobs",
    "number",
    type=click.IntRange(min=1),
    help="Replay only so many jobs, drawn by --seed: one window of the trace, or with --compare several; "
    "the default of --compare depends on the policy",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of --sample, --jobs, --promises and the intervals of --compare",
)
@click.option(
    "--promises", is_flag=True, help="Also promise starts to waiting jobs, and compare them with the real ones"
)
@click.option("--page", type=ANY_FILE, help="Page with curves to write: the policies, or both revisions, side by side")
@click.option("--cluster", help="Which cluster of the repository; needed only when there are several")
@repo_option
@executor_option
@output_option("json", "yaml", "markdown", note="; markdown is for a comment")
@click.pass_context
def simulate(
    ctx: click.Context,
    /,
    trace: Path | None,
    history: bool,
    records: Path | None,
    policies: tuple[str, ...],
    compare: str | None,
    machines: int | None,
    nodes_file: Path | None,
    columns_file: Path | None,
    requested: RequestedTimes,
    schedule_period: float,
    outages_file: Path | None,
    sample: float | None,
    number: int | None,
    seed: int,
    promises: bool,
    page: Path | None,
    cluster: str | None,
    repo: Path,
    executor: str,
    output: str,
) -> None:
    """Replay a TRACE of jobs on the declared cluster, and show the result of each policy.

    TRACE is a file in the Standard Workload Format, a workload of Batsim, the output of sacct --parsable2, or JSON
    lines. A CSV (Philly, Kalos, openb, or columns of your own) and gzip are read too. The same input gives the
    same bytes. Ctrl-C ends the replay and shows what there is.
    """
    if sample is not None and "volcano" in policies:
        raise click.UsageError("--sample loses jobs that do not start on arrival, and volcano starts none then", ctx)
    try:
        with reported():
            if (trace is None) is not history or (records is not None and not history):
                raise click.UsageError("pass a TRACE, or --history; --records goes with --history", ctx)
            columns, name = read_columns(columns_file), "the history" if trace is None else trace.name
            is_timed = sample is None
            found = read_history(repo, cluster, records) if trace is None else read_trace(trace, columns, is_timed)
            if number is not None and compare is None:
                found = window_of(found, number, seed)
            sampling, period = None if sample is None else Sampling(sample, seed), round(schedule_period * SECOND)
            request = _Request(name, found, requested, sampling, outages_file, period, output, page)
            if compare is not None:
                if len(policies) > 1 or any((machines, nodes_file, promises, sample)):
                    others = "--machines, --nodes, --promises or --sample"
                    raise click.UsageError(f"--compare takes one policy, and no {others}", ctx)
                text = _comparison(ctx, request, policies[0], compare, repo, cluster, number, seed, executor)
            else:
                workload = _workload(ctx, request, machines, nodes_file, repo, cluster)
                text = _simulation(request, workload, policies, seed if promises else None)
    except (TraceError, GitError) as error:
        raise click.ClickException(str(error)) from error
    echo(text)


def _is_given(ctx: click.Context, option: str) -> bool:
    return ctx.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT


@dataclass(frozen=True, slots=True)
class _Request:
    """A trace to replay, with which policies, and how to show it. name: of the trace."""

    name: str
    trace: Trace
    requested: RequestedTimes
    sampling: Sampling | None
    outages_file: Path | None
    period: int
    output: str
    page: Path | None

    def workload(
        self,
        cluster: Problem,
        scheduler: SchedulerSpec | None = None,
        classes: Mapping[str, int] | None = None,
        declared: Iterable[NodeSpec] = (),
    ) -> Workload:
        """Return the workload on a cluster. declared: its nodes in a repository. Raises TraceError."""
        outages = [] if self.outages_file is None else read_outages(self.outages_file, cluster)
        outages += declared_maintenance(declared, cluster, replay_origin(self.trace, self.sampling))
        found = make_workload(self.trace, cluster, self.requested, self.sampling, outages, classes)
        return replace(found, scheduler=lower_scheduler(scheduler, self.period))

    def declared_workload(self, tree: Repository, name: str | None) -> Workload:
        """Return the workload on the cluster of a repository, empty. Raises TraceError."""
        specs = read_specs(tree, name)
        if fatal := [diagnostic for diagnostic in specs.diagnostics if diagnostic.code in NO_CLUSTER_CODES]:
            raise click.ClickException(f"{fatal[0].message}. Fix: correct it, or use --machines or --nodes")
        problem = lowered_problem(tree, specs)
        has_any = any(resource == "cpu" or is_device(resource) for resource in problem.resources)
        return self.workload(problem if has_any else empty_cluster(specs), specs.scheduler, declared=specs.nodes)

    def assumptions(self, workload: Workload) -> list[str]:
        return assumptions(self.trace, workload, self.requested, self.sampling)

    def shown(self, as_text: Callable[[Style], str], as_data: Callable[[], dict[str, Any]]) -> str:
        """Return the result in the format that is asked for."""
        if self.output == "text":
            return as_text(terminal_style())
        if self.output == "markdown":
            return text_as_markdown(f"Replay of {self.name}", as_text(Style()))
        return machine.FORMATS[self.output](as_data())

    def write_page(self, make: Callable[[], str]) -> None:
        if self.page is not None:
            write_file(self.page, make())
            click.echo(f"wrote {self.page}: open it in a browser", err=True)


def _workload(
    ctx: click.Context,
    request: _Request,
    machines: int | None,
    nodes_file: Path | None,
    repo: Path,
    cluster: str | None,
) -> Workload:
    """Return the workload on the nodes of a file, on so many machines or the trace's own, or else on the declared
    cluster. Raises TraceError."""
    if nodes_file is not None:
        found, classes = read_nodes(nodes_file)
        return request.workload(found, classes=classes)
    is_declared = _is_given(ctx, "repo") or _is_given(ctx, "cluster")
    if machines is not None or (request.trace.machines is not None and not is_declared):
        return request.workload(machines_cluster(machines or request.trace.machines or 1))
    return request.declared_workload(load_tree(ctx, repo), cluster)


def _simulation(request: _Request, workload: Workload, policies: tuple[str, ...], promise_seed: int | None) -> str:
    """promise_seed: None where starts are not promised."""
    names = tuple(dict.fromkeys(policies))
    made = {} if promise_seed is None else {policy: Promises(workload, promise_seed) for policy in names}
    replays = {policy: _replay(workload, policy, policy, made.get(policy)) for policy in names}
    scores = {policy: promises.score() for policy, promises in made.items()}
    view = SimulationView(workload, replays, request.assumptions(workload), scores)
    request.write_page(lambda: simulation_page(view, request.name))
    return request.shown(lambda style: simulation_text(view, style), lambda: simulation_document(view))


def _comparison(
    ctx: click.Context,
    request: _Request,
    policy: str,
    revisions: str,
    repo: Path,
    cluster: str | None,
    number: int | None,
    seed: int,
    executor: str,
) -> str:
    """number: about how many jobs of each side are replayed at most; None for as many as the policy replays soon."""
    base, dots, head = revisions.partition("..")
    if not base or not dots:
        raise click.UsageError(
            f"invalid --compare {revisions}. Fix: write BASE..HEAD, or BASE.. for the working tree", ctx
        )
    before, after = read_sides(ctx, repo, base, head)
    sides = [request.declared_workload(tree, cluster) for _, tree in (before, after)]
    budget = default_budget(policy) if number is None else number
    with open_executor(executor) as mapper:

        def replays(tasks: Sequence[PieceTask]) -> Sequence[Piece]:
            named = [(f"{policy}, {(before, after)[n % 2][0]}", task) for n, task in enumerate(tasks)]
            return mapper.map(_replay_piece, None, named, sum(task.work for task in tasks))

        trial = try_sides([Side(policy, workload) for workload in sides], budget, seed, replays)
    notes = request.assumptions(sides[1])
    view = ContrastView(before[0], after[0], policy, trial, budget, len(sides[1].jobs), notes)
    request.write_page(lambda: comparison_page(view, request.name))
    return request.shown(lambda style: contrast_text(view, style), lambda: contrast_document(view))


def _replay_piece(_: None, task: tuple[str, PieceTask]) -> Piece:
    """In this process or in a worker, which shows its own progress."""
    name, piece = task
    return Piece(_replay(piece.workload, piece.policy, name, asked=piece.asked), piece.carried)


def _replay(
    workload: Workload, policy: str, name: str, watch: Watch | None = None, asked: Collection[int] = ()
) -> Replay:
    """Return the replay of one policy, with its progress on stderr; Ctrl-C ends it where it is."""
    simulation = Simulation(workload, POLICIES[policy](workload), watch)
    try:
        return simulation.run(_Progress(name, len(workload.jobs)), asked)
    except KeyboardInterrupt:
        click.echo(f"{name}: interrupted", err=True)
        return simulation.result()


class _Progress:
    """A line on stderr every few seconds, with an estimate of the rest."""

    def __init__(self, name: str, jobs: int) -> None:
        self.name, self.jobs = name, jobs
        self.began = self.shown = time.monotonic()

    def __call__(self, ended: int) -> None:
        now = time.monotonic()
        if now - self.shown >= PROGRESS_SECONDS and ended:
            self.shown = now
            rest = (now - self.began) * (self.jobs - ended) / ended
            click.echo(f"{self.name}: {ended} of {self.jobs} jobs, about {rest:.0f} s to go", err=True)


def read_history(repo: Path, cluster: str | None, records: Path | None) -> Trace:
    """Return the trace. records: a List of the reconciler's ConfigMaps. Raises GitError, OSError and TraceError."""
    versions = [*_versions(repo, cluster)]
    if not versions:
        raise TraceError(f"{repo}: no commit holds jobs or cluster-specs")
    runs = {} if records is None else read_records(records, versions[-1][1].cluster.name)
    found = history_trace(versions, runs)
    return replace(found, notes=(*found.notes, _SHALLOW)) if is_shallow(repo) else found


def _versions(repo: Path, cluster: str | None) -> Iterator[tuple[int, Specs]]:
    """Yield the specs of each commit; a file that did not change is parsed once."""
    parsed: dict[tuple[str, bytes], ParsedFile] = {}

    def parse(file: str, content: bytes, adopt: Adopt = lambda document: []) -> ParsedFile:
        if (file, content) not in parsed:
            parsed[file, content] = parse_file(file, content, adopt)
        return parsed[file, content]

    for commit, at in commits_of(repo):
        yield at, read_specs(read_revision(repo, commit)[1], cluster, parse)


def read_records(file: Path, cluster: str) -> Mapping[JobKey, Sequence[RecordedRun]]:
    """Return the runs in a List of ConfigMaps, by job. Raises TraceError."""
    try:
        items = read_objects(file.read_bytes())
        rows = [row for run in runs_of(cluster, map(dict, items)) for row in run.job_rows()]
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{file}: cannot read the records: {error}. Fix: write {_HOW}") from error
    found: dict[JobKey, list[RecordedRun]] = {}
    for key, run in recorded_runs([records_object(cluster, rows)]):
        found.setdefault(key, []).append(run)
    if not found:
        raise TraceError(f"{file}: no run of cluster {cluster} is recorded. Fix: write {_HOW}")
    return found


_SHALLOW = "The clone is shallow: its first commit submits what older ones brought. Fix: git fetch --unshallow."
_HOW = "it with `kubectl get configmaps --namespace gangplan-system --output json`"
