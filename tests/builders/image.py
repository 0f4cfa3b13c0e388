"""An image without a container engine: the instructions of a Dockerfile, carried out in root folders of their own.

What the base image and Debian's packages hold is the machine's own, mounted read-only; the rest is a folder. Python
packages come from a folder of wheels, loaded once on a machine. Needs root and mount namespaces
(`tests.builders.mounts`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.controlplane.build import cache_root, create_atomically

LINKS = ("bin", "lib", "lib64", "sbin")
MOUNTED = tuple(path for path in dict.fromkeys(("/usr", "/opt", sys.base_prefix)) if Path(path).is_dir())
WHEELS = "/wheels"
PROGRAMS = "/programs"
"""Where `python` is: Debian's own Python has only the name python3."""
POINTS = (*MOUNTED, WHEELS, PROGRAMS, "/dev", "/proc", "/tmp")


def pinned_wheels(root: Path) -> Path:
    """The folder of the wheels that an installation of this checkout needs, in the versions of its constraints.txt."""
    constraints, text = root / "constraints.txt", (root / "pyproject.toml").read_text()
    told = tomllib.loads(text)
    project = told["project"]
    wanted = [*told["build-system"]["requires"], *project["dependencies"], *project["optional-dependencies"]["traces"]]
    digest = hashlib.sha256(repr((sys.version, wanted, constraints.read_text())).encode()).hexdigest()
    folder = cache_root().with_name("wheels") / digest[:16]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        create_atomically(folder, partial(_load_wheels, wanted, constraints))
    return folder


def _load_wheels(wanted: Sequence[str], constraints: Path, folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "-c", constraints, "-d", folder, *wanted], check=True)


def instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Each instruction, and what follows it."""
    lines = (line for line in dockerfile.splitlines() if not line.startswith("#"))
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


class Image:
    """The last stage of a Dockerfile. context: the folder that its COPY means. base: the value of its ARG BASE."""

    def __init__(self, folder: Path, context: Path, base: str) -> None:
        self._folder, self._context = folder, context
        self._root, self._stages = folder, dict[str, Path]()
        self._place = "/"
        self.environment = {"BASE": base}
        self.user, self.entrypoint = "0:0", list[str]()
        self._wheels = pinned_wheels(context)

    def build(self, dockerfile: str) -> None:
        for name, rest in instructions(dockerfile):
            if name == "FROM":
                self._begin_stage(rest.partition(" AS ")[2])
            elif name == "WORKDIR":
                self._place = rest
                self._inside(rest).mkdir(parents=True)
            elif name == "COPY":
                self._copy(rest.split())
            elif name == "RUN":
                self._carry_out(rest)
            elif name == "ENV":
                self._set(shlex.split(rest))
            elif name == "USER":
                self.user = rest
            elif name == "ENTRYPOINT":
                self.entrypoint = json.loads(rest)
            elif name != "ARG":
                raise ValueError(f"not known here: {name}")

    def run(
        self, arguments: Sequence[str], volumes: Sequence[str] = (), folders: Mapping[str, Path] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the image's user, with no capability, on a root that is read-only. volumes: folders
        that may be written. folders: where others are mounted, read-only."""
        mounts = [f"mount -t tmpfs -o mode=1777 none {self._inside(each)}" for each in volumes]
        mounts += [_bind(str(source), self._inside(place)) for place, source in (folders or {}).items()]
        for place in (*volumes, *(folders or {})):
            self._inside(place).mkdir(parents=True, exist_ok=True)
        user, _, group = self.user.partition(":")
        confined = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
        command = ["setpriv", f"--reuid={user}", f"--regid={group}", *confined, *arguments]
        home = {"HOME": "/nonexistent"}  # as a runtime sets it, from /etc/passwd
        return self._start(command, {**self.environment, **home}, mounts, is_read_only=True)

    def _inside(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _begin_stage(self, name: str) -> None:
        self._root, self._place = self._folder / (name or "last"), "/"
        self._stages[name] = self._root
        for point in POINTS:
            self._inside(point).mkdir(parents=True)
        self._inside("/tmp").chmod(0o1777)
        shutil.copytree("/etc", self._inside("/etc"), symlinks=True)
        for link in LINKS:
            if (there := Path("/", link)).is_symlink():
                self._inside(link).symlink_to(there.readlink())
        python = self._inside(PROGRAMS) / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3 "$@"\n')
        python.chmod(0o755)
        programs = [PROGRAMS, "/usr/local/bin", "/usr/bin", "/usr/sbin"]
        self.environment = {"BASE": self.environment["BASE"], "PATH": ":".join(programs)}

    def _copy(self, words: list[str]) -> None:
        if words[0].startswith("--from="):
            made = self._stages[words[0].removeprefix("--from=")] / words[1].lstrip("/")
            shutil.move(made, self._inside(words[2]))
            return
        *sources, target = words
        for source in sources:
            copy = self._inside(self._place) / target
            if (found := self._context / source).is_dir():
                shutil.copytree(found, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(found, copy)

    def _carry_out(self, command: str) -> None:
        """Debian's packages are the machine's."""
        if command.startswith("apt-get "):
            return
        outside = {name: value for name, value in os.environ.items() if re.match(r"PIP_|.*CERT|.*PROXY", name, re.I)}
        outside["PIP_COMPILE"] = "0"  # most of the time, and the commands that tests run are few
        outside |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS}
        mounts = [_bind(str(self._wheels), self._inside(WHEELS))]
        done = self._start(["sh", "-c", f"cd {self._place} && {command}"], {**outside, **self.environment}, mounts)
        if done.returncode:
            raise RuntimeError(f"RUN {command}: {done.stdout}{done.stderr}")

    def _set(self, words: list[str]) -> None:
        for word in words:
            name, _, value = word.partition("=")
            self.environment[name] = value.replace("$PATH", self.environment["PATH"])

    def _start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        mounts: Sequence[str] = (),
        is_read_only: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run in the root folder. Its mounts are those of this command alone."""
        script = [
            *([_bind(str(self._root), self._root)] if is_read_only else []),
            *(_bind(path, self._inside(path)) for path in MOUNTED),
            *(f"mount --rbind {path} {self._inside(path)}" for path in ("/dev", "/proc")),
            *mounts,
            f'exec chroot {self._root} "$@"',
        ]
        return subprocess.run(
            ["unshare", "--mount", "sh", "-ec", "\n".join(script), "sh", *command],
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )


def _bind(source: str, place: Path) -> str:
    return f"mount --bind {source} {place} && mount -o remount,ro,bind {place}"
