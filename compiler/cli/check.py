"""`gangplan check`: every problem of a repository at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compiler.cli import load_tree, repo_option, wants_colour

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from compiler.repository import Repository

FORMATS = ("text", "json", "github", "sarif", "junit")


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@repo_option
@click.option("--cluster", help="Check against this cluster only. [default: each one]")
@click.option("-o", "--output", type=click.Choice(("text", "json")), help="Output format, the same as --format.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Output format. [default: github in GitHub Actions, else text]"
)
@click.option("--strict", is_flag=True, help="Warnings fail the check too.")
def check(
    paths: Sequence[Path],
    repo: Path,
    cluster: str | None,
    output: str | None,
    form: str | None,
    strict: bool,
) -> None:
    """Report every problem of the repository's files.

    The whole repository is read, since objects refer to one another; with PATHs only the problems in these files and
    folders are reported. A single PATH that is a repository itself (it holds cluster-specs/ or jobs/) is checked in
    place of --repo.
    """
    ctx = click.get_current_context()
    if output and form and output != form:
        raise click.UsageError("-o and --format ask for different formats", ctx)
    chosen = form or output or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    if len(paths) == 1 and any((paths[0] / name).is_dir() for name in ("cluster-specs", "jobs")):
        repo, paths = paths[0], ()
    wanted = [_path_in_repository(ctx, repo, path) for path in paths]
    tree = load_tree(ctx, repo)
    found = [one for one in repository_diagnostics(tree, cluster) if _is_selected(one.position.file, wanted)]
    click.echo(_report_text(found, chosen, tree), nl=False)
    fatal = ("error", "warning") if strict else ("error",)
    failed = any(diagnostic.severity in fatal for diagnostic in found)
    if chosen in ("text", "github"):
        _print_summary(found, tree)
    ctx.exit(1 if failed else 0)


def repository_diagnostics(tree: Repository, cluster: str | None) -> tuple[Diagnostic, ...]:
    """The problems of the chosen cluster, or of all clusters; one that several share is reported once."""
    from compiler.diagnostics import sorted_diagnostics
    from compiler.reading import read_specs

    clusters = tree.cluster_folders()
    if cluster is not None or len(clusters) < 2:
        return read_specs(tree, cluster).diagnostics
    return sorted_diagnostics(diagnostic for name in clusters for diagnostic in read_specs(tree, name).diagnostics)


def _path_in_repository(ctx: click.Context, repo: Path, path: Path) -> str:
    """`path` as the tree names it: relative to the repository, with "/"."""
    if not os.path.lexists(path):
        raise click.UsageError(f"{path} does not exist", ctx)
    try:
        return Path(os.path.abspath(path)).relative_to(os.path.abspath(repo)).as_posix()
    except ValueError:
        raise click.UsageError(
            f"{path} is outside the repository {repo}; name the repository with --repo", ctx
        ) from None


def _is_selected(file: str, wanted: Sequence[str]) -> bool:
    """Whether the file is one of the paths or inside one; without paths every file is."""
    return not wanted or any(path == "." or file == path or file.startswith(f"{path}/") for path in wanted)


def _report_text(diagnostics: Sequence[Diagnostic], form: str, tree: Repository) -> str:
    from compiler.diagnostics.render import FORMATS as RENDERERS
    from compiler.diagnostics.render import render_text

    if form == "text":
        return render_text(diagnostics, colour=wants_colour(sys.stdout), sources=tree.files)
    return RENDERERS[form](diagnostics)


def _print_summary(diagnostics: Sequence[Diagnostic], tree: Repository) -> None:
    from compiler.diagnostics.render.words import severity_counts

    click.echo(f"{severity_counts(diagnostics) or 'no problem found'} in {len(tree.files)} files", err=True)
