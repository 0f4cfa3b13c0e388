"""`gangplan init`: a small repository that works, to start from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from compiler.cli.inputs import reported
from compiler.version import VERSION

VERSION_MARK = "@VERSION@"
"""The placeholder for this version in the files."""
WORKFLOW_FILE = ".github/workflows/gangplan.yml"
EXAMPLE_FILES = {
    "cluster-specs/example/cluster.yaml": "cluster.yaml",
    "cluster-specs/example/queues.yaml": "queues.yaml",
    "jobs/research/pretrain.yaml": "pretrain.yaml",
    WORKFLOW_FILE: "workflow.yaml",
}
"""File of the repository -> its source in the folder `example` next to this module."""


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.pass_context
def init(ctx: click.Context, directory: Path) -> None:
    """Write a small repository to start from into DIRECTORY; nothing that exists is overwritten."""
    taken = [name for name in ("cluster-specs", "jobs", *EXAMPLE_FILES) if os.path.lexists(directory / name)]
    if taken:
        raise click.ClickException(f"{directory / taken[0]} exists already; nothing was written")
    with reported():
        for name, source in EXAMPLE_FILES.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            with (directory / name).open("xb") as file:
                text = (Path(__file__).parent / "example" / source).read_text()
                file.write(text.replace(VERSION_MARK, f"v{VERSION}").encode())
            click.echo(f"wrote {directory / name}")
    where = "" if directory == Path() else f" --repo {directory}"
    click.echo(f"In {directory / WORKFLOW_FILE} write the owner of gangplan's repository in place of OWNER")
    click.echo(f"Next: gangplan check{where}, then gangplan plan{where}")
