"""`gangplan check` as a command: help, one file, 1,000 files cold, and with one of them changed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.registry import Figures, register_case
from bench.worlds import GeneratedRepository, generate_repository

FILES = 1_000
MAX_BYTES = 200 << 20
"""Memory that checking so many files may take."""


def _write(tree: GeneratedRepository, folder: Path) -> None:
    for name, content in tree.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _cpu(arguments: list[str], cache: Path) -> float:
    """CPU seconds of one command, which is given a cache folder of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", "from compiler.cli import cli; cli()", *arguments]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have their modules compiled
    subprocess.run(command, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_check() -> Figures:
    with tempfile.TemporaryDirectory() as name:
        large, small, cache = Path(name, "large"), Path(name, "small"), Path(name, "cache")
        _write(generate_repository(nodes=1_000, gangs=FILES, load=0.9), large)
        _write(generate_repository(nodes=8, gangs=1, load=0.5), small)
        check = ["check", "--repo", str(large)]
        phases = {
            "help": _cpu(["--help"], cache),
            "one file": _cpu(["check", "--repo", str(small)], cache),
            "cold": _cpu(check, cache),
        }
        changed = min((large / "jobs").rglob("*.yaml"))
        changed.write_bytes(changed.read_bytes() + b"# changed\n")
        phases["one changed"] = _cpu(check, cache)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    total = sum(phases.values())
    return Figures(total, total, peak, phases, claims={"at most 200 MB": peak <= MAX_BYTES})


register_case("check-1000", "the command `check`: CPU seconds", measure_check)
