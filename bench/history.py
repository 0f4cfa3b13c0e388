"""The stored runs of the benchmarks, each with its machine and commit, and the page of figures made from them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.table import Results, result_tables

FILE = Path(__file__).with_name("history.jsonl")
"""A run a line, the newest last."""
SHOWN_RUNS = 5
TIMES = "Seconds and memory"


def run_entry(results: Results) -> dict[str, Any]:
    """Return the run as it is stored."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    tables = [{"title": title, "heads": heads, "rows": rows} for title, heads, rows in result_tables(results)]
    return {
        "commit": commit.strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpu": _cpu_name(), "cores": os.cpu_count(), "python": platform.python_version()},
        "tables": tables,
    }


def append_run(results: Results, file: Path = FILE) -> None:
    with file.open("a", encoding="utf-8") as stored:
        stored.write(json.dumps(run_entry(results)) + "\n")


def read_runs(file: Path = FILE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def history_page(runs: list[dict[str, Any]]) -> str:
    """Return the page: the tables of the newest run, and the seconds of each case in the last ones."""
    newest, last = runs[-1], runs[-SHOWN_RUNS:]
    about = "Made from `bench/history.jsonl`, to which `python -m bench --record` adds a run."
    rows = ["# Performance\n", f"{about} What is measured: [benchmarks](../develop/benchmarks.md).\n"]
    rows.append(f"The newest run: {_run_text(newest)}.\n")
    rows += [f"## {one['title']}\n\n{_markdown(one['heads'], one['rows'])}" for one in newest["tables"]]
    if len(last) > 1:
        heads = ["case", *(run["commit"] for run in last)]
        seconds = [_seconds(run) for run in last]
        trend = [[name, *(found.get(name, "") for found in seconds)] for name in seconds[-1]]
        rows.append(f"## Seconds by run\n\n{_markdown(heads, trend)}")
        rows.append("\n".join(f"* {_run_text(run)}" for run in last) + "\n")
    return "\n".join(rows)


def _seconds(run: dict[str, Any]) -> dict[str, str]:
    """Return name -> seconds of each case."""
    return {row[1]: row[2] for table in run["tables"] if table["title"] == TIMES for row in table["rows"]}


def _run_text(run: dict[str, Any]) -> str:
    machine = run["machine"]
    place = f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}"
    return f"{run['date']}, commit {run['commit']}, {place}"


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *rows)) + "\n"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
