"""`gangplan compile`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from compiler.cli import CompileInputs, compile_and_report, compile_options, echo


@click.command(name="compile")
@compile_options
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to. [default: stdout]",
)
@click.pass_context
def compile(  # noqa: A001 - the command's name
    ctx: click.Context, inputs: CompileInputs, folder: Path | None
) -> None:
    """Write the bound manifests in the order of their application, the scheduler ConfigMap and gangplan.lock."""
    from compiler.emit.lock import LOCK_FILE, lock_text
    from compiler.emit.texts import manifest_texts, stream_text, texts_by_file

    outcome = compile_and_report(ctx, inputs)
    if not outcome.ok:
        ctx.exit(outcome.exit_code())
    texts = manifest_texts(outcome)
    if folder is None:
        echo(stream_text(texts))
        ctx.exit(outcome.exit_code())
    files = {LOCK_FILE: lock_text(outcome), **texts_by_file(texts)}  # the lock first: it marks the folder as ours
    if foreign := _foreign_file(folder, files):
        raise click.ClickException(
            f"{foreign} is not gangplan's: it made nothing in this folder yet. Name another folder, or remove the file"
        )
    try:
        write_files(folder, files)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    click.echo(f"{len(texts)} objects in {len(files)} files under {folder}", err=True)
    ctx.exit(outcome.exit_code())


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write each file; what an earlier compile left in the folder and this one does not make is removed, so that
    nothing stale is applied."""
    for path in _generated_files(folder):
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def _foreign_file(folder: Path, files: Iterable[str]) -> Path | None:
    """A file that somebody else put where we would write now, or remove the next time."""
    from compiler.emit.lock import LOCK_FILE

    if (folder / LOCK_FILE).is_file():
        return None
    return next(
        (path for path in (*(folder / name for name in files), *_files_with_our_names(folder)) if path.exists()), None
    )


def _generated_files(folder: Path) -> list[Path]:
    """Only where a lock shows that the folder is an output of ours, and only names that we make."""
    from compiler.emit.lock import LOCK_FILE

    return _files_with_our_names(folder) if (folder / LOCK_FILE).is_file() else []


def _files_with_our_names(folder: Path) -> list[Path]:
    from compiler.emit.texts import WAVE_NAMES

    tops = [folder / f"{wave}-{name}.yaml" for wave, name in enumerate(WAVE_NAMES)]
    jobs = folder / f"{len(WAVE_NAMES) - 1}-{WAVE_NAMES[-1]}"
    return [path for path in (*tops, *sorted(jobs.glob("*/*.yaml"))) if path.is_file()]
