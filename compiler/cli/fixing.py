"""`gangplan check --fix` and `--diff`: certain fixes, repeated until none remains."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compiler.cli.reading_cache import replace_file

if TYPE_CHECKING:
    from compiler.diagnostics.diagnostic import Diagnostic
    from compiler.repository.tree import Repository

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
