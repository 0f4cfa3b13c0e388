"""What a plan calls never does not start on the real Volcano, alone on the empty cluster (`alone`)."""

from __future__ import annotations

import pytest

from tests.differential.alone import Alone, claims
from tests.differential.bed import Bed
from tests.differential.edges import edge_world

WORLDS = {"plain": 1, "vgpu": 2, "gpu-memory": 3, "gpu-number": 6, "ascend": 5}
"""How devices are shared -> the seed of its world. What differs is looked at twice, as in `test_random_worlds`."""
LOOSE = {"ascend": {"ascend_parts", "minima"}}
"""Kinds of which the plan starts more than Volcano alone, by how devices are shared: parts of Ascend's NPUs are not
planned (GP430), and a gang waits where Volcano, pod by pod, leaves room in pieces (volcano-differences.md)."""


@pytest.mark.parametrize("mode", WORLDS)
def test_what_can_never_start_does_not_and_what_is_planned_does(bed: Bed, mode: str) -> None:
    world = edge_world(WORLDS[mode], mode)
    said, alone = claims(world), Alone(bed.plane)
    assert len(said.never) >= 10
    started = alone.started(world, said.never | said.start)
    false = said.never & started and said.never & alone.started(world, said.never & started)
    assert {job: world.cell_of(job).kind for job in sorted(false)} == {}
    missing = said.start - started and said.start - started - alone.started(world, said.start - started)
    kinds = {job: world.cell_of(job).kind for job in sorted(missing)}
    assert {job: kind for job, kind in kinds.items() if kind not in LOOSE.get(mode, ())} == {}
