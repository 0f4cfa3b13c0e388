"""128 nodes, 20 queues of equal weight and ever more jobs that wait: the everyday case of a small, full cluster."""

from __future__ import annotations

from functools import partial

from bench.measure import measure_compilation
from bench.registry import Figures, register_case
from bench.textures import generate_long_queue

BARS = {200: 2.5, 2_000: 5, 10_000: 15}
"""Jobs -> seconds."""


def measure_queue(jobs: int, varied: bool) -> Figures:
    """Without the linear bound, which does not know that unused shares go to other queues."""
    return measure_compilation(generate_long_queue(jobs, varied=varied), with_quality=False)


for jobs, seconds in BARS.items():
    for kind in ("", "varied"):
        title = (
            f"compile 128 nodes x {jobs:,} jobs in 20 queues of equal weight{', some elastic or timed' if kind else ''}"
        )
        run = partial(measure_queue, jobs, bool(kind))
        name = "-".join(filter(None, ("long-queue", str(jobs), kind)))
        register_case(name, title, run, seconds=seconds, peak=1 << 30)
