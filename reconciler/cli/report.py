"""`gangplan report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from compiler.cli.inputs import (
    ANY_FILE,
    CompileInputs,
    compile_and_report,
    compile_options,
    echo,
    fail_option,
    load_state_file,
    print_diagnostics,
    reported,
    write_file,
)
from compiler.outcome import FailLevel
from reconciler.cli import add_kubeconfig_options

READING_SECONDS = 120.0
"""That reading the cluster may take without --time-limit, as with snapshot."""
NO_PAGE = "no page is written: there is no plan, see the diagnostics"


@click.command()
@compile_options
@click.option("-o", "--output", "file", type=ANY_FILE, help="File to write [default: stdout]")
@click.option(
    "--base",
    metavar="REV|LOCK|STATE",
    help="Show the cluster before as well: under the plan of a revision, or as a gangplan.lock or a state file has it",
)
@click.option("--live", is_flag=True, help="Plan for the cluster as it is now, as with --state and its snapshot")
@add_kubeconfig_options
@fail_option(
    "What to exit with 1 for, as of plan: no plan; also an object with an error; also a job that can never start; also "
    "a job that waits longer than an earlier plan announced; with a revision as base as of diff"
)
@click.pass_context
def report(
    ctx: click.Context,
    inputs: CompileInputs,
    file: Path | None,
    base: str | None,
    live: bool,
    kubeconfig: Path | None,
    context: str | None,
    fail_on: FailLevel,
) -> None:
    """Write the plan as one HTML page: the cluster as a picture, free room, queues, what waits and why, and when.

    The page opens from disk in any browser and loads nothing. What runs already, by --state, --live, --lock or --base,
    is shown next to the plan. From a revision the page shows what the change does to each job, as diff does."""
    if live:
        inputs = _with_live_state(ctx, inputs, kubeconfig, context)
    if base is not None and Path(base).is_file():
        inputs = _with_base_file(ctx, inputs, Path(base))
    elif base is not None:
        page, failed = _page_against(ctx, inputs, base, fail_on)
        _write(page, file)
        ctx.exit(1 if failed else 0)
    from compiler.views.report.page import report_page

    outcome = compile_and_report(ctx, inputs)
    _write(report_page(outcome) if outcome.ok else None, file)
    ctx.exit(outcome.exit_code(fail_on=fail_on))


def _with_live_state(
    ctx: click.Context, inputs: CompileInputs, kubeconfig: Path | None, context: str | None
) -> CompileInputs:
    """Return the inputs with what the cluster holds now as the state."""
    from reconciler.cli.commands import snapshot_text
    from reconciler.cli.connection import one_line_errors, open_client, time_limit

    if inputs.state_file is not None:
        raise click.UsageError("--live and --state are the same: name one", ctx)
    seconds = READING_SECONDS if inputs.time_limit is None else max(0.1, inputs.time_limit)
    with one_line_errors(), time_limit(seconds, "--time-limit"):
        text = snapshot_text(open_client(kubeconfig, context))
    return replace(inputs, state_file=Path("--live"), live_state=text.encode())


def _with_base_file(ctx: click.Context, inputs: CompileInputs, base: Path) -> CompileInputs:
    """Return the inputs with the lock or the state that the file is."""
    from compiler.emit.lock import LockError, read_lock

    with reported():
        content = base.read_bytes()
    try:
        read_lock(content)
    except LockError:
        if inputs.state_file is not None:
            raise click.UsageError("--base STATE, --state and --live are the same: name one", ctx) from None
        return replace(inputs, state_file=base)
    if inputs.lock_file is not None:
        raise click.UsageError("--base LOCK and --lock are the same: name one", ctx)
    return replace(inputs, lock_file=base)


def _page_against(ctx: click.Context, inputs: CompileInputs, base: str, fail_on: FailLevel) -> tuple[str | None, bool]:
    """Return the page against a revision, and whether the command fails."""
    from compiler.cli.executor import open_executor
    from compiler.comparison.compare import compare
    from compiler.comparison.render import comparison_page
    from reconciler.cli.diff import read_sides, revision_reader

    if inputs.lock_file is not None:
        raise click.UsageError("--lock does not go with a revision as --base", ctx)
    (name, base_tree), (_, head_tree) = read_sides(ctx, inputs.repo, base)
    state = load_state_file(inputs.state_file, inputs.live_state)
    with open_executor(inputs.executor) as mapper:
        revision = revision_reader(ctx, inputs, mapper, state)
        before = revision(base_tree, inputs.cluster)
        comparison = compare(before, revision(head_tree, inputs.cluster), state)
    print_diagnostics(comparison.errors)
    return comparison_page(comparison, name), comparison.fails(fail_on)


def _write(page: str | None, file: Path | None) -> None:
    """Write the page, and print on stderr which file was written, or that none was."""
    if page is None:
        click.echo(NO_PAGE, err=True)
    elif file is None:
        echo(page)
    else:
        write_file(file, page)
        click.echo(f"wrote {file}: open it in a browser", err=True)
