"""`gangplan compile`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compiler.cli.inputs import CompileInputs, compile_and_report, compile_options, echo, print_diagnostics, reported
from compiler.diagnostics.diagnostic import Diagnostic

if TYPE_CHECKING:
    from compiler.emit.waves import ManifestSource


@click.command(name="compile")
@compile_options
@click.option(
    "--to",
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to [default: stdout]",
)
@click.option("--namespaces", "with_namespaces", is_flag=True, help="Also write the Namespaces that the objects need")
@click.pass_context
def compile(  # noqa: A001 - the command's name
    ctx: click.Context, inputs: CompileInputs, folder: Path | None, with_namespaces: bool
) -> None:
    """Write the bound manifests in the order of their application, the scheduler ConfigMap and gangplan.lock.

    In the folder only files that its gangplan.lock lists are ever replaced or removed."""
    from compiler.emit.lock import LOCK_FILE, lock_text
    from compiler.emit.waves import manifest_texts, namespace_texts, stream_text, texts_by_file

    if folder is not None and (source := _source_within(folder, inputs.repo)) is not None:
        raise click.UsageError(f"{folder} is part of what is compiled ({source}): name another folder", ctx)
    outcome = compile_and_report(ctx, inputs)
    if not outcome.ok:
        ctx.exit(outcome.exit_code())
    errors = list[Diagnostic]()
    texts = manifest_texts(outcome, errors.append, write_in_parallel if inputs.may_fork else None)
    print_diagnostics(errors)
    outcome = outcome.with_diagnostics(errors)
    if with_namespaces:
        texts = (*namespace_texts(texts), *texts)
    if outcome.specs.cluster.binding == "gated":
        note = "pods are gated: none starts before `gangplan reconcile` gives it its node (or set binding: static)"
        click.echo(note, err=True)
    if folder is None:
        echo(stream_text(texts))
        ctx.exit(outcome.exit_code())
    made = texts_by_file(texts)
    former = _former_files(folder / LOCK_FILE, made)
    if foreign := _foreign_file(folder, made, former):
        raise click.ClickException(
            f"{foreign} is not gangplan's: no gangplan.lock lists it. Name another folder, or remove the file"
        )
    with reported():
        # The lock first: it lists all later files, also when writing is interrupted.
        write_files(folder, {LOCK_FILE: lock_text(outcome, made), **made}, former)
    click.echo(f"{len(texts)} objects in {len(made) + 1} files under {folder}", err=True)
    ctx.exit(outcome.exit_code())


def write_in_parallel(made: Sequence[ManifestSource]) -> dict[int, str]:
    """Return the texts of manifests by their number. A failed one is missing: writing it alone reports the cause."""
    from compiler.cli.forks import in_forks, process_count
    from compiler.emit.waves import manifest_text

    processes = process_count(len(made))

    def texts_of_share(number: int) -> dict[int, str]:
        found = dict[int, str]()
        for at in range(number, len(made), processes):
            with contextlib.suppress(Exception):
                found[at] = manifest_text(*made[at])
        return found

    own, others = in_forks(processes, texts_of_share, lambda: texts_of_share(0))
    return {at: text for texts in (own, *others) for at, text in texts.items()}


def write_files(folder: Path, files: dict[str, str], former: Iterable[str]) -> None:
    """Write each file; what the former lock lists and this compile does not make is removed, so that nothing stale is
    applied."""
    for name in former:
        if name not in files and (folder / name).is_file():
            (folder / name).unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def _former_files(lock: Path, made: Iterable[str]) -> list[str]:
    """Return the files that an earlier compile wrote next to this lock. For a lock without a list, only the files
    written again."""
    from compiler.emit.lock import LockError, listed_files, read_lock

    if not os.path.lexists(lock):
        return []
    try:
        found = listed_files(read_lock(lock.read_bytes()))
    except (LockError, OSError):
        raise click.ClickException(f"{lock} is not gangplan's. Name another folder, or remove the file") from None
    return list(made) if found is None else found


def _foreign_file(folder: Path, files: Iterable[str], former: Iterable[str]) -> Path | None:
    """Return a file of other origin where the output would be written."""
    ours = set(former)
    others = (folder / name for name in files if name not in ours)
    return next((file for file in others if os.path.lexists(file)), None)


def _source_within(folder: Path, repo: Path) -> Path | None:
    """Return the folder of sources that `folder` is in, is, or holds; None where the two are apart."""
    from compiler.repository.paths import ROOT_FOLDERS

    target = Path(os.path.realpath(folder))
    for name in ROOT_FOLDERS:
        source = Path(os.path.realpath(repo / name))
        if source.is_dir() and (target.is_relative_to(source) or target == source.parent):
            return repo / name
    return None
