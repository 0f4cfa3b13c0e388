"""Up to 20,000 nodes and 2,000 gangs: the size that is promised, and how the time grows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.measure import compilation
from bench.registry import Comparison, Figures, case
from bench.worlds import world

GROUP = "scale"
NODES, GANGS, LOAD = 10_000, 1_000, 0.6
"""Half of the cluster is busy, so that the gangs ask for a fifth more than is free."""

SECONDS, PEAK = 60, 2 << 30
GROWTH = (
    # nodes, gangs
    *((NODES, gangs) for gangs in (100, 200, 500, 1_000, 2_000)),
    *((nodes, 500) for nodes in (1_000, 2_500, 5_000, 20_000)),
)


def compiled(nodes: int, gangs: int) -> Figures:
    promised = (nodes, gangs) == (NODES, GANGS)
    figures = compilation(world(nodes, gangs, LOAD, busy=True, tiers=3), judged=promised)
    rest = sum(seconds for name, seconds in figures.phases.items() if name != "solve")
    solve = figures.phases["solve"]
    row = (
        f"{nodes:,} x {gangs:,}",
        f"{figures.cpu:.1f}",
        f"{solve:.1f}",
        f"{rest:.1f}",
        f"{1000 * figures.cpu / gangs:.0f}",
        f"{figures.peak >> 20}",
    )
    heads = ("nodes x gangs", "cpu s", "solve s", "all else s", "cpu ms per gang", "peak MiB")
    return replace(
        figures, comparison=Comparison("Growth: half busy, the gangs ask for a fifth more than is free", heads, (row,))
    )


for nodes, gangs in GROWTH:
    title = f"compile {nodes:,} nodes x {gangs:,} gangs, 3 tiers, half busy"
    bars = (SECONDS, PEAK) if (nodes, gangs) == (NODES, GANGS) else (None, None)
    case(f"{nodes}x{gangs}-busy", title, partial(compiled, nodes, gangs), seconds=bars[0], peak=bars[1], group=GROUP)
