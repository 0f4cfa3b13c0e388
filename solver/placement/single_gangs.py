"""Neighbourhood: one gang with more split subgroups or span than it needs is placed again by the greedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from solver.greedy.best_fit import GreedyPlacer
from solver.placement.bounds import excess_sort_key
from solver.placement.task import PlacementTask, StateBesidePlacements
from solver.search.search import Incumbent
from solver.semantics.placements import Placements, merge_placements


class SingleGangs:
    """The gang with the largest excess over its own bound first."""

    def __init__(self, task: PlacementTask) -> None:
        self.task, self._beside = task, StateBesidePlacements(task.s)

    def moves(self, incumbent: Incumbent[Placements]) -> Iterator[Callable[[], Placements | None]]:
        least = self.task.min_costs
        now = {j: self.task.topology_cost(j, pods) for j, pods in incumbent.solution.items()}
        excessive = [j for j in now if now[j] > least[j]]
        for j in sorted(excessive, key=lambda j: (excess_sort_key(least[j], now[j]), j)):
            yield partial(self._place_again, incumbent.solution, j)

    def _place_again(self, placements: Placements, j: int) -> Placements | None:
        gang_class = self.task.gang_classes[j]
        state = self._beside.state_beside(placements, (j,))
        mark = state.mark()
        placed = GreedyPlacer(state, budget=self.task.options.budget).place_gang(j, gang_class)
        is_valid = placed is not None and not state.free_nodes.breaks_pod_rules
        state.undo(mark)
        if placed is None or not is_valid:
            return None
        pods = merge_placements([*gang_class.running_pods, *placed])
        is_nearer = self.task.topology_cost(j, pods) < self.task.topology_cost(j, placements[j])
        return {**placements, j: pods} if is_nearer else None


def topology_costs(task: PlacementTask) -> Callable[[Placements], tuple[int, int]]:
    """The cost by which this neighbourhood is searched: (split subgroups, span) of all gangs."""

    def cost(placements: Placements) -> tuple[int, int]:
        costs = [task.topology_cost(j, pods) for j, pods in placements.items()]
        return sum(split for split, _ in costs), sum(span for _, span in costs)

    return cost
