"""The repository's own example as a user meets it: a whole process, from the shell's prompt to the last line."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial

from bench.child import ROOT
from bench.registry import Figures, register_case


def measure_command(*words: str) -> Figures:
    """Run `gangplan WORDS`. Raises RuntimeError when it fails.

    The process that calls has loaded next to nothing, so the peak of its children is the command's own.
    """
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "reconciler", *words], cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"gangplan {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Figures(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


register_case("help", "`gangplan --help`, whole process", partial(measure_command, "--help"))
register_case("example", "`gangplan plan` of the example, whole process", partial(measure_command, "plan"), seconds=5)
