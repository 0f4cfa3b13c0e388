"""10,000 nodes and 200 gangs: ten times the nodes of the bar and twice its gangs, with no bar of its own."""

from __future__ import annotations

from functools import partial

from bench.measure import measure_compilation
from bench.registry import Figures, register_case
from bench.worlds import generate_repository


def measure_world(load: float) -> Figures:
    return measure_compilation(generate_repository(nodes=10_000, gangs=200, load=load))


for percent in (90, 120):
    register_case(
        f"10000x200-{percent}",
        f"compile 10,000 nodes x 200 gangs, {percent}% load",
        partial(measure_world, percent / 100),
    )
