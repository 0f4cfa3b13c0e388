"""`gangplan plan`."""

from __future__ import annotations

import click

from compiler.cli import CompileInputs, compile_and_report, compile_options, echo, output_option, terminal_style


@click.command()
@compile_options
@output_option
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 when the plan changes something.")
@click.option("--timings", is_flag=True, help="Show how long each batch took (no longer the same bytes each time).")
@click.pass_context
def plan(
    ctx: click.Context,
    inputs: CompileInputs,
    output: str,
    detailed_exitcode: bool,
    timings: bool,
) -> None:
    """Show what would start where, what is kept, and what waits and why. Nothing is changed anywhere."""
    from compiler.views import data, machine, text

    outcome = compile_and_report(ctx, inputs)
    if output == "text":
        echo(text.plan_text(outcome, terminal_style(), timings=timings))
    else:
        echo(machine.FORMATS[output](data.plan_document(outcome, timings=timings)))
    ctx.exit(outcome.exit_code(detailed_exitcode))
