"""What is to be placed: the gangs of a batch that start, what their placements cost, and what they cost at least."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from solver.greedy.best_fit import GreedyPlacer
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import bounds
from solver.placement.bounds import TopologyCost
from solver.semantics.gang_classes import GangClass
from solver.semantics.placement_cost import PlacementCost, UnopenedCapacity, topology_cost
from solver.semantics.placements import Placements, dominant_share, merge_placements, new_placements
from solver.state.state import Pods, State


@dataclass(frozen=True)
class PlacementTask:
    """gang_classes: gang -> its class, with a fixed mix of roles."""

    s: Sets
    gang_classes: Mapping[int, GangClass]
    options: Options

    @cached_property
    def unopened(self) -> UnopenedCapacity:
        """Nodes and supernodes that nothing uses before the batch."""
        return UnopenedCapacity(self.s.problem, self.s.tree, self.s.free.amounts)

    @cached_property
    def min_costs(self) -> dict[int, TopologyCost]:
        """Gang -> what it costs at least, alone in the free nodes."""
        least = {c: bounds.min_topology_cost(self.s, c) for c in dict.fromkeys(self.gang_classes.values())}
        return {j: least[gang_class] for j, gang_class in self.gang_classes.items()}

    @cached_property
    def lower_bound(self) -> PlacementCost:
        """No placements of these gangs cost less, entry by entry."""
        split, span = (sum(least[entry] for least in self.min_costs.values()) for entry in range(2))
        return PlacementCost(split, span, *bounds.min_opened(self.s, self.gang_classes.values(), self.unopened))

    def topology_cost(self, j: int, pods: Pods) -> TopologyCost:
        return topology_cost(self.s.tree, self.s.problem.gangs[j], pods)

    def new_pods(self, placements: Placements) -> dict[int, Pods]:
        """Gang -> its pods that do not run yet."""
        return {j: new_placements(self.s.problem.gangs[j], pods) for j, pods in placements.items()}

    def cost(self, placements: Placements) -> PlacementCost:
        """Opened nodes count for nothing where pods are to be spread."""
        costs = [self.topology_cost(j, pods) for j, pods in placements.items()]
        supernodes, nodes = self.unopened.opened_counts(self.new_pods(placements))
        nodes = 0 if self.s.problem.policy.spread_pods else nodes
        return PlacementCost(sum(split for split, _ in costs), sum(span for _, span in costs), supernodes, nodes)

    def most_constrained_first(self, gangs: Iterable[int]) -> list[int]:
        """Gangs with the tightest tier first, then those with subgroups, then the largest."""
        highest = self.s.tree.highest_tier + 1

        def key(j: int) -> tuple[int, bool, float, int]:
            gang_class = self.gang_classes[j]
            tier = highest if gang_class.hard_tier is None else gang_class.hard_tier
            share = dominant_share(gang_class.min_demand(self.s.resource_count), self.s.problem.totals)
            return tier, not gang_class.subgroups, -share, j

        return sorted(gangs, key=key)

    def place_greedily(self, state: State, gangs: Iterable[int]) -> dict[int, Pods] | None:
        """All pods of these gangs, the most constrained first, the new ones taken from the state; None where one gang
        finds no room."""
        greedy, found = GreedyPlacer(state, budget=self.options.budget), dict[int, Pods]()
        for j in self.most_constrained_first(gangs):
            placed = greedy.place_gang(j, self.gang_classes[j])
            if placed is None:
                return None
            found[j] = merge_placements([*self.gang_classes[j].running_pods, *placed])
        return found


class StateBesidePlacements:
    """The state beside placements that change little: only the gangs that changed are stopped and started again."""

    def __init__(self, s: Sets) -> None:
        self._state, self._started = s.state_after({}), dict[int, Pods]()
        self._placements: Placements = {}

    def state_beside(self, placements: Placements, freed: Collection[int]) -> State:
        """The state in which all of these gangs but the freed ones have started. The caller undoes what it takes."""
        changed = freed
        if placements is not self._placements:
            changed = [j for j, pods in self._started.items() if j in freed or placements.get(j) is not pods]
            self._placements = placements
        for j in changed:
            if j in self._started:
                self._state.stop_gang(j, self._started.pop(j))
        for j, pods in placements.items():
            if j not in freed and j not in self._started:
                self._state.start_gang(j, pods)
                self._started[j] = pods
        return self._state
