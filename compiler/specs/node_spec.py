"""Nodes, their amounts, and the hypernodes above them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.specs.pod_spec import Amounts, Taint
from compiler.syntax.documents import Document


@dataclass(frozen=True, slots=True)
class NumaSpec:
    """The NUMA nodes of a node.

    topology_policy: of the kubelet's topology manager. static_cpus: its CPU manager assigns whole CPUs. slots: the
    amounts of the divided resources in each NUMA node. free_slots: their free amounts, if the cluster reports them.
    """

    topology_policy: str
    static_cpus: bool
    slots: tuple[Amounts, ...]
    free_slots: tuple[Amounts, ...] | None = None


@dataclass(frozen=True, slots=True)
class NumaTopologySpec:
    """Volcano's Numatopology: the NUMA nodes of the node of the same name."""

    document: Document
    name: str
    numa: NumaSpec


@dataclass(frozen=True, slots=True)
class SharedDeviceSpec:
    """Devices of a node that pods share.

    resource: requests a part of one device. whole_resource: requests whole devices, "" for none. devices: (id, offered
    amounts), in the node's order. unhealthy: devices that are unavailable for now.
    """

    resource: str
    whole_resource: str
    devices: tuple[tuple[str, Amounts], ...]
    unhealthy: tuple[tuple[str, Amounts], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A Node object, or one node of a NodePool (then `document` is the pool's). maintenance_windows: (from, to) in
    seconds since the epoch."""

    document: Document
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    unschedulable: bool = False
    numa: NumaSpec | None = None
    shared_devices: tuple[SharedDeviceSpec, ...] = ()
    maintenance_windows: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class HyperNodeSpec:
    """A HyperNode object, or one of a NodePool, with its members resolved to sorted names of existing nodes and
    hypernodes."""

    document: Document
    name: str
    tier: int
    tier_name: str | None
    nodes: tuple[str, ...]
    hypernodes: tuple[str, ...]
