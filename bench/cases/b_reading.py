"""Reading and checking job files, which happens on every commit."""

from __future__ import annotations

from bench.measure import reading
from bench.registry import Figures, case
from bench.worlds import world


def thousand_files() -> Figures:
    return reading(world(nodes=1_000, gangs=1_000, load=0.9))


case("read-1000", "read and check 1,000 job files", thousand_files)
