"""Numatopology (nodeinfo.volcano.sh/v1alpha1), written by Volcano's resource exporter for each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.node_spec import NodeSpec, NumaSpec, NumaTopologySpec

NVIDIA_GPU = "nvidia.com/gpu"
"""The resource of gpuDetail."""


def parse_cpu_set(text: str) -> set[int]:
    """Return the CPUs of a Linux CPU list such as "0-3,8". ValueError for anything else."""
    found: set[int] = set()
    for item in filter(None, map(str.strip, text.split(","))):
        first, dash, last = item.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return found


def numa_spec(
    policies: Mapping[str, str],
    cpu_detail: Mapping[str, Any],
    gpu_detail: Mapping[str, Any],
    allocatable: str | None,
    reserved: int = 0,
) -> NumaSpec:
    """Return the NUMA nodes of a Numatopology. ValueError for text that is not a number.

    cpu_detail, gpu_detail: id -> {"numa", "socket", "core"}, each 0 where missing. allocatable: CPUs that no pod holds
    exclusively, None if not reported. reserved: number of CPUs reserved for the system; Volcano takes the first ones,
    core by core (plugin numa-aware, takeByTopology).
    """
    slot_of = {int(cpu): int((detail or {}).get("numa") or 0) for cpu, detail in cpu_detail.items()}
    core = {
        int(cpu): tuple(int((detail or {}).get(key) or 0) for key in ("socket", "core"))
        for cpu, detail in cpu_detail.items()
    }
    for cpu in sorted(slot_of, key=lambda cpu: (core[cpu], cpu))[:reserved]:
        del slot_of[cpu]
    gpus = Counter(int((detail or {}).get("numa") or 0) for detail in gpu_detail.values())
    slots = sorted({*slot_of.values(), *gpus})
    cpus = Counter(slot_of.values())
    idle_cpus = Counter(slot_of[cpu] for cpu in parse_cpu_set(allocatable or "") if cpu in slot_of)
    return NumaSpec(
        policies.get("TopologyManagerPolicy", "none"),
        policies.get("CPUManagerPolicy", "none") == "static",
        tuple({"cpu": cpus[slot] * 1000, **({NVIDIA_GPU: gpus[slot]} if gpus else {})} for slot in slots),
        None if allocatable is None else tuple({"cpu": idle_cpus[slot] * 1000} for slot in slots),
    )


def with_numa_topologies(nodes: Iterable[NodeSpec], topologies: Iterable[NumaTopologySpec]) -> list[NodeSpec]:
    """Return the nodes with the NUMA nodes of the Numatopology of the same name, which takes precedence over a
    pool's."""
    numa_of = {spec.name: spec.numa for spec in topologies}
    return [replace(node, numa=numa_of[node.name]) if node.name in numa_of else node for node in nodes]


def is_numa_aware(scheduler: SchedulerSpec | None) -> bool:
    """Return whether Volcano's plugin numa-aware decides where pods with a topologyPolicy may go."""
    plugins = scheduler.plugins if scheduler else ()
    return any(plugin.name == "numa-aware" and plugin.flags.get("enablePredicate", True) for plugin in plugins)
