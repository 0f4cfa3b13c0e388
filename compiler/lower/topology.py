"""Hypernodes by name -> a forest of indices; networkTopology as written -> a mode and a tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.specs import HyperNodeSpec, TopologySpec
from solver.problem import HyperNode, Topology


def lower_hypernodes(specs: Sequence[HyperNodeSpec]) -> tuple[HyperNode, ...]:
    index = {spec.name: h for h, spec in enumerate(specs)}
    parent = {child: index[spec.name] for spec in specs for child in spec.hypernodes if child in index}
    return tuple(HyperNode(spec.name, spec.tier, parent.get(spec.name)) for spec in specs)


def leaf_by_node(specs: Sequence[HyperNodeSpec]) -> Mapping[str, int]:
    """Node name -> index of the hypernode that directly holds it."""
    return {node: h for h, spec in enumerate(specs) for node in spec.nodes}


@dataclass(frozen=True)
class TierNames:
    """The tiers of a tree, and what gangs call them."""

    specs: Sequence[HyperNodeSpec]

    @cached_property
    def root_tier(self) -> int:
        """Volcano's virtual root, one tier above the highest, which holds the whole cluster."""
        return max((spec.tier for spec in self.specs), default=0) + 1

    @cached_property
    def tier_by_name(self) -> Mapping[str, int]:
        """Name of a tier -> the highest one that hypernodes carry it at."""
        found: dict[str, int] = {}
        for spec in self.specs:
            if spec.tier_name is not None:
                found[spec.tier_name] = max(spec.tier, found.get(spec.tier_name, spec.tier))
        return found

    def lower_topology(self, spec: TopologySpec) -> Topology:
        """highestTierName stands for the tier of the hypernodes that carry it.

        Without a limit, or with a name that no hypernode carries, Volcano does not enforce anything: `whole`
        (reference: Volcano, HyperNode tree and network-topology-aware).
        """
        tier = spec.highest_tier
        if tier is None and spec.highest_tier_name is not None:
            tier = self.tier_by_name.get(spec.highest_tier_name)
        return Topology(spec.mode, self.root_tier if tier is None else tier)
