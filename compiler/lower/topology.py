"""Hypernodes as a forest of indices, and networkTopology as a mode and a tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.specs.gang_spec import TopologySpec
from compiler.specs.node_spec import HyperNodeSpec
from solver.problem import HyperNode, Topology


def lower_hypernodes(specs: Sequence[HyperNodeSpec]) -> tuple[HyperNode, ...]:
    parent = {child: h for h, spec in enumerate(specs) for child in spec.hypernodes}
    return tuple(HyperNode(spec.name, spec.tier, parent.get(spec.name)) for spec in specs)


def leaf_by_node(specs: Sequence[HyperNodeSpec]) -> Mapping[str, int]:
    """Node name -> index of the hypernode that directly holds it."""
    return {node: h for h, spec in enumerate(specs) for node in spec.nodes}


@dataclass(frozen=True)
class TierNames:
    """Translates tier names into tiers."""

    specs: Sequence[HyperNodeSpec]

    @cached_property
    def root_tier(self) -> int:
        """Return the tier of Volcano's virtual root, one above the highest; it holds all nodes."""
        return max((spec.tier for spec in self.specs), default=0) + 1

    @cached_property
    def tier_by_name(self) -> Mapping[str, int]:
        """Tier name -> the highest tier of the hypernodes that carry it."""
        found: dict[str, int] = {}
        for spec in self.specs:
            if spec.tier_name is not None:
                found[spec.tier_name] = max(spec.tier, found.get(spec.tier_name, spec.tier))
        return found

    def lower_topology(self, spec: TopologySpec) -> Topology:
        """Return the mode, and the tier given by number or by name.

        Without a limit, or with a name that no hypernode carries, it is the root's: Volcano enforces nothing then
        (reference: Volcano, HyperNode tree and network-topology-aware).
        """
        tier = spec.highest_tier
        if tier is None and spec.highest_tier_name is not None:
            tier = self.tier_by_name.get(spec.highest_tier_name)
        return Topology(spec.mode, self.root_tier if tier is None else tier)
