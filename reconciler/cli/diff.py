"""`gangplan diff`: what a change of the repository does, before it is merged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from compiler.cli.executor import open_executor
from compiler.cli.inputs import (
    ANY_FOLDER,
    FOLDER,
    CompileInputs,
    compile_options,
    echo,
    fail_option,
    folder_in_git,
    load_state_file,
    load_tree,
    output_option,
    report_missed_limit,
    reported,
    write_file,
)
from compiler.cli.reading_cache import ReadingCache
from compiler.cluster_state.cluster_state import ClusterState
from compiler.comparison.compare import MOST_PLANS, Comparison, Revision, compare
from compiler.comparison.render import (
    comparison_document,
    comparison_markdown,
    comparison_page,
    comparison_sarif,
    comparison_text,
)
from compiler.outcome import FailLevel, Outcome
from compiler.pipeline import CommandLimit, compile_specs
from compiler.reading import read_specs
from compiler.reading.clusters import choose_folder
from compiler.repository.tree import Repository, read_rendered
from compiler.views.machine import to_json
from reconciler.git.commits import default_base, read_revision
from reconciler.git.process import GitError
from solver.mip.executors import Mapper

WORK_TREE = "working tree"
SHORT_ID = 12
Named = tuple[str, Repository]
"""How a side of the comparison is called, and its files."""


@click.command()
@click.argument("base", required=False)
@click.argument("head", required=False)
@compile_options
@click.option("--base-dir", type=FOLDER, help="Compare this folder of rendered manifests, without git; see --head-dir")
@click.option(
    "--head-dir",
    type=FOLDER,
    help="Folder with the change; without its own cluster-specs/ it is planned for the repository's clusters",
)
@output_option("markdown", "json", "sarif", note="; markdown is for a comment on a pull request")
@click.option(
    "--pages",
    type=ANY_FOLDER,
    help="Folder for the report page of each cluster, before and after; a rejected commit has no page",
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 when something changes")
@fail_option(
    "What to exit with 1 for: no plan, or an error in HEAD; also a job that can never start, or never again, because "
    "of the change; also a job of BASE that waits longer, is evicted or could not start again"
)
@click.pass_context
def diff(
    ctx: click.Context,
    base: str | None,
    head: str | None,
    inputs: CompileInputs,
    base_dir: Path | None,
    head_dir: Path | None,
    output: str,
    pages: Path | None,
    detailed_exitcode: bool,
    fail_on: FailLevel,
) -> None:
    """Show what changes for jobs, queues and the scheduler between revision BASE and revision HEAD (or the working
    tree): which jobs start, wait, move or are evicted, each with why. It also shows which jobs run on and could not
    start again, and which findings are new and fixed. BASE is by default the commit from which the branch left the
    remote's default branch.

    HEAD is planned with what BASE starts already running. With an error in HEAD the reconciler rejects the commit, so
    only its errors are shown."""
    if (base_dir is None) != (head_dir is None) or (base_dir is not None and base is not None):
        raise click.UsageError("--base-dir and --head-dir go together, and replace BASE and HEAD", ctx)
    if base_dir is not None and head_dir is not None:
        sides = tuple((str(folder), read_rendered(folder, inputs.repo)) for folder in (base_dir, head_dir))
    else:
        sides = read_sides(ctx, inputs.repo, base, head)
    (base_name, base_tree), (head_name, head_tree) = sides
    state = load_state_file(inputs.state_file)
    clusters: list[str | None] = [inputs.cluster] if inputs.cluster else [*paired_clusters(base_tree, head_tree)]
    clusters = clusters or [None]
    with open_executor(inputs.executor) as mapper:
        revision = revision_reader(ctx, inputs, mapper, state, len(clusters))
        found = [compare(revision(base_tree, name), revision(head_tree, name), state) for name in clusters]
    if pages is not None:
        _write_pages(found, base_name, pages)
    if output == "json":
        echo(to_json(comparison_document(found, base_name, head_name)))
    else:
        folder = folder_in_git(inputs.repo) if base_dir is None else ""
        in_folder: Callable[..., str] = partial(comparison_sarif, folder=folder)
        formats = {"text": comparison_text, "markdown": comparison_markdown, "sarif": in_folder}
        echo(formats[output](found, base_name, head_name))
    if any(each.fails(fail_on) for each in found):
        ctx.exit(1)
    ctx.exit(2 if detailed_exitcode and not all(each.is_empty for each in found) else 0)


def paired_clusters(base: Repository, head: Repository) -> list[str]:
    """Return the clusters to compare, each once: a folder that is renamed holds the cluster that it held."""
    names = sorted({*base.cluster_folders(), *head.cluster_folders()})
    folders = [tuple(choose_folder(tree, name)[0] for tree in (base, head)) for name in names]
    pairs = dict(zip(reversed(folders), reversed(names), strict=True))
    both = {pair for pair in pairs if None not in pair}
    taken = {side for pair in both for side in enumerate(pair)}
    again = {pair for pair in pairs.keys() - both if not taken.isdisjoint(enumerate(pair))}
    return sorted(name for pair, name in pairs.items() if pair not in again)


def _write_pages(comparisons: Sequence[Comparison], base: str, folder: Path) -> None:
    """A file for each cluster that has plans, by its name."""
    with reported():
        folder.mkdir(parents=True, exist_ok=True)
        for found in comparisons:
            if (page := comparison_page(found, base)) is not None:
                write_file(folder / f"{found.cluster}.html", page)


def revision_reader(
    ctx: click.Context, inputs: CompileInputs, mapper: Mapper, state: ClusterState | None, clusters: int = 1
) -> Callable[[Repository, str | None], Revision]:
    """Reads the files of a revision for one of so many clusters. A file that several revisions have is read once. Each
    plan has an equal share of what reading leaves of --time-limit: one that had longer would look better."""
    cache = ReadingCache(None)
    if inputs.time_limit is not None:
        ctx.call_on_close(partial(report_missed_limit, inputs.time_limit, inputs.started_at))

    def read(tree: Repository, cluster: str | None) -> Revision:
        specs = read_specs(tree, cluster, cache.parse, release_in=(state or ClusterState()).release_in)
        share = inputs.time_limit
        if share is not None:
            share = max(0.0, share - (time.monotonic() - inputs.started_at)) / (MOST_PLANS * clusters)

        def compile_against(state: ClusterState | None) -> Outcome:
            return compile_specs(tree, specs, state, mapper=mapper, limit=CommandLimit(share))

        return Revision(specs, compile_against)

    return read


def read_sides(ctx: click.Context, repo: Path, base: str | None, head: str | None = None) -> tuple[Named, Named]:
    """Two revisions: by default where the branch began, and the working tree. Raises click.ClickException."""
    try:
        changed = _read_side(repo, head) if head else (WORK_TREE, load_tree(ctx, repo))
        return _read_side(repo, base or default_base(repo)), changed
    except GitError as error:
        raise click.ClickException(str(error)) from error


def _read_side(folder: Path, revision: str) -> Named:
    """Return the revision with its short id, and its files."""
    commit, tree = read_revision(folder, revision)
    short = commit[:SHORT_ID]
    return (short if commit == revision else revision if commit.startswith(revision) else f"{revision} ({short})"), tree
