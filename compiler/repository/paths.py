"""Which paths of a repository are read: one rule for a folder's files and for a commit's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

CLUSTERS_FOLDER, JOBS_FOLDER = "cluster-specs", "jobs"
ROOT_FOLDERS = (CLUSTERS_FOLDER, JOBS_FOLDER)
"""The folders of a repository that gangplan reads."""
IGNORE_FILE, CONFIGURATION_FILE = ".gangplanignore", "gangplan.toml"
ROOT_FILES = (IGNORE_FILE, CONFIGURATION_FILE)
"""The files that it reads in addition to those folders."""
KUSTOMIZATION_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
CONF_SUFFIX = ".conf"
"""The suffix of a bare volcano-scheduler.conf; other files of that name are ignored."""
_SUFFIXES = (".yaml", ".yml", ".json", CONF_SUFFIX)

SYMBOLIC_LINK = declare_rule("GP119", "error")
MISPLACED_FILE = declare_rule("GP121", "warning")
BAD_FILE_NAME = declare_rule("GP122", "error")
SUBMODULE = declare_rule("GP130", "error")
BAD_IGNORE_RULE = declare_rule("GP131", "warning")

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def is_manifest(path: str) -> bool:
    """Return whether the path's name is that of a file with objects."""
    name = path.rpartition("/")[2]
    return name.lower().endswith(_SUFFIXES) or name in KUSTOMIZATION_NAMES


def is_suspicious_link(path: str) -> bool:
    """Return whether a symbolic link of that name represents a file that would be read, or perhaps a folder."""
    return is_manifest(path) or "." not in path.rpartition("/")[2]


class PathRules:
    """The files that .gangplanignore (gitignore's syntax, at the top of the repository) leaves out, and names that
    begin with a dot. problems: its invalid lines."""

    def __init__(self, ignore_text: bytes = b"") -> None:
        self.problems: tuple[Diagnostic, ...] = ()
        self._patterns = None
        if ignore_text.strip():
            lines = ignore_text.decode("utf-8", "replace").splitlines()
            self.problems = tuple(_bad_patterns(lines, IGNORE_FILE))
            bad = {problem.position.line for problem in self.problems}
            self._patterns = path_patterns([line for number, line in enumerate(lines, 1) if number not in bad])

    def is_ignored(self, path: str, *, is_folder: bool = False) -> bool:
        """Return whether the path, or a folder above it, is left out."""
        steps = path.split("/")
        if any(step.startswith(".") and step != "." for step in steps):
            return True
        if self._patterns is None:
            return False
        folders = ["/".join(steps[:end]) + "/" for end in range(1, len(steps) + is_folder)]
        return any(self._patterns.match_file(each) for each in (*folders, *(() if is_folder else (path,))))


def path_patterns(lines: Sequence[str]) -> GitIgnoreSpec:
    """Return patterns in gitignore's syntax, for `match_file`. Raises ValueError for an invalid one."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _bad_patterns(lines: list[str], file: str) -> Iterator[Diagnostic]:
    for number, line in enumerate(lines, start=1):
        try:
            path_patterns([line])
        except ValueError:
            message = f"{printable_name(line)!r} is not a pattern in gitignore's syntax"
            yield BAD_IGNORE_RULE.diagnostic(Position(file, number, 1), message, "correct or remove it")


def symlink_diagnostic(name: str) -> Diagnostic:
    """Return the finding on a symbolic link at `name`."""
    return SYMBOLIC_LINK.diagnostic(
        Position(printable_name(name), 1, 1), "symbolic links are not followed", "put a copy of the file in its place"
    )


def submodule_diagnostic(name: str) -> Diagnostic:
    """Return the finding on a submodule at `name`."""
    return SUBMODULE.diagnostic(
        Position(printable_name(name), 1, 1), "submodules are not read", "put the files into this repository"
    )


def is_read(path: str, is_built: bool) -> bool:
    """Return whether a file is read: a manifest, or any file with a name for us below a kustomization."""
    return is_manifest(path) or (is_built and file_name_diagnostic(path) is None)


def file_name_diagnostic(name: str) -> Diagnostic | None:
    """Return the finding on a file name with control characters or invalid UTF-8, else None."""
    if _CONTROL_CHARACTERS.search(name):
        return BAD_FILE_NAME.diagnostic(
            Position(printable_name(name), 1, 1), "the file name is not plain UTF-8 text", "rename the file"
        )
    return None


def printable_name(name: str) -> str:
    """`name` with control characters and invalid bytes escaped."""
    return _CONTROL_CHARACTERS.sub(lambda found: f"\\x{ord(found.group()) & 0xFF:02x}", name)
