"""`gangplan schema`: JSON Schema for editors."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("kind", required=False)
@click.pass_context
def schema(ctx: click.Context, kind: str | None) -> None:
    """Print the JSON schema of a KIND, for editors such as yaml-language-server; without KIND, list the kinds.

    Put `# yaml-language-server: $schema=FILE` on the first line of a YAML file.
    """
    from compiler.diagnostics import did_you_mean
    from compiler.views.schema import json_schema as schema_of
    from compiler.views.schema import kinds_by_name

    known = kinds_by_name()
    if kind is None:
        click.echo("\n".join(known))
        return
    found = {name.lower(): name for name in known}.get(kind.lower())
    if found is None:
        near = did_you_mean(kind, known)
        raise click.UsageError(
            f"there is no kind {kind!r}; "
            + (f"did you mean {near!r}?" if near else f"the kinds are {', '.join(known)}"),
            ctx,
        )
    click.echo(json.dumps(schema_of(known[found]), indent=2))
