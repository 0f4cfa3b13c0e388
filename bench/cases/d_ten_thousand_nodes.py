"""10,000 nodes and 200 gangs: ten times the bar's nodes, no bar of its own."""

from __future__ import annotations

from bench.measure import compilation
from bench.registry import Figures, case
from bench.worlds import world


def compiled() -> Figures:
    return compilation(world(nodes=10_000, gangs=200, load=0.9))


case("10000x200-90", "compile 10,000 nodes x 200 gangs, 90% load", compiled)
