"""Reading and checking job files, which happens on every commit."""

from __future__ import annotations

from bench.measure import measure_reading
from bench.registry import Figures, register_case
from bench.worlds import generate_repository


def measure_thousand_files() -> Figures:
    return measure_reading(generate_repository(nodes=1_000, gangs=1_000, load=0.9))


register_case("read-1000", "read and check 1,000 job files", measure_thousand_files)
