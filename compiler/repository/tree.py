"""A repository's files as bytes, collected from a folder here or from git objects in the reconciler."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule
from compiler.repository.kustomize import BUILD_FAILED, NOT_BUILT, with_built_kustomizations
from compiler.repository.paths import (
    CLUSTERS_FOLDER,
    IGNORE_FILE,
    JOBS_FOLDER,
    KUSTOMIZATION_NAMES,
    ROOT_FILES,
    ROOT_FOLDERS,
    PathRules,
    file_name_diagnostic,
    is_manifest,
    is_read,
    is_suspicious_link,
    printable_name,
    submodule_diagnostic,
    symlink_diagnostic,
)

MAX_FILE_BYTES = 1 << 20
"""A larger object cannot be stored in a cluster anyway (etcd's limit is 1.5 MiB)."""

UNREADABLE_FILE = declare_rule("GP120", "error")


@dataclass(frozen=True, slots=True)
class Repository:
    """The files of one revision, and problems of collecting them.

    files: path with "/" inside the repository -> content; read are YAML and JSON under cluster-specs/<cluster>/ and
    jobs/, and `paths.ROOT_FILES`. commit_dates: path -> seconds since the epoch of the commit that added the file,
    where known. problems: findings of the collection, e.g. a symbolic link. named: files elsewhere that the user named,
    which are read like jobs.
    """

    files: Mapping[str, bytes]
    commit_dates: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()
    named: tuple[str, ...] = ()

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Repository:
        """Return the files below `path`. Follows no symbolic link, opens only regular files, and raises nothing:
        unreadable files become problems."""
        root = Path(path)
        top_files, problems = _files_and_problems(one for name in ROOT_FILES for one in _root_file(root, name))
        rules = PathRules(top_files.get(IGNORE_FILE, b""))
        files, refused = _files_and_problems(one for top in ROOT_FOLDERS for one in _files_below(root, top, rules))
        return cls.of_files({**top_files, **files}, (*problems, *rules.problems, *refused))

    @classmethod
    def of_files(
        cls,
        files: Mapping[str, bytes],
        problems: tuple[Diagnostic, ...] = (),
        commit_dates: Mapping[str, int] | None = None,
    ) -> Repository:
        """Return the files as they were collected, kustomizations built."""
        built, refused = with_built_kustomizations(files)
        return cls(built, commit_dates or {}, (*problems, *refused))

    def with_named_files(self, files: Mapping[str, bytes]) -> Repository:
        """Return the repository with files elsewhere that the user named."""
        return replace(self, files={**self.files, **files}, named=(*self.named, *files))

    def with_files(self, files: Mapping[str, bytes]) -> Repository:
        """Return the repository with other content of some of its files."""
        return replace(self, files={**self.files, **files})

    def manifests(self) -> tuple[str, ...]:
        """Return the files with objects, sorted."""
        tops = tuple(f"{top}/" for top in ROOT_FOLDERS)
        found = set(filter(is_manifest, (name for name in self.files if name.startswith(tops))))
        return tuple(sorted(found | self.files.keys() & {*self.named}))

    def cluster_folders(self) -> tuple[str, ...]:
        """Return the folders of cluster-specs/ that hold files, or a kustomization that could not be built, sorted."""
        folders = set()
        unbuilt = {found.position.file for found in self.problems if found.code in (NOT_BUILT.code, BUILD_FAILED.code)}
        for name in self.files.keys() | unbuilt:
            top, _, rest = name.partition("/")
            if top == CLUSTERS_FOLDER and "/" in rest and (is_manifest(name) or name in unbuilt):
                folders.add(rest.partition("/")[0])
        return tuple(sorted(folders))


def read_named(root: Path, path: Path) -> dict[str, bytes]:
    """Return the files at or below `path`, by their names from `root`, without unreadable ones and those that
    .gangplanignore or their own names leave out."""
    top_files, _ = _files_and_problems(_root_file(root, IGNORE_FILE))
    rules = PathRules(top_files.get(IGNORE_FILE, b""))
    return _files_and_problems(_files_below(root, path.relative_to(root).as_posix(), rules))[0]


def read_rendered(folder: Path, repository: Path) -> Repository:
    """Return the files of a folder of rendered manifests: a repository of its own where it holds cluster-specs/ or
    jobs/, else jobs for the clusters of `repository`. Files without an ending count, as renderers write them."""
    if any((folder / top).is_dir() for top in ROOT_FOLDERS):
        return Repository.from_directory(folder)
    around = Repository.from_directory(repository)
    kept = {name: text for name, text in around.files.items() if not name.startswith(f"{JOBS_FOLDER}/")}
    rules = PathRules()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    bare = [name for name in names if "." not in name.rpartition("/")[2]]
    listed = [_read_file(folder, name) for name in bare]
    files, problems = _files_and_problems([*_files_below(folder, ".", rules), *listed])
    return replace(around, files=kept, problems=(*around.problems, *problems)).with_named_files(files)


def find_root(start: Path) -> Path | None:
    """The nearest folder, `start` or one above it up to the top of its git repository, that holds cluster-specs/; else
    the nearest that holds jobs/."""
    above = folders_to_git_root(start)
    for name in (CLUSTERS_FOLDER, JOBS_FOLDER):
        for folder in above:
            if (folder / name).is_dir():
                return folder
    return None


def folders_to_git_root(start: Path) -> list[Path]:
    """`start` and the folders above it, up to the one that holds .git, if any does."""
    above = []
    for folder in (start, *start.parents):
        above.append(folder)
        if (folder / ".git").exists():
            break
    return above


def _files_and_problems(found: Iterable[tuple[str, bytes] | Diagnostic]) -> tuple[dict[str, bytes], list[Diagnostic]]:
    files, problems = dict[str, bytes](), list[Diagnostic]()
    for one in found:
        if isinstance(one, Diagnostic):
            problems.append(one)
        else:
            files[one[0]] = one[1]
    return files, problems


def _root_file(root: Path, name: str) -> Iterator[tuple[str, bytes] | Diagnostic]:
    if (root / name).is_symlink():
        yield symlink_diagnostic(name)
    elif (root / name).is_file():
        yield _read_file(root, name)


def _files_below(
    root: Path, name: str, rules: PathRules, is_built: bool = False
) -> Iterator[tuple[str, bytes] | Diagnostic]:
    """Files and problems below `name`, sorted by name. is_built: a kustomization's, which may use files of any kind."""
    try:
        mode = os.lstat(os.path.join(root, name)).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as problem:
        yield _unreadable_diagnostic(name, problem)
        return
    if rules.is_ignored(name, is_folder=stat.S_ISDIR(mode)):
        return
    if stat.S_ISLNK(mode):
        if is_suspicious_link(name):
            yield symlink_diagnostic(name)
    elif stat.S_ISDIR(mode):
        yield from _files_in_folder(root, name, rules, is_built)
    elif is_read(name, is_built and stat.S_ISREG(mode)):
        if (bad_name := file_name_diagnostic(name)) is not None:
            yield bad_name
        elif stat.S_ISREG(mode):
            yield _read_file(root, name)
        else:
            yield UNREADABLE_FILE.diagnostic(Position(name, 1, 1), "not a regular file", "remove it")


def _files_in_folder(
    root: Path, name: str, rules: PathRules, is_built: bool
) -> Iterator[tuple[str, bytes] | Diagnostic]:
    try:
        children = sorted(os.listdir(os.path.join(root, name)))
    except OSError as problem:
        yield _unreadable_diagnostic(name, problem)
        return
    if ".git" in children and name != ".":
        yield submodule_diagnostic(name)
        return
    is_built = is_built or not set(KUSTOMIZATION_NAMES).isdisjoint(children)
    for child in children:
        yield from _files_below(root, f"{name}/{child}" if name != "." else child, rules, is_built)


def _read_file(root: Path, name: str) -> tuple[str, bytes] | Diagnostic:
    try:
        descriptor = os.open(os.path.join(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            likely = (
                min(os.fstat(descriptor).st_size, MAX_FILE_BYTES) + 1
            )  # room for the largest takes longer than that
            content = file.read(likely)
            if len(content) == likely:  # some file systems know no size
                content += file.read(MAX_FILE_BYTES + 1 - likely)
            return name, content
    except OSError as problem:
        return _unreadable_diagnostic(name, problem)


def _unreadable_diagnostic(name: str, problem: Exception) -> Diagnostic:
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else type(problem).__name__
    return UNREADABLE_FILE.diagnostic(
        Position(printable_name(name), 1, 1), f"cannot be read: {reason}", "correct its permissions, or remove it"
    )
