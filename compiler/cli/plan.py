"""`gangplan plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from compiler.cli.inputs import (
    CompileInputs,
    compile_and_report,
    compile_options,
    echo,
    fail_option,
    output_option,
    terminal_style,
)

if TYPE_CHECKING:
    from compiler.outcome import FailLevel

DECISIONS = ("start", "keep", "wait", "evict", "done", "empty")


@click.command()
@compile_options
@output_option("json", "yaml")
@click.option("--summary", is_flag=True, help="Show counts, reasons and queues, without single jobs")
@click.option(
    "--queue", "queues", multiple=True, help="Show jobs of this queue and those below it only; may be repeated"
)
@click.option("--namespace", "namespaces", multiple=True, help="Show jobs of this namespace only; may be repeated")
@click.option(
    "--decision",
    "decisions",
    multiple=True,
    type=click.Choice(DECISIONS),
    help="Show jobs with this decision only, each in full; may be repeated",
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 when the plan changes something")
@fail_option(
    "What to exit with 1 for: no plan; also an object with an error; also a job that can never start; also a job that "
    "waits longer than an earlier plan announced"
)
@click.option("--timings", is_flag=True, help="Show how long each batch took; the output then differs between runs")
@click.pass_context
def plan(
    ctx: click.Context,
    inputs: CompileInputs,
    output: str,
    summary: bool,
    queues: tuple[str, ...],
    namespaces: tuple[str, ...],
    decisions: tuple[str, ...],
    detailed_exitcode: bool,
    fail_on: FailLevel,
    timings: bool,
) -> None:
    """Show what would start where, what is kept, and what waits and why. The command changes nothing.

    Many waiting jobs are grouped by reason. --summary, --queue, --namespace and --decision choose what the text shows;
    the plan is the same."""
    from compiler.views import data, machine, text
    from compiler.views.selection import Selection, unknown_names, with_queues_below

    selection = Selection(queues, namespaces, decisions, summary)
    if output != "text" and selection != Selection():
        raise click.UsageError("--summary, --queue, --namespace and --decision are for text; -o json is whole", ctx)
    outcome = compile_and_report(ctx, inputs)
    if output == "text":
        for problem in unknown_names(selection, outcome.specs):
            click.echo(problem, err=True)
        chosen = with_queues_below(selection, outcome.specs)
        echo(text.plan_text(outcome, terminal_style(), timings=timings, selection=chosen))
    else:
        echo(machine.FORMATS[output](data.plan_document(outcome, timings=timings)))
    ctx.exit(outcome.exit_code(detailed_exitcode, fail_on))
