"""A repository's files as bytes, collected from a folder here or from git objects in the reconciler."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compiler.diagnostics import Diagnostic, Position, declare_rule

CLUSTERS_FOLDER, JOBS_FOLDER = "cluster-specs", "jobs"
CONF_SUFFIX = ".conf"
"""Of a bare volcano-scheduler.conf; other files of that name are not read."""
FILE_SUFFIXES = (".yaml", ".yml", ".json", CONF_SUFFIX)
MAX_FILE_BYTES = 1 << 20
"""A larger object cannot be stored in a cluster anyway (etcd's limit is 1.5 MiB)."""

SYMBOLIC_LINK = declare_rule(
    "GP119",
    "error",
    "symbolic link",
    "Symbolic links are not followed: they can lead out of the repository. Mend: put a copy of the file in its place.",
)
UNREADABLE_FILE = declare_rule(
    "GP120",
    "error",
    "unreadable file",
    "The file or folder cannot be read. Mend: correct its permissions, or remove it.",
)
MISPLACED_FILE = declare_rule(
    "GP121",
    "warning",
    "file outside a cluster's folder",
    """A cluster's files stand in cluster-specs/<cluster>/. Files directly in cluster-specs/ are not read. Mend:
    move it into one.""",
)
BAD_FILE_NAME = declare_rule(
    "GP122",
    "error",
    "file name is not plain text",
    "A file name with control characters or bytes that are not UTF-8 is not read. Mend: rename the file.",
)

SUBMODULE = declare_rule(
    "GP130",
    "error",
    "submodule",
    "Submodules are not read: they are other repositories. Mend: put the files into this one.",
)

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Repository:
    """The files of one revision, and what was wrong with collecting them.

    files: path with "/" inside the repository -> content; only YAML and JSON under cluster-specs/<cluster>/ and jobs/
    are read. commit_dates: path -> seconds since the epoch of the commit that added the file, where known. problems:
    findings of the collection, e.g. a symbolic link.
    """

    files: Mapping[str, bytes]
    commit_dates: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Repository:
        """The files below `path`. Follows no symbolic link, opens only regular files, and raises nothing: unreadable
        files become problems."""
        files: dict[str, bytes] = {}
        problems: list[Diagnostic] = []
        for top in (CLUSTERS_FOLDER, JOBS_FOLDER):
            for found in _files_below(Path(path), top):
                if isinstance(found, Diagnostic):
                    problems.append(found)
                else:
                    files[found[0]] = found[1]
        return cls(files, {}, tuple(problems))

    def cluster_folders(self) -> tuple[str, ...]:
        """The folders of cluster-specs/ that hold files, sorted."""
        folders = set()
        for name in self.files:
            top, _, rest = name.partition("/")
            if top == CLUSTERS_FOLDER and "/" in rest and name.endswith(FILE_SUFFIXES):
                folders.add(rest.partition("/")[0])
        return tuple(sorted(folders))


def symlink_diagnostic(name: str) -> Diagnostic:
    """The finding on a symbolic link at `name`."""
    return SYMBOLIC_LINK.diagnostic(
        Position(printable_name(name), 1, 1), "symbolic links are not followed", "put a copy of the file in its place"
    )


def file_name_diagnostic(name: str) -> Diagnostic | None:
    """The finding on a file name with control characters or invalid UTF-8, else None."""
    if _CONTROL_CHARACTERS.search(name):
        return BAD_FILE_NAME.diagnostic(
            Position(printable_name(name), 1, 1), "the file name is not plain UTF-8 text", "rename the file"
        )
    return None


def printable_name(name: str) -> str:
    """`name` with control characters and invalid bytes escaped."""
    return _CONTROL_CHARACTERS.sub(lambda found: f"\\x{ord(found.group()) & 0xFF:02x}", name)


def _files_below(root: Path, name: str) -> Iterator[tuple[str, bytes] | Diagnostic]:
    """Files and problems below `name`, sorted by name."""
    try:
        mode = os.lstat(root / name).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as problem:
        yield _unreadable_diagnostic(name, problem)
        return
    is_read = name.endswith(FILE_SUFFIXES)
    if stat.S_ISLNK(mode):
        if is_read or "/" not in name or (root / name).is_dir():
            yield symlink_diagnostic(name)
    elif stat.S_ISDIR(mode):
        try:
            children = sorted(os.listdir(root / name))
        except OSError as problem:
            yield _unreadable_diagnostic(name, problem)
            return
        for child in children:
            if not child.startswith("."):
                yield from _files_below(root, f"{name}/{child}")
    elif is_read:
        if (bad_name := file_name_diagnostic(name)) is not None:
            yield bad_name
        elif stat.S_ISREG(mode):
            yield _read_file(root, name)
        else:
            yield UNREADABLE_FILE.diagnostic(Position(name, 1, 1), "not a regular file", "remove it")


def _read_file(root: Path, name: str) -> tuple[str, bytes] | Diagnostic:
    try:
        descriptor = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return name, file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        return _unreadable_diagnostic(name, problem)


def _unreadable_diagnostic(name: str, problem: Exception) -> Diagnostic:
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else type(problem).__name__
    return UNREADABLE_FILE.diagnostic(
        Position(printable_name(name), 1, 1), f"cannot be read: {reason}", "correct its permissions, or remove it"
    )
