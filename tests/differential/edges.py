"""Random worlds of jobs near the edge of what fits, one for each seed: cells of every kind, side by side.

A cell has its own nodes (all pods ask for its label), queues, hypernodes and, where queues limit something, a resource
of its own; so a job of one cell is alone on the empty cluster although other cells have jobs too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.builders.declared import Object
from tests.differential.cells import Cards, Cell
from tests.differential.edge_kinds import (
    amounts,
    ascend_parts,
    dependent_roles,
    labels_and_taints,
    minima,
    numa,
    queue_limits,
    rules_between_pods,
    shared_memory,
    topology,
    virtual_gpus,
    whole_devices,
)

MODES: Mapping[str, Object] = {
    "plain": {},
    "vgpu": {"deviceshare.VGPUEnable": True},
    "gpu-memory": {"deviceshare.GPUSharingEnable": True},
    "gpu-number": {"deviceshare.GPUNumberEnable": True},
    "ascend": {"deviceshare.AscendHAMiVNPUEnable": True},
}
"""How the scheduler shares devices -> arguments of its plugin deviceshare, which is off where there are none."""
KINDS = (
    whole_devices,
    amounts,
    minima,
    dependent_roles,
    labels_and_taints,
    rules_between_pods,
    topology,
    numa,
    queue_limits,
    virtual_gpus,
    shared_memory,
    ascend_parts,
)
SHARED = {
    "plain": (),
    "vgpu": (virtual_gpus,) * 6,
    "gpu-memory": (shared_memory,) * 4,
    "gpu-number": (shared_memory,) * 4,
    "ascend": (ascend_parts,) * 4,
}
"""How devices are shared -> the kinds of which such a world has more cells."""


@dataclass(frozen=True)
class EdgeWorld:
    """Cells side by side under one scheduler."""

    scheduler: Object
    cells: tuple[Cell, ...]

    def objects(self) -> Iterator[Object]:
        """All but the jobs."""
        for cell in self.cells:
            yield from (*cell.nodes, *cell.hypernodes, *cell.numatopologies, *cell.queues)

    def cell_of(self, job: str) -> Cell:
        name = job.rpartition("-")[0]
        return next(cell for cell in self.cells if cell.name == name)


def any_edge_world(seed: int) -> EdgeWorld:
    """The mode follows from the seed."""
    return edge_world(seed, tuple(MODES)[seed % len(MODES)])


def edge_world(seed: int, mode: str, copies: int = 1) -> EdgeWorld:
    """A world with so many cells of each kind, and more of those that share devices as the mode says."""
    rng = random.Random(f"edges {seed}")  # noqa: S311  - not a secret
    cards = Cards(rng.choice(((16000,), (16000,), (8000, 16000))), rng.choice((0, 1, 1 / 2)))
    cells = []
    for at, kind in enumerate((*KINDS * copies, *SHARED[mode] * copies)):
        cell = Cell(f"s{seed}-{at}", kind.__name__, cards)
        kind(cell, random.Random(f"edges {seed} {at}"))  # noqa: S311  - not a secret
        cells.append(cell)
    return EdgeWorld(_scheduler(rng, mode), tuple(cells))


def _scheduler(rng: random.Random, mode: str) -> Object:
    """What scheduler.conf says, with `actions` as a list."""
    limits = rng.choice((["capacity"], ["capacity"], ["proportion"]))
    second: list[Object] = [{"name": name} for name in ("drf", *limits, "predicates", "nodeorder", "numa-aware")]
    second.append({"name": "network-topology-aware"})
    if MODES[mode]:
        second.append({"name": "deviceshare", "arguments": MODES[mode]})
    first = [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]
    off = {"predicateErrorCacheEnable": False}
    return {
        "actions": ["allocate", "backfill"],
        "tiers": [{"plugins": first}, {"plugins": second}],
        "configurations": [{"name": action, "arguments": off} for action in ("allocate", "backfill")],
    }
