"""1,000 nodes and 100 gangs, the size that the bar is about: with room to spare, tight, too much, and half busy.

Where gangs must wait, the time hangs on the draw, so five worlds of each such kind must hold the bar and not one that
happens to be easy.
"""

from __future__ import annotations

from functools import partial

from bench.measure import measure_compilation
from bench.registry import Figures, register_case
from bench.worlds import generate_repository

SECONDS, PEAK = 10, 1 << 30
WORKLOADS = (
    # load in percent, half busy, seeds
    (60, False, (1,)),
    (90, False, (1,)),
    (120, False, (1, 2, 3, 4, 5)),
    (60, True, (1,)),
    (120, True, (1, 2, 3, 4, 5)),
)


def measure_world(percent: int, busy: bool, seed: int) -> Figures:
    return measure_compilation(generate_repository(nodes=1_000, gangs=100, load=percent / 100, busy=busy, seed=seed))


for percent, busy, seeds in WORKLOADS:
    for seed in seeds:
        name = f"1000x100-{percent}{'-busy' if busy else ''}{f'-{seed}' if len(seeds) > 1 else ''}"
        title = (
            f"compile 1,000 nodes x 100 gangs, "
            f"{percent}% load{', half busy' if busy else ''}{f', seed {seed}' if len(seeds) > 1 else ''}"
        )
        register_case(name, title, partial(measure_world, percent, busy, seed), seconds=SECONDS, peak=PEAK)
