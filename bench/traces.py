"""Published traces as nodes, hypernodes and pods. They are read in place and never copied here.

Where: `--traces DIR` or the environment variable GANGPLAN_TRACES, else `shared/traces` next to the checkout. An absent
one raises `MissingInputError`.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.registry import MissingInputError
from solver.problem import HyperNode, Node

TRACES_VARIABLE = "GANGPLAN_TRACES"
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "traces"
MIB = 1 << 20
GPUS_PER_HOST = 8
"""GPUs of a Lingjun host; the trace has no number."""


@dataclass(frozen=True, slots=True)
class TracePod:
    """cpu: millicores. memory: bytes. gpus: devices. share: thousandths of each device. models: those it may use, empty
    for any."""

    cpu: int
    memory: int
    gpus: int
    share: int
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TraceMachine:
    """model: of its GPUs, empty without any."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


def read_rows(*path: str) -> list[dict[str, str]]:
    """Return the lines of one file of the traces. Raises MissingInputError without it."""
    with trace_file(*path).open(newline="") as lines:
        return list(csv.DictReader(lines))


def trace_file(*path: str) -> Path:
    """One file of the traces. Raises MissingInputError without it."""
    place = Path(os.environ.get(TRACES_VARIABLE) or DEFAULT_FOLDER).joinpath(*path)
    if not place.is_file():
        raise MissingInputError(f"trace not here: {place}")
    return place


def lingjun_topology() -> tuple[tuple[HyperNode, ...], tuple[Node, ...]]:
    """Alibaba Lingjun 2023 (Crux, SIGCOMM'24): 847 hosts below access, pod and data-centre switches, which are tiers 1
    to 3. One resource, GPUs."""
    return clos_topology(
        (row["DSW"], row["PSW"], row["ASW"]) for row in read_rows("alibaba-lingjun-2023-topo", "topo.csv")
    )


def clos_topology(hosts: Iterable[tuple[str, ...]]) -> tuple[tuple[HyperNode, ...], tuple[Node, ...]]:
    """hosts: for each the switches above it, the highest first. A switch is its whole way: names repeat under different
    parents."""
    ways = sorted(hosts)
    above = sorted({way[:depth] for way in ways for depth in range(1, len(way) + 1)}, key=lambda way: (len(way), way))
    index = {way: h for h, way in enumerate(above)}
    height = max(len(way) for way in ways)
    tree = tuple(HyperNode("/".join(way), height + 1 - len(way), index.get(way[:-1])) for way in above)
    return tree, tuple(
        Node(f"host-{n:04}", 0, index[way], (GPUS_PER_HOST,), (GPUS_PER_HOST,)) for n, way in enumerate(ways)
    )


def openb_machines() -> list[TraceMachine]:
    """Alibaba openb 2023 (ATC'23): 1,523 machines, 6,212 GPUs of 7 models."""
    found = read_rows("openb-2023", "openb_node_list_all_node.csv")
    return [
        TraceMachine(r["sn"], int(r["cpu_milli"]), int(r["memory_mib"]) * MIB, int(r["gpu"]), r["model"]) for r in found
    ]


def openb_pods(list_name: str) -> list[TracePod]:
    """which: the list's name, `default` or `gpuspec33`."""
    found = read_rows("openb-2023", f"openb_pod_list_{list_name}.csv")
    return [
        TracePod(
            int(r["cpu_milli"]),
            int(r["memory_mib"]) * MIB,
            int(r["num_gpu"]),
            int(r["gpu_milli"]),
            tuple(sorted({m for m in r["gpu_spec"].split("|") if m})),
        )
        for r in found
    ]
