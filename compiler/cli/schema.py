"""`gangplan schema`: JSON Schema for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from compiler.cli.inputs import repo_option, reported
from compiler.repository.paths import ROOT_FOLDERS

SCHEMA_FILE, SETTINGS_FILE = ".vscode/gangplan.schema.json", ".vscode/settings.json"
GLOBS = [f"{top}/**/*.{suffix}" for top in ROOT_FOLDERS for suffix in ("yaml", "yml")]
OUTPUT_NAMES = ("check", "diff", "plan", "status")
"""Commands of which the JSON has a schema."""
SETTINGS = {"yaml.schemas": {SCHEMA_FILE: GLOBS}}


@click.command()
@click.argument("kind", required=False)
@click.option("--vscode", is_flag=True, help="Write a schema of all kinds, and the setting that uses it, to .vscode/")
@repo_option
@click.pass_context
def schema(ctx: click.Context, kind: str | None, vscode: bool, repo: Path) -> None:
    """Print the JSON schema of a KIND, for editors such as yaml-language-server; without KIND, list the kinds. `all` is
    one schema for every kind, and a name that several groups have is one schema for all of these.

    `check`, `diff`, `plan` or `status` prints the schema of that command's -o json output.

    Put `# yaml-language-server: $schema=FILE` on the first line of a YAML file, or use --vscode.
    """
    from compiler.diagnostics.diagnostic import did_you_mean
    from compiler.views.schema import json_schema, kinds_by_name, schema_of_all_kinds

    known = kinds_by_name()
    if kind in OUTPUT_NAMES:
        from compiler.views.schema import output_schema

        click.echo(json.dumps(output_schema(kind), indent=2))
        return
    if vscode:
        _write_vscode_files(repo)
        return
    if kind is None:
        click.echo("\n".join(known))
        return
    by_lower = {name.lower(): name for name in known}
    if (found := by_lower.get(kind.lower())) is not None:
        click.echo(json.dumps(json_schema(known[found]), indent=2))
        return
    groups = [name for lower, name in by_lower.items() if lower.startswith(f"{kind.lower()}.")]
    if groups:
        click.echo(f"{kind} is {' or '.join(groups)}: this is the schema of both", err=True)
    elif kind != "all":
        near = did_you_mean(kind, known)
        hint = f"did you mean {near!r}?" if near else f"use one of {', '.join(known)}"
        raise click.UsageError(f"there is no kind {kind!r}; {hint}", ctx)
    click.echo(json.dumps(schema_of_all_kinds(groups or None), indent=2))


def _write_vscode_files(repo: Path) -> None:
    """Write the schema, and the setting for the extension redhat.vscode-yaml; an existing settings file is not
    changed."""
    from compiler.views.schema import schema_of_all_kinds

    with reported():
        (repo / SCHEMA_FILE).parent.mkdir(exist_ok=True)
        (repo / SCHEMA_FILE).write_text(json.dumps(schema_of_all_kinds(), indent=2) + "\n", encoding="utf-8")
        click.echo(f"wrote {repo / SCHEMA_FILE}")
        if (repo / SETTINGS_FILE).exists():
            click.echo(f"{repo / SETTINGS_FILE} exists: add\n{json.dumps(SETTINGS, indent=2)}")
        else:
            (repo / SETTINGS_FILE).write_text(json.dumps(SETTINGS, indent=2) + "\n", encoding="utf-8")
            click.echo(f"wrote {repo / SETTINGS_FILE}")
