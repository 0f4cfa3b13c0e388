"""Up to 50,000 nodes and 2,000 gangs: the sizes that are promised, and how the time grows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.measure import measure_compilation
from bench.registry import Comparison, Figures, register_case
from bench.worlds import generate_repository

GROUP = "scale"
NODES, GANGS, LOAD = 10_000, 1_000, 0.6
"""Half of the cluster is busy, so that the gangs ask for a fifth more than is free."""

BARS = {(NODES, GANGS): (12, 1 << 30), (50_000, 2_000): (60, 1 << 30)}
"""(nodes, gangs) -> (seconds, bytes)."""

GROWTH = (
    # nodes, gangs
    *((NODES, gangs) for gangs in (100, 200, 500, 1_000, 2_000)),
    *((nodes, 500) for nodes in (1_000, 2_500, 5_000, 20_000)),
    (50_000, 2_000),
)


def measure_world(nodes: int, gangs: int) -> Figures:
    promised = (nodes, gangs) == (NODES, GANGS)
    figures = measure_compilation(generate_repository(nodes, gangs, LOAD, busy=True, tiers=3), with_quality=promised)
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
    bars = BARS.get((nodes, gangs), (None, None))
    register_case(
        f"{nodes}x{gangs}-busy", title, partial(measure_world, nodes, gangs), seconds=bars[0], peak=bars[1], group=GROUP
    )
