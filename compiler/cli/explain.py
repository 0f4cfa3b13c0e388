"""`gangplan explain JOB`."""

from __future__ import annotations

from pathlib import Path

import click

from compiler.cli import compile_and_report, echo, executor_option, output_option, repo_options, terminal_style


@click.command()
@click.argument("job")
@repo_options
@executor_option
@output_option
@click.pass_context
def explain(
    ctx: click.Context, job: str, repo: Path, cluster: str | None, state_file: Path | None, executor: str, output: str
) -> None:
    """Say why JOB (its name, or namespace/name) starts or waits, and what would help."""
    import difflib

    from compiler.views import data, machine
    from compiler.views.explanation import explanation_text

    outcome = compile_and_report(ctx, repo, cluster, state_file, executor)
    found = [decided for decided in outcome.decisions if job in (decided.name, decided.gang.document.name)]
    broken = {d.object for d in outcome.diagnostics if d.severity == "error"}
    if not found and any(
        document.display_name in broken and job in (document.name, f"{document.namespace}/{document.name}")
        for document in outcome.specs.documents
    ):
        raise click.ClickException(f"{job} has errors (see above) and is in no plan until they are mended")
    if not found:
        close = difflib.get_close_matches(
            job, [n for d in outcome.decisions for n in (d.name, d.gang.document.name)], n=1
        )
        raise click.UsageError(
            f"there is no job {job!r} in the plan{f'; did you mean {close[0]}?' if close else ''}", ctx
        )
    if output == "text":
        echo("\n".join(explanation_text(outcome, decided, terminal_style()) for decided in found))
    else:
        echo(machine.FORMATS[output]({"jobs": [data.gang_entry(decided) for decided in found]}))
    ctx.exit(0)
