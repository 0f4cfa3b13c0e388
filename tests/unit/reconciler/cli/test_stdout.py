"""A native library that prints does not spoil what a command writes to standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PRINTING_SOLVER = """
import os
import highspy

class Printing(highspy.Highs):
    def __init__(self):
        os.write(1, b"Running HiGHS\\n")
        super().__init__()

highspy.Highs = Printing
from reconciler.cli import main
main()
"""


def test_what_a_library_prints_does_not_reach_the_output() -> None:
    command = [sys.executable, "-c", PRINTING_SOLVER, "plan", "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["kind"] == "Plan"
    assert "Running HiGHS" not in done.stderr


def test_a_closed_output_is_no_error() -> None:
    script = f"exec {sys.executable} -m reconciler plan >&-"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
