"""`gangplan diff`: what a change of the repository does, before it is merged."""

from __future__ import annotations

from pathlib import Path

import click

from compiler.cli import CompileInputs, compile_options, echo, load_state_file, load_tree
from compiler.cli.executor import open_executor
from compiler.cli.reading_cache import ReadingCache
from compiler.cluster_state.state import ClusterState
from compiler.comparison import Compile, compare
from compiler.comparison.render import comparison_document, comparison_markdown, comparison_text
from compiler.outcome import Outcome
from compiler.pipeline import CommandLimit, compile_specs
from compiler.reading import read_specs
from compiler.repository import Repository
from compiler.specs import Specs
from compiler.views.machine import to_json
from reconciler.git.commits import read_revision
from reconciler.git.process import GitError

WORK_TREE = "work tree"
SHORT_ID = 12


@click.command()
@click.argument("base")
@click.argument("head", required=False)
@compile_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Output format; markdown is for a comment on a pull request.",
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 when something changes.")
@click.pass_context
def diff(
    ctx: click.Context, base: str, head: str | None, inputs: CompileInputs, output: str, detailed_exitcode: bool
) -> None:
    """Show what becomes of jobs, queues and the scheduler from revision BASE to revision HEAD (or to the files as they
    are): which jobs start, wait, move or are evicted, each with why, and which findings are new and mended.

    HEAD is planned with what BASE starts already running. Exits with 1 when the change brings an error."""
    try:
        base_name, base_tree = _read(inputs.repo, base)
        head_name, head_tree = _read(inputs.repo, head) if head else (WORK_TREE, load_tree(ctx, inputs.repo))
    except GitError as error:
        raise click.ClickException(str(error)) from error
    state = load_state_file(inputs.state_file)
    clusters = [inputs.cluster] if inputs.cluster else _cluster_names(base_tree, head_tree)
    with open_executor(inputs.executor) as mapper:

        def compile_of(tree: Repository, specs: Specs) -> Compile:
            def compile_against(found: ClusterState | None) -> Outcome:
                limit = CommandLimit(inputs.time_limit)
                return compile_specs(tree, specs, found, mapper=mapper, limit=limit)

            return compile_against

        found, cache = [], ReadingCache(None)  # a file that both revisions have is read once
        for name in clusters:
            base_specs, head_specs = (read_specs(tree, name, cache.parse) for tree in (base_tree, head_tree))
            compiles = compile_of(base_tree, base_specs), compile_of(head_tree, head_specs)
            found.append(compare(*compiles, head_specs, state))
    if output == "json":
        echo(to_json(comparison_document(found, base_name, head_name)))
    else:
        echo({"text": comparison_text, "markdown": comparison_markdown}[output](found, base_name, head_name))
    if any(each.breaks for each in found):
        ctx.exit(1)
    ctx.exit(2 if detailed_exitcode and not all(each.is_empty for each in found) else 0)


def _read(folder: Path, revision: str) -> tuple[str, Repository]:
    """The revision with its short id, and its files."""
    commit, tree = read_revision(folder, revision)
    short = commit[:SHORT_ID]
    return (revision if commit.startswith(revision) else f"{revision} ({short})"), tree


def _cluster_names(*trees: Repository) -> list[str | None]:
    """All clusters of the revisions; one without a name where a repository has no cluster's folder."""
    names = sorted({folder for tree in trees for folder in tree.cluster_folders()})
    return [*names] or [None]
