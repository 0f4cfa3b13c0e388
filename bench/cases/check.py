"""The commands that a pull request waits for: `--help`, `check` of 1,000 files (cold, one changed, one file alone), and
`diff` of two revisions and `plan`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.registry import Comparison, Figures, register_case
from bench.textures import generate_odd_nodes
from bench.worlds import generate_repository

FILES = 1_000
FILE_BYTES = 4 << 10
MAX_BYTES = 200 << 20
"""Memory that checking so many files may take."""
BARS = {"help": 0.2, "one file": 0.5, "cold": 2.0, "one changed": 0.6}
"""Command -> most wall seconds."""
ODD_NODES = {2_500: 2.0, 10_000: 6.0}
"""Nodes that all differ -> most wall seconds of `check`."""
COMPARED_JOBS, MAX_RATIO = 200, 2.0
"""Jobs of the compared revisions, and how many times `plan` their comparison may take."""


def _pad(job: bytes) -> bytes:
    """Return the job with as many environment variables as make it about `FILE_BYTES` long; people's files have
    them."""
    variable = "          - {{name: SETTING_{0:03}, value: value-of-setting-{0:03}}}\n"
    count = (FILE_BYTES - len(job)) // len(variable.format(0))
    variables = "".join(variable.format(number) for number in range(count))
    image, line, rest = job.partition(b"          command:")
    return image + b"          env:\n" + variables.encode() + line + rest


def _write(folder: Path, nodes: int, gangs: int, load: float) -> Path:
    files = generate_repository(nodes=nodes, gangs=gangs, load=load).files
    return _write_files(folder, {name: _pad(c) if name.startswith("jobs/") else c for name, c in files.items()})


def _write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _measure(arguments: list[str], cache: Path, folder: Path | None = None) -> tuple[float, float]:
    """Wall and CPU seconds of one command, which is given a cache folder of its own."""
    command = [sys.executable, "-c", "from reconciler.cli import main; main()", *arguments]
    path = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": path}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have their modules compiled
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        raise RuntimeError(f"{arguments[0]} ended with {result.returncode}: {result.stderr or result.stdout}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rows(found: dict[str, tuple[float, float]]) -> tuple[tuple[str, ...], ...]:
    return tuple((name, f"{seconds:.2f}", f"{cpu:.2f}") for name, (seconds, cpu) in found.items())


def measure_check() -> Figures:
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name, "cache")
        large = _write(Path(name, "large"), nodes=1_000, gangs=FILES, load=0.9)
        small = _write(Path(name, "small"), nodes=8, gangs=1, load=0.5)
        check = ["check", "--repo", str(large)]
        found = {
            "help": _measure(["--help"], cache),
            "one file": _measure(["check", "--repo", str(small)], cache),
            "cold": _measure(check, cache),
        }
        changed = min((large / "jobs").rglob("*.yaml"))
        changed.write_bytes(changed.read_bytes() + b"# changed\n")
        found["one changed"] = _measure(check, cache)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    claims = {f"{name} within {bar} s": found[name][0] <= bar for name, bar in BARS.items()}
    claims["at most 200 MB"] = peak <= MAX_BYTES
    table = Comparison(f"check of {FILES:,} files of 4 KB", ("command", "seconds", "cpu s"), _rows(found))
    return Figures(*found["cold"], peak, claims=claims, comparison=table)


def measure_diff() -> Figures:
    """`diff` of two commits, the second asks for less CPU in one job, next to `plan` of the second."""
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name, "cache")
        folder = _write(Path(name, "repository"), nodes=1_000, gangs=COMPARED_JOBS, load=0.9)
        git = ["git", "-C", str(folder), "-c", "user.name=bench", "-c", "user.email=bench@example.com"]
        subprocess.run([*git, "init", "-q"], check=True)
        changed = min((folder / "jobs").rglob("*.yaml"))
        for cpu in (b'cpu: "12"', b'cpu: "11"'):
            changed.write_bytes(changed.read_bytes().replace(b'cpu: "12"', cpu))
            subprocess.run([*git, "add", "."], check=True)
            subprocess.run([*git, "commit", "-qm", "bench"], check=True)
        found = {"plan": _measure(["plan"], cache, folder), "diff": _measure(["diff", "HEAD~1", "HEAD"], cache, folder)}
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    claims = {f"diff within {MAX_RATIO:g} times plan": found["diff"][0] <= MAX_RATIO * found["plan"][0]}
    table = Comparison(f"diff of two revisions of {COMPARED_JOBS} jobs", ("command", "seconds", "cpu s"), _rows(found))
    return Figures(*found["diff"], peak, claims=claims, comparison=table)


def measure_odd_nodes(nodes: int) -> Figures:
    with tempfile.TemporaryDirectory() as name:
        folder = _write_files(Path(name, "odd"), generate_odd_nodes(nodes).files)
        seconds, cpu = _measure(["check", "--repo", str(folder)], Path(name, "cache"))
    return Figures(seconds, cpu, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)


for nodes, bar in ODD_NODES.items():
    title = f"the command `check`, {nodes:,} nodes that all differ"
    register_case(f"check-odd-{nodes}", title, partial(measure_odd_nodes, nodes), seconds=bar)
register_case("check-1000", f"the command `check`, {FILES:,} files of 4 KB, cold", measure_check, seconds=BARS["cold"])
register_case("diff-200", f"the command `diff`, two revisions of {COMPARED_JOBS} jobs", measure_diff)
