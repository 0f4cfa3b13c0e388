"""`gangplan version`."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version as version_of_package
from pathlib import Path

import click

from compiler.cli.inputs import output_option
from compiler.version import ARCHIVED_COMMIT, VERSION
from reconciler.git.process import GitError, read_git

_TIMEOUT = 10.0
"""Seconds that git may take to name the commit of a checkout."""


@click.command()
@output_option("json")
def version(output: str) -> None:
    """Show the version and commit of gangplan, of its solver and of Python."""
    commit = _commit()
    known = {
        "version": VERSION,
        "commit": commit,
        "highs": version_of_package("highspy"),
        "pulp": version_of_package("pulp"),
        "python": platform.python_version(),
    }
    if output == "json":
        click.echo(json.dumps({name: value for name, value in known.items() if value}))
        return
    click.echo(f"gangplan {VERSION}" + (f" (commit {commit})" if commit else ""))
    click.echo(f"solver: HiGHS {known['highs']} through PuLP {known['pulp']}")
    click.echo(f"Python {known['python']}")


def _commit() -> str:
    """Return the commit that this was made from, or that the checkout is at; empty where neither is known."""
    if not ARCHIVED_COMMIT.startswith("$"):
        return ARCHIVED_COMMIT
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        return read_git(root, "rev-parse", "HEAD", timeout=_TIMEOUT, more={}).decode().strip()
    except (GitError, OSError):
        return ""
