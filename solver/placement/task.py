"""Inputs of placement: the starting gangs of a batch, the cost of their placements, and its lower bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from solver.greedy.best_fit import GreedyPlacer
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import bounds
from solver.semantics.gang_classes import GangClass
from solver.semantics.placement_cost import HeldDomains, PlacementCost, UnopenedCapacity, node_group_cost, topology_cost
from solver.semantics.placements import Placements, dominant_share, merge_placements, new_placements
from solver.state.state import Pods, State

TopologyCost = tuple[int, int]
"""(split subgroups, span) of one gang."""


@dataclass(frozen=True)
class PlacementTask:
    """gang_classes: gang -> its class, with a fixed mix of roles."""

    s: Sets
    gang_classes: Mapping[int, GangClass]
    options: Options
    _last_state: list[tuple[Placements, State]] = field(default_factory=list, init=False, compare=False)

    @cached_property
    def unopened(self) -> UnopenedCapacity:
        """Return nodes and supernodes that nothing uses before the batch."""
        return UnopenedCapacity(self.s.problem, self.s.tree, self.s.free.amounts)

    @cached_property
    def min_costs(self) -> dict[int, TopologyCost]:
        """Return gang -> its least cost, alone in the free nodes."""
        classes, s = dict.fromkeys(self.gang_classes.values()), self.s
        least = {c: (bounds.min_split_subgroups(s, c), bounds.min_tier_span(s, c)) for c in classes}
        return {j: least[gang_class] for j, gang_class in self.gang_classes.items()}

    @cached_property
    def lower_bound(self) -> PlacementCost:
        """Return a lower bound on the cost of any placements of these gangs, entry by entry."""
        split, span = (sum(least[entry] for least in self.min_costs.values()) for entry in range(2))
        opened = bounds.min_opened(self.s, self.gang_classes.values(), self.unopened)
        apart = sum(self.min_separation_costs.values())
        return PlacementCost(split, span, apart, *opened, sum(self.min_node_group_costs.values()))

    @cached_property
    def held_domains(self) -> HeldDomains:
        """Return the domains that gangs hold before the batch."""
        return self.s.state.held_domains

    @cached_property
    def min_separation_costs(self) -> dict[int, int]:
        """Return gang with separation wishes -> what the domains that are held before the batch cost it at least."""
        gangs = self.s.problem.gangs
        return {
            j: bounds.min_separation_cost(self.s, gang_class, gangs[j], self.held_domains)
            for j, gang_class in self.gang_classes.items()
            if gangs[j].separation_wishes
        }

    @cached_property
    def min_node_group_costs(self) -> dict[int, int]:
        """Return gang of a queue that prefers node groups -> its least cost of them, alone in the free nodes."""
        queues, gangs = self.s.problem.queues, self.s.problem.gangs
        prefers = {j: gangs[j].queue for j in self.gang_classes if queues[gangs[j].queue].node_group_ranks}
        classes = {(self.gang_classes[j], q) for j, q in prefers.items()}
        least = {key: bounds.min_node_group_cost(self.s, *key) for key in classes}
        return {j: least[self.gang_classes[j], q] for j, q in prefers.items()}

    def topology_cost(self, j: int, pods: Pods) -> TopologyCost:
        return topology_cost(self.s.tree, self.s.problem.gangs[j], pods)

    def new_pods(self, placements: Placements) -> dict[int, Pods]:
        """Return gang -> its pods that do not run yet."""
        return {j: new_placements(self.s.problem.gangs[j], pods) for j, pods in placements.items()}

    def cost(self, placements: Placements) -> PlacementCost:
        """Opened nodes count for nothing where pods are to be spread."""
        costs = [self.topology_cost(j, pods) for j, pods in placements.items()]
        new_pods, problem = self.new_pods(placements), self.s.problem
        supernodes, nodes = self.unopened.opened_counts(new_pods)
        nodes = 0 if problem.policy.spread_pods else nodes
        groups = sum(node_group_cost(problem, problem.gangs[j], pods) for j, pods in new_pods.items())
        split, span = (sum(entries) for entries in zip(*costs, strict=True)) if costs else (0, 0)
        return PlacementCost(split, span, self.separation_cost(new_pods), supernodes, nodes, groups)

    def separation_cost(self, new_pods: Mapping[int, Pods]) -> int:
        """Return the cost of these new pods next to one another and next to the pods before the batch."""
        gangs = self.s.problem.gangs
        if not any(gangs[j].separation_wishes for j in new_pods):
            return 0
        held = self.held_domains.with_pods(new_pods)
        return sum(held.cost(gangs[j], pods) for j, pods in new_pods.items())

    def with_started(self, started: Placements, state: State) -> PlacementTask:
        """Return the task of the other gangs. state: that in which these have started."""
        waiting = {key: tuple(j for j in js if j not in started) for key, js in self.s.waiting_gangs.items()}
        sets = replace(self.s, state=state, waiting_gangs={key: js for key, js in waiting.items() if js})
        return PlacementTask(sets, {j: c for j, c in self.gang_classes.items() if j not in started}, self.options)

    def state_after(self, placements: Placements) -> State:
        """Return the state in which these gangs have started, cached for the placements last asked for. Do not change
        it."""
        if not self._last_state or self._last_state[0][0] is not placements:
            self._last_state[:] = [(placements, self.s.state_after(placements))]
        return self._last_state[0][1]

    def place_greedily(self, state: State, gangs: Iterable[int]) -> dict[int, Pods] | None:
        """Place all pods of these gangs, the most constrained first (the tightest tier, then those with subgroups, then
        the largest), and take the new ones from the state; None where one gang finds no room."""
        highest, totals = self.s.tree.highest_tier + 1, self.s.problem.totals

        def key(j: int) -> tuple[int, bool, float, int]:
            gang_class = self.gang_classes[j]
            tier = highest if gang_class.hard_tier is None else gang_class.hard_tier
            share = dominant_share(gang_class.min_demand(len(totals)), totals)
            return tier, not gang_class.subgroups, -share, j

        greedy, found = GreedyPlacer(state, budget=self.options.budget), dict[int, Pods]()
        for j in sorted(gangs, key=key):
            placed = greedy.place_gang(j, self.gang_classes[j])
            if placed is None:
                return None
            found[j] = merge_placements([*self.gang_classes[j].running_pods, *placed])
        return found
