"""Hypernodes by name -> a forest of indices; networkTopology as written -> a mode and a tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.specs import HyperNodeSpec, TopologySpec
from solver.problem import HyperNode, Topology


def hypernodes(specs: Sequence[HyperNodeSpec]) -> tuple[HyperNode, ...]:
    index = {spec.name: h for h, spec in enumerate(specs)}
    parent = {child: index[spec.name] for spec in specs for child in spec.hypernodes if child in index}
    return tuple(HyperNode(spec.name, spec.tier, parent.get(spec.name)) for spec in specs)


def leaves(specs: Sequence[HyperNodeSpec]) -> Mapping[str, int]:
    """Node name -> index of the hypernode that directly holds it."""
    return {node: h for h, spec in enumerate(specs) for node in spec.nodes}


def topology(wanted: TopologySpec, specs: Sequence[HyperNodeSpec]) -> Topology:
    """highestTierName stands for the tier of the hypernodes that carry it.

    Without a limit, or with a name that no hypernode carries, Volcano does not enforce anything: its virtual root, one tier above
    the highest, holds the whole cluster (reference: Volcano, HyperNode tree and network-topology-aware).
    """
    whole = max((spec.tier for spec in specs), default=0) + 1
    tier = wanted.highest_tier
    if tier is None and wanted.highest_tier_name is not None:
        tier = max((spec.tier for spec in specs if spec.tier_name == wanted.highest_tier_name), default=None)
    return Topology(wanted.mode, whole if tier is None else tier)
