"""`python -m bench.child CASE`: run one case in a process of its own, whose memory nobody else has touched, and print
its figures as JSON."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from bench.registry import Figures, MissingInputError, figures_from_json, load_cases

ROOT = Path(__file__).resolve().parents[1]
TIME_LIMIT = 900.0
"""Seconds after which a case counts as failed."""


ABSENT_EXIT_CODE = 3
"""Exit code of a child that lacks something its case needs."""


def run_in_child(name: str) -> Figures | str:
    """Return the figures of a case, or in a few words why there are none. Raises AbsentError, with the reason, for a
    case that cannot be run here."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.child", name], cwd=ROOT, capture_output=True, text=True, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"no end after {TIME_LIMIT:.0f} s"
    if done.returncode == ABSENT_EXIT_CODE:
        raise MissingInputError(done.stderr.strip())
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return figures_from_json(json.loads(done.stdout))


if __name__ == "__main__":
    try:
        measured = load_cases()[sys.argv[1]].run()
    except MissingInputError as absent:
        sys.stderr.write(f"{absent}\n")
        sys.exit(ABSENT_EXIT_CODE)
    json.dump(dataclasses.asdict(measured), sys.stdout)
