"""One question of the diagnosis: does gang j fit in a state, queues aside?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from solver.greedy.best_fit import GreedyPlacer
from solver.options import Options
from solver.placement.fit import fit_counts_by_role, fits_exactly, shortage
from solver.problem import Gang, Placement, Vector
from solver.semantics.device_slots import FreeVectors
from solver.semantics.gang_classes import GangClass, waiting_class
from solver.state.selected_pods import PodRuleCounts
from solver.state.state import State

BASE_WORK = 2_000
"""Work of one question (`require_time`) in addition to its nodes: some milliseconds even in a small cluster."""


@dataclass
class ModelBudget:
    """How many exact models may still be asked."""

    left: int

    def spend(self) -> bool:
        """Take one model from the budget; return False if none remains."""
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True)
class FitQuestion:
    """The state is not changed."""

    state: State
    options: Options
    j: int = 0

    @property
    def gang(self) -> Gang:
        return self.state.problem.gangs[self.j]

    @cached_property
    def gang_class(self) -> GangClass:
        return waiting_class(self.j, self.gang)

    @property
    def min_demand(self) -> Vector:
        """Return the least amounts that the gang requests in addition to its running pods."""
        return self.gang_class.min_demand(len(self.state.problem.resources))

    @property
    def _work(self) -> int:
        return BASE_WORK + len(self.state.problem.nodes)

    def with_free(self, free: FreeVectors, rule_counts: PodRuleCounts | None = None) -> FitQuestion:
        """Return the same question about other free nodes; without counts pod rules do not matter."""
        return replace(self, state=self.state.with_free(free, rule_counts))

    def fits(self) -> bool | None:
        """Yes by the greedy, which mostly ends it, no by counting, else by an exact model. None: not known. Like all
        questions it raises OutOfTimeError when the time is over."""
        known = self.fits_without_model()
        return fits_exactly(self.state, self.j, self.gang_class, self.options) if known is None else known

    def fits_without_model(self) -> bool | None:
        """As `fits`, by the greedy and by counting alone."""
        if self.placement() is not None:
            return True
        return None if shortage(self.state, self.gang_class) is None else False

    def fits_by_model(self, models: ModelBudget) -> bool | None:
        """As `fits`, by an exact model alone."""
        return fits_exactly(self.state, self.j, self.gang_class, self.options) if models.spend() else None

    def placement(self) -> tuple[Placement, ...] | None:
        """Return where the greedy puts the gang; None proves nothing."""
        self.options.clock.require_time(self._work)
        mark, nodes = self.state.free_nodes.mark(), self.state.free_nodes
        placed = GreedyPlacer(self.state, budget=self.options.budget).place_gang(self.j, self.gang_class)
        nodes.undo(mark)
        return placed

    def fit_counts(self) -> list[dict[int, int]]:
        """Return role -> domain -> pods of the role that fit there by number."""
        return fit_counts_by_role(self.state, self.gang_class)

    def max_pods(self, rule_counts: PodRuleCounts | None = None) -> int:
        """Return pods of the gang that the greedy places, under the pod rules where counts are given."""
        self.options.clock.require_time(self._work)
        placer = GreedyPlacer(self.state.with_free(self.state.free, rule_counts))
        return placer.max_pods_in_domain(self.j, self.gang_class)
