"""`gangplan simulate TRACE`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from compiler.cli.inputs import echo, load_tree, output_option, repo_option, reported, terminal_style

if TYPE_CHECKING:
    from solver.problem import Problem
    from solver.simulation.policies import Policy
    from solver.simulation.workload import Workload

POLICIES = ("fifo", "easy", "conservative", "first-fit", "best-fit", "fgd", "gangplan")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
PROGRESS_SECONDS = 10.0


@click.command()
@click.argument("trace", type=FILE)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    default=("gangplan",),
    show_default=True,
    help="Who decides; may be repeated, and the policies are compared.",
)
@click.option("--machines", type=click.IntRange(min=1), help="Replay on so many equal machines, not on the cluster.")
@click.option(
    "--nodes", "nodes_file", type=FILE, help="Replay on the nodes of a CSV: name, cpu_milli, memory_mib, gpu."
)
@click.option("--columns", "columns_file", type=FILE, help="YAML: meaning -> columns of the trace that have it.")
@click.option(
    "--requested",
    default="1",
    show_default=True,
    metavar="FACTOR|past",
    help="Requested times where the trace has none: times the real ones, or from the user's past jobs.",
)
@click.option("--outages", "outages_file", type=FILE, help="CSV of nodes that fail: node, start, end (seconds).")
@click.option(
    "--sample", type=click.FloatRange(min=0.001), help="Draw jobs until they ask for so many times the cluster."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of --sample.")
@click.option("--cluster", help="Which cluster of the repository; needed only when there are several.")
@repo_option
@output_option
@click.pass_context
def simulate(ctx: click.Context, /, trace: Path, policies: tuple[str, ...], output: str, **options: Any) -> None:
    """Replay a TRACE of jobs on the declared cluster, and show what each policy makes of it.

    TRACE is a file in the Standard Workload Format, a workload of Batsim, a CSV (Philly, Kalos, openb, or columns of
    your own), the output of sacct --parsable2, or JSON lines; gzip is read too. The same input gives the same bytes.
    Ctrl-C ends the replay and shows what there is.
    """
    from compiler.traces.trace import TraceError
    from compiler.views import machine
    from compiler.views.simulation import SimulationView, simulation_document, simulation_text

    try:
        with reported():
            workload, assumptions = _load(ctx, trace, **options)
    except TraceError as error:
        raise click.ClickException(str(error)) from error
    replays = {policy: _replay(workload, policy) for policy in dict.fromkeys(policies)}
    view = SimulationView(workload, replays, assumptions)
    if output == "text":
        echo(simulation_text(view, terminal_style()))
    else:
        echo(machine.FORMATS[output](simulation_document(view)))


def _load(
    ctx: click.Context,
    file: Path,
    *,
    machines: int | None,
    nodes_file: Path | None,
    columns_file: Path | None,
    requested: str,
    outages_file: Path | None,
    sample: float | None,
    seed: int,
    cluster: str | None,
    repo: Path,
) -> tuple[Workload, list[str]]:
    """The workload, and what the replay assumes. Raises TraceError."""
    from compiler.traces import workloads
    from compiler.traces.nodes import read_nodes, read_outages
    from compiler.traces.reading import read_columns, read_trace

    found = read_trace(file, read_columns(columns_file))
    is_declared = any(
        ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT for name in ("repo", "cluster")
    )
    classes: Mapping[str, int] = {}
    if nodes_file is not None:
        place, classes = read_nodes(nodes_file)
    elif machines is not None or (found.machines is not None and not is_declared):
        place = workloads.machines(machines or found.machines or 1)
    else:
        place = _declared_cluster(ctx, repo, cluster)
    model = _requested_times(ctx, requested)
    sampling = None if sample is None else workloads.Sampling(sample, seed)
    outages = () if outages_file is None else read_outages(outages_file, place)
    made = workloads.make_workload(found, place, model, sampling, outages, classes)
    return made, workloads.assumptions(found, made, model, sampling)


def _declared_cluster(ctx: click.Context, repo: Path, name: str | None) -> Problem:
    """The cluster of the repository, empty."""
    from compiler.pipeline import lowered_problem
    from compiler.reading import read_specs
    from compiler.reading.clusters import NO_CLUSTER_CODES

    tree = load_tree(ctx, repo)
    specs = read_specs(tree, name)
    if fatal := [diagnostic for diagnostic in specs.diagnostics if diagnostic.code in NO_CLUSTER_CODES]:
        raise click.ClickException(f"{fatal[0].message}; or name --machines or --nodes")
    return lowered_problem(tree, specs)


def _requested_times(ctx: click.Context, text: str) -> Any:
    from compiler.traces.workloads import RequestedTimes

    if text == "past":
        return RequestedTimes(past=True)
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise click.BadParameter(f"{text!r} is neither a positive number nor past", ctx, param_hint="--requested")
    return RequestedTimes(factor)


def _policy(workload: Workload, name: str) -> Policy:
    from solver.options import Options
    from solver.simulation.gradient import FragmentationGradient
    from solver.simulation.placing import best_fit, lowest_numbered
    from solver.simulation.planned import Planned
    from solver.simulation.policies import Conservative, Easy, FirstInFirstOut, FirstThatFits

    def fgd() -> Policy:
        roles = [job.role for job in workload.jobs]
        return FirstThatFits(FragmentationGradient(workload.cluster, roles, workload.device, workload.unit))

    makers: Mapping[str, Callable[[], Policy]] = {
        "fifo": lambda: FirstInFirstOut(lowest_numbered),
        "easy": lambda: Easy(lowest_numbered),
        "conservative": lambda: Conservative(lowest_numbered),
        "first-fit": lambda: FirstThatFits(lowest_numbered),
        "best-fit": lambda: FirstThatFits(best_fit),
        "fgd": fgd,
        "gangplan": lambda: Planned(Options()),
    }
    return makers[name]()


def _replay(workload: Workload, name: str) -> Any:
    """The replay of one policy, with its progress on stderr; Ctrl-C ends it where it is."""
    from solver.simulation.replay import Simulation

    simulation = Simulation(workload, _policy(workload, name))
    progress = _Progress(name, len(workload.jobs))
    try:
        return simulation.run(progress)
    except KeyboardInterrupt:
        click.echo(f"{name}: stopped", err=True)
        return simulation.result()


class _Progress:
    """A line on stderr every few seconds, with an estimate of the rest."""

    def __init__(self, policy: str, jobs: int) -> None:
        self.policy, self.jobs = policy, jobs
        self.began = self.shown = time.monotonic()

    def __call__(self, ended: int) -> None:
        now = time.monotonic()
        if now - self.shown >= PROGRESS_SECONDS and ended:
            self.shown = now
            rest = (now - self.began) * (self.jobs - ended) / ended
            click.echo(f"{self.policy}: {ended} of {self.jobs} jobs, about {rest:.0f} s to go", err=True)
