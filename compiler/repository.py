"""The repository's files as bytes, wherever they come from: a folder here, git objects in the reconciler."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compiler.diagnostics import Diagnostic, Position, rule
from compiler.syntax.parse import LARGEST_FILE

CLUSTERS, JOBS = "cluster-specs", "jobs"
SUFFIXES = (".yaml", ".yml", ".json")

SYMLINK = rule(
    "GP119",
    "error",
    "symbolic link",
    "Symbolic links are not followed: they can lead out of the repository. Mend: put a copy of the file in its place.",
)
UNREADABLE = rule(
    "GP120",
    "error",
    "unreadable file",
    "The file or folder cannot be read. Mend: correct its permissions, or remove it.",
)
MISPLACED = rule(
    "GP121",
    "warning",
    "file outside a cluster's folder",
    "A cluster's files stand in cluster-specs/<cluster>/. Files directly in cluster-specs/ are not read. Mend: move it into one.",
)
BAD_FILE_NAME = rule(
    "GP122",
    "error",
    "file name is not plain text",
    "A file name with control characters or bytes that are not UTF-8 is not read. Mend: rename the file.",
)

SUBMODULE = rule(
    "GP130",
    "error",
    "submodule",
    "Submodules are not read: they are other repositories. Mend: put the files into this one.",
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Tree:
    """files: path with "/" inside the repository -> content; others than YAML and JSON under cluster-specs/<cluster>/
    and jobs/ do not matter.

    dates: path -> seconds since the epoch of the commit that brought the file; a path without one has no date.
    problems: what was found while the files were collected, e.g. a symbolic link.
    """

    files: Mapping[str, bytes]
    dates: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Tree:
        """The files below `path`. Follows no symbolic link, opens nothing but regular files, raises nothing: what
        cannot be read is a problem."""
        files: dict[str, bytes] = {}
        problems: list[Diagnostic] = []
        for top in (CLUSTERS, JOBS):
            for found in _walk(Path(path), top):
                if isinstance(found, Diagnostic):
                    problems.append(found)
                else:
                    files[found[0]] = found[1]
        return cls(files, {}, tuple(problems))

    def clusters(self) -> tuple[str, ...]:
        """The folders of cluster-specs/ that hold files, sorted."""
        return tuple(
            sorted(
                {
                    parts[1]
                    for name in self.files
                    if len(parts := name.split("/")) > 2 and parts[0] == CLUSTERS and name.endswith(SUFFIXES)
                }
            )
        )


def symlink(name: str) -> Diagnostic:
    """The problem of a symbolic link at `name`, for whoever collects files."""
    return SYMLINK.at(
        Position(shown(name), 1, 1), "symbolic links are not followed", "put a copy of the file in its place"
    )


def bad_name(name: str) -> Diagnostic | None:
    """The problem of a file name that cannot be shown or passed on, if it has one."""
    if _CONTROL.search(name):
        return BAD_FILE_NAME.at(Position(shown(name), 1, 1), "the file name is not plain UTF-8 text", "rename the file")
    return None


def shown(name: str) -> str:
    """`name` with everything escaped that a terminal or a report could stumble over."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()) & 0xFF:02x}", name)


def _walk(root: Path, name: str) -> Iterator[tuple[str, bytes] | Diagnostic]:
    """Files and problems below `name`, in order of their names."""
    try:
        mode = os.lstat(root / name).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as problem:
        yield _unreadable(name, problem)
        return
    wanted = name.endswith(SUFFIXES)
    if stat.S_ISLNK(mode):
        if wanted or "/" not in name or (root / name).is_dir():
            yield symlink(name)
    elif stat.S_ISDIR(mode):
        try:
            children = sorted(os.listdir(root / name))
        except OSError as problem:
            yield _unreadable(name, problem)
            return
        for child in children:
            if not child.startswith("."):
                yield from _walk(root, f"{name}/{child}")
    elif wanted:
        if (unspeakable := bad_name(name)) is not None:
            yield unspeakable
        elif stat.S_ISREG(mode):
            yield _content(root, name)
        else:
            yield UNREADABLE.at(Position(name, 1, 1), "not a regular file", "remove it")


def _content(root: Path, name: str) -> tuple[str, bytes] | Diagnostic:
    try:
        descriptor = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return name, file.read(LARGEST_FILE + 1)
    except OSError as problem:
        return _unreadable(name, problem)


def _unreadable(name: str, problem: Exception) -> Diagnostic:
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else type(problem).__name__
    return UNREADABLE.at(
        Position(shown(name), 1, 1), f"cannot be read: {reason}", "correct its permissions, or remove it"
    )
