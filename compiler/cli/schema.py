"""`gangplan schema`: JSON Schema for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from compiler.cli.inputs import repo_option
from compiler.repository.paths import ROOT_FOLDERS

SCHEMA_FILE, SETTINGS_FILE = ".vscode/gangplan.schema.json", ".vscode/settings.json"
GLOBS = [f"{top}/**/*.{suffix}" for top in ROOT_FOLDERS for suffix in ("yaml", "yml")]
SETTINGS = {"yaml.schemas": {SCHEMA_FILE: GLOBS}}


@click.command()
@click.argument("kind", required=False)
@click.option("--vscode", is_flag=True, help="Write a schema of all kinds, and the setting that uses it, to .vscode/.")
@repo_option
@click.pass_context
def schema(ctx: click.Context, kind: str | None, vscode: bool, repo: Path) -> None:
    """Print the JSON schema of a KIND, for editors such as yaml-language-server; without KIND, list the kinds. `all` is
    one schema for every kind, and a name that several groups have is one schema for all of these.

    Put `# yaml-language-server: $schema=FILE` on the first line of a YAML file, or use --vscode.
    """
    from compiler.diagnostics.diagnostic import did_you_mean
    from compiler.views.schema import json_schema as schema_of
    from compiler.views.schema import kinds_by_name, schema_of_all_kinds

    known = kinds_by_name()
    if vscode:
        _write_vscode_files(repo)
        return
    if kind is None:
        click.echo("\n".join(known))
        return
    groups = [name for name in known if name.lower().startswith(f"{kind.lower()}.")]
    if kind == "all" or (kind.lower() not in map(str.lower, known) and groups):
        if groups:
            click.echo(f"{kind} is {' or '.join(groups)}: this is the schema of both", err=True)
        click.echo(json.dumps(schema_of_all_kinds(groups or None), indent=2))
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


def _write_vscode_files(repo: Path) -> None:
    """The schema, and the setting for the extension redhat.vscode-yaml; a settings file that exists is left alone."""
    from compiler.views.schema import schema_of_all_kinds

    try:
        (repo / SCHEMA_FILE).parent.mkdir(exist_ok=True)
        (repo / SCHEMA_FILE).write_text(json.dumps(schema_of_all_kinds(), indent=2) + "\n", encoding="utf-8")
        click.echo(f"wrote {repo / SCHEMA_FILE}")
        with (repo / SETTINGS_FILE).open("x", encoding="utf-8") as file:
            file.write(json.dumps(SETTINGS, indent=2) + "\n")
        click.echo(f"wrote {repo / SETTINGS_FILE}")
    except FileExistsError:
        click.echo(f"{repo / SETTINGS_FILE} exists: add\n{json.dumps(SETTINGS, indent=2)}")
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from problem
