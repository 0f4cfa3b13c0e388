"""1,000 nodes and 100 gangs, the size that the bar is about: with room to spare, tight, too much, and half busy."""

from __future__ import annotations

from functools import partial

from bench.measure import compilation
from bench.registry import Figures, case
from bench.worlds import world

SECONDS, PEAK = 10, 1 << 30


def compiled(load: float, busy: bool) -> Figures:
    return compilation(world(nodes=1_000, gangs=100, load=load, busy=busy))


for percent in (60, 90, 120):
    run = partial(compiled, percent / 100, busy=False)
    case(f"1000x100-{percent}", f"compile 1,000 nodes x 100 gangs, {percent}% load", run, seconds=SECONDS, peak=PEAK)
case("1000x100-busy", "compile 1,000 nodes x 100 gangs, half busy, 60% load", partial(compiled, 0.6, busy=True), seconds=SECONDS, peak=PEAK)
