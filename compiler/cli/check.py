"""`gangplan check`: every problem of a repository at once; `--fix` and `--diff` repeat certain fixes until none
remains."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compiler.cli.inputs import (
    ANY_FILE,
    FOLDER,
    folder_in_git,
    load_state_file,
    pause_garbage_collection,
    take_defaults,
    wants_colour,
    wants_links,
)
from compiler.cli.reading_cache import replace_file
from compiler.repository.paths import ROOT_FOLDERS

if TYPE_CHECKING:
    from compiler.cli.reading_cache import ReadingCache
    from compiler.cluster_state.cluster_state import ClusterState
    from compiler.diagnostics.diagnostic import Diagnostic
    from compiler.repository.tree import Repository

STDIN, STDIN_NAME = "-", "stdin.yaml"
FORMATS = ("text", "json", "github", "sarif", "junit")


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH|-]...")
@click.option(
    "--repo",
    type=FOLDER,
    is_eager=True,
    callback=take_defaults,
    help="The repository [default: the folder around PATH that holds cluster-specs/]",
)
@click.option("--cluster", help="Check against this cluster only [default: each one]")
@click.option("-o", "--output", type=click.Choice(FORMATS), help="Same as --format")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Output format [default: github in GitHub Actions, else text]"
)
@click.option(
    "--state",
    "state_file",
    type=ANY_FILE,
    help="A snapshot of the cluster: its release of Volcano counts where the Cluster names none",
)
@click.option("--strict", is_flag=True, help="Fail on warnings too")
@click.option("--fix", is_flag=True, help="Apply the safe fixes to the files")
@click.option("--diff", is_flag=True, help="Print what --fix would change as a patch instead")
@click.option("--cache/--no-cache", default=True, help="Cache parsed files in the user's cache folder [default: yes]")
def check(
    paths: Sequence[Path],
    repo: Path | None,
    cluster: str | None,
    output: str | None,
    form: str | None,
    state_file: Path | None,
    strict: bool,
    fix: bool,
    diff: bool,
    cache: bool,
) -> None:
    """Check the repository for problems.

    The whole repository is read, since objects refer to one another; with PATHs only problems in these files and
    folders are reported. PATHs outside cluster-specs/ and jobs/ are read as well; - is stdin. The repository is the
    folder around the first PATH (or this one) that holds cluster-specs/.
    """
    ctx = click.get_current_context()
    pause_garbage_collection()
    from compiler.diagnostics.diagnostic import fold_diagnostics
    from compiler.diagnostics.render.words import severity_counts
    from compiler.fields.texts import count_text
    from compiler.repository.tree import Repository

    if output and form and output != form:
        raise click.UsageError("-o and --format ask for different formats", ctx)
    chosen = form or output or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    root = _root(ctx, repo, paths)
    if (fix or diff) and Path(STDIN) in paths:
        raise click.UsageError("--fix and --diff are for files, and - is stdin", ctx)
    tree, wanted = _with_paths(ctx, Repository.from_directory(root), root, paths)

    state = load_state_file(state_file)

    def find(tree: Repository) -> list[Diagnostic]:
        every = repository_diagnostics(tree, cluster, root if cache else None, state)
        return [one for one in every if _is_selected(one.position.file, wanted)]

    if fix or diff:
        tree = _fixed(ctx, tree, root, find, is_shown=diff)
    found = find(tree)
    shown = fold_diagnostics(found) if chosen in ("text", "github") else found
    click.echo(_report_text(shown, chosen, tree, root), nl=False)
    fatal = ("error", "warning") if strict else ("error",)
    failed = any(diagnostic.severity in fatal for diagnostic in found)
    if chosen in ("text", "github"):
        files = count_text(sum(_is_selected(file, wanted) for file in tree.manifests()), "file")
        click.echo(f"{severity_counts(shown) or 'no problem found'} in {files}", err=True)
    ctx.exit(1 if failed else 0)


def _fixed(
    ctx: click.Context, tree: Repository, root: Path, find: Callable[[Repository], list[Diagnostic]], is_shown: bool
) -> Repository:
    """Return the tree with the fixes that are certain; they are written and listed, or shown as a patch, which ends the
    command."""
    from compiler.cli.check import fixed_tree, write_files
    from compiler.diagnostics.render.words import place_text, sentence
    from compiler.fields.texts import count_text
    from compiler.views.machine import patch_text

    after, fixed = fixed_tree(tree, find)
    if is_shown:
        changed = {file: text for file, text in after.files.items() if text != tree.files[file]}
        click.echo(patch_text(tree.files, changed, folder_in_git(root)), nl=False)
        click.echo(f"{count_text(len(fixed), 'finding')} to fix in {count_text(len(changed), 'file')}", err=True)
        ctx.exit(1 if fixed else 0)
    write_files(root, tree.files, after.files)
    for each in fixed:
        click.echo(f"{place_text(each.position)}: fixed {each.code}: {sentence(each)}", err=True)
    return after


def repository_diagnostics(
    tree: Repository, cluster: str | None, cached: Path | None = None, state: ClusterState | None = None
) -> tuple[Diagnostic, ...]:
    """Return the problems of the chosen cluster, or of all clusters; then each names its cluster, and a shared one is
    reported once. cached: the folder under whose name the cache keeps the files' contents; None for no cache. state: of
    a cluster, whose release of Volcano counts where no Cluster names one."""
    from compiler.cli.reading_cache import ReadingCache

    cache = ReadingCache(cached)
    if state is None and (known := cache.findings(tree, cluster)) is not None:
        return known
    found = _read_diagnostics(tree, cluster, cache, state)
    if state is None:
        cache.save_findings(tree, cluster, found)
    return found


def _read_diagnostics(
    tree: Repository, cluster: str | None, cache: ReadingCache, state: ClusterState | None
) -> tuple[Diagnostic, ...]:
    from compiler.diagnostics.diagnostic import sorted_diagnostics

    cache.read_ahead({file: tree.files[file] for file in tree.manifests()})
    clusters = tree.cluster_folders()
    chosen = [cluster] if cluster is not None or len(clusters) < 2 else list(clusters)
    found: dict[Diagnostic, list[str]] = {}
    for name in chosen:
        for diagnostic in _diagnostics_of_cluster(tree, name, cache, state):
            found.setdefault(diagnostic, []).append(name or "")
    if len(chosen) < 2:
        return tuple(found)
    return sorted_diagnostics(
        replace(each, message=f"{each.message} [cluster{'s' if len(names) > 1 else ''} {', '.join(names)}]")
        for each, names in found.items()
    )


def _diagnostics_of_cluster(
    tree: Repository, cluster: str | None, cache: ReadingCache, state: ClusterState | None
) -> tuple[Diagnostic, ...]:
    from compiler.reading import read_specs

    if state is None:
        return read_specs(tree, cluster, cache.parse).diagnostics
    from compiler.explain.caveats import other_release_diagnostics
    from compiler.reading.ignores import without_ignored

    specs = read_specs(tree, cluster, cache.parse, release_in=state.release_in)
    return without_ignored(tree, (*specs.diagnostics, *other_release_diagnostics(specs, state)))


def _root(ctx: click.Context, repo: Path | None, paths: Sequence[Path]) -> Path:
    """Return the repository's root: --repo, else the one around the first path, or around this folder."""
    from compiler.repository.tree import find_root, folders_to_git_root

    if repo is not None:
        return Path(os.path.abspath(repo))
    here = Path.cwd()
    start = next((Path(os.path.abspath(path)) for path in paths if str(path) != STDIN), here)
    if not os.path.lexists(start):
        raise click.UsageError(f"{start} does not exist", ctx)
    folder = start if start.is_dir() else start.parent
    if (found := find_root(folder)) is not None:
        return found
    if start.is_relative_to(here):
        return here
    top = folders_to_git_root(folder)[-1]
    return top if (top / ".git").exists() else folder


def _with_paths(
    ctx: click.Context, tree: Repository, root: Path, paths: Sequence[Path]
) -> tuple[Repository, list[str]]:
    """Return the tree with what the paths name in addition to its own files, and the paths as the tree names them. A
    path of which nothing is read is refused."""
    from compiler.repository.tree import read_named

    wanted = []
    for path in paths:
        if str(path) == STDIN:
            wanted.append(STDIN_NAME)
            tree = tree.with_named_files({STDIN_NAME: sys.stdin.buffer.read()})
            continue
        name = _path_in_repository(ctx, root, path)
        if name != "." or not tree.manifests():
            tree = tree.with_named_files(_new_files(tree, read_named(root, root / name)))
        files = (*tree.manifests(), *(problem.position.file for problem in tree.problems))
        if not any(_is_selected(file, [name]) for file in files):
            raise click.UsageError(f"nothing is read of {path}: it holds no .yaml, .yml or .json, or is ignored", ctx)
        wanted.append(name)
    return tree, wanted


def _new_files(tree: Repository, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files outside of the folders that are read anyway."""
    tops = tuple(f"{top}/" for top in ROOT_FOLDERS)
    outside = {file: text for file, text in files.items() if not file.startswith(tops)}
    return {file: text for file, text in outside.items() if file not in tree.files}


def _path_in_repository(ctx: click.Context, root: Path, path: Path) -> str:
    """`path` as the tree names it: relative to the repository, with "/"."""
    if not os.path.lexists(path):
        raise click.UsageError(f"{path} does not exist", ctx)
    try:
        return Path(os.path.abspath(path)).relative_to(root).as_posix()
    except ValueError:
        raise click.UsageError(
            f"{path} is outside the repository {root}; check it by itself, or name its repository with --repo", ctx
        ) from None


def _is_selected(file: str, wanted: Sequence[str]) -> bool:
    """Return whether the file is one of the paths or inside one; without paths every file is."""
    return not wanted or any(path == "." or file == path or file.startswith(f"{path}/") for path in wanted)


def _report_text(diagnostics: Sequence[Diagnostic], form: str, tree: Repository, root: Path) -> str:
    from compiler.diagnostics.render import FORMATS as RENDERERS
    from compiler.diagnostics.render import render_text
    from compiler.diagnostics.render.github import summary_markdown
    from compiler.repository.kustomize import BUILT_MARK

    if form == "text":
        sources = {file: text for file, text in tree.files.items() if not text.startswith(BUILT_MARK)}
        colour, links = wants_colour(sys.stdout), wants_links(sys.stdout)
        return render_text(diagnostics, colour=colour, links=links, sources=sources)
    if form in ("json", "sarif"):
        from compiler.emit.edited_files import Fixes

        edits = Fixes(tree.files).text_edits(diagnostics)
        diagnostics = [replace(each, fix=(edits[each],)) if each in edits else each for each in diagnostics]
    if form in ("github", "sarif"):
        folder = folder_in_git(root)  # GitHub knows files from the top
        diagnostics = [each.below(folder) for each in diagnostics]
    if form == "github" and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(summary_markdown(diagnostics))
    return RENDERERS[form](diagnostics)


_MAX_ROUNDS = 10
"""Most rounds: a fix may reveal a further finding."""


def fixed_tree(
    tree: Repository, find: Callable[[Repository], Sequence[Diagnostic]]
) -> tuple[Repository, list[Diagnostic]]:
    """Return the tree with every fix that is certain, and the findings that it ends. find: the findings on a tree."""
    from compiler.emit.edited_files import Fixes

    fixed: list[Diagnostic] = []
    for _ in range(_MAX_ROUNDS):
        changed, done = Fixes(tree.files).applied(find(tree))
        if not done:
            break
        fixed += done
        tree = tree.with_files(changed)
    return tree, fixed


def write_files(root: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Write the files that differ, each whole or not at all. ClickException for one that cannot be written, or that
    somebody has changed meanwhile."""
    for file in sorted(after):
        if after[file] != before[file]:
            try:
                _write_file(root / file, before[file], after[file])
            except OSError as problem:
                raise click.ClickException(f"{file} is not changed: {problem.strerror}") from problem


def _write_file(path: Path, before: bytes, after: bytes) -> None:
    if path.read_bytes() != before:
        raise click.ClickException(f"{path} is not changed: it was edited meanwhile")
    with path.open("r+b") as file:  # refuses a file that is read-only
        mode = os.fstat(file.fileno()).st_mode
    replace_file(path, [after], mode)
