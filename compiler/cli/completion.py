"""`gangplan completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell: eval "$(gangplan completion bash)"."""
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click completes nothing in {shell}")
    made = found(ctx.find_root().command, {}, "gangplan", "_GANGPLAN_COMPLETE")
    variables = made.source_vars()
    click.echo(made.source_template % variables)
