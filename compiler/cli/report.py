"""`gangplan report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from compiler.cli.inputs import CompileInputs, compile_and_report, compile_options, echo, fail_option, reported

if TYPE_CHECKING:
    from compiler.outcome import FailLevel


@click.command()
@compile_options
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write. [default: stdout]",
)
@fail_option(
    "What to exit with 1 for, as of plan: no plan; also an object with an error; also a job that can never start; also "
    "a job that waits longer than an earlier plan announced."
)
@click.pass_context
def report(ctx: click.Context, inputs: CompileInputs, file: Path | None, fail_on: FailLevel) -> None:
    """Write the plan as one HTML page: the cluster as a picture, free room, queues, what waits and why, and when.

    The page opens from disk in any browser and loads nothing."""
    from compiler.views.report import report_page

    outcome = compile_and_report(ctx, inputs)
    if not outcome.ok:
        click.echo("no page is written: there is no plan, see the diagnostics", err=True)
        ctx.exit(outcome.exit_code(fail_on=fail_on))
    page = report_page(outcome)
    if file is None:
        echo(page)
    else:
        with reported():
            file.write_text(page, encoding="utf-8", newline="\n")
        click.echo(f"wrote {file}: open it in a browser", err=True)
    ctx.exit(outcome.exit_code(fail_on=fail_on))
