"""Programs that are each built inside a copy of their own module: each wants other versions of Kubernetes' packages.

Its go.sum pins what it is built from. `go install MODULE@VERSION` would ask for the list of the module's versions,
which proxies do not serve for every module.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.build import (
    BuildError,
    Go,
    cache_root,
    copy_files,
    copy_module,
    create_atomically,
    locked,
    print_progress,
)
from tests.controlplane.recipe import Module


@dataclass(frozen=True, slots=True)
class Replacement:
    """A change of one line of a module's source."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Source:
    """What a program is built from.

    files: (folder of the result, pattern of files of the module to lay there). beside: a module in one workspace with
    it, whose newer versions of Kubernetes' packages it then shares, so that they are compiled once for both.
    """

    module: Module
    package: str
    files: tuple[tuple[str, str], ...]
    replacements: tuple[Replacement, ...] = ()
    beside: Module | None = None


def build_from_module(name: str, source: Source) -> Path:
    """The folder with `program` and the files, in the user's cache; built first where it is missing."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {source!r}".encode()).hexdigest()[:16]
    target = cache_root() / "operators" / f"{name}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / "lock"):
        if not target.exists():
            begin = time.monotonic()
            create_atomically(target, lambda aside: _build(aside, source))
            print_progress(f"  built {name} in {time.monotonic() - begin:.0f} s")
    return target


def _build(target: Path, source: Source) -> None:
    target.mkdir()
    go = Go()
    module = go.download_module(source.module, target)
    for folder, pattern in source.files:
        copy_files(module, pattern, target / folder)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        copy = Path(place) / "source"
        copy_module(module, copy)
        for each in source.replacements:
            _replace(copy / each.file, each)
        environment = {}
        if source.beside:
            copy_module(go.download_module(source.beside, target), Path(place) / "beside")
            workspace = Path(place) / "go.work"
            workspace.write_text("go 1.26\nuse ./source\nuse ./beside\n")
            environment["GOWORK"] = str(workspace)
        command = ("build", "-ldflags", "-s -w", "-o", str(target / "program"), source.package)
        go.run(*command, folder=copy, environment=environment)


def _replace(file: Path, replacement: Replacement) -> None:
    text = file.read_text()
    if text.count(replacement.old) != 1:
        raise BuildError(f"{file} does not hold {replacement.old!r} once")
    file.write_text(text.replace(replacement.old, replacement.new))
