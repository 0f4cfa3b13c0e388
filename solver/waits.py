"""Why a gang waits that could start were it not for others' sake: its queue's order, a reservation, domains that a queue keeps. Else `Reasons`.

Codes, for ever: GW106 kept for a guarantee, GW114 reserved for another gang, GW115 an earlier gang of its queue waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from solver.closing import closed, kept_from
from solver.fit import holds, shortage
from solver.order import level_of, passed
from solver.plan import Fact, Repair, Reservation
from solver.problem import Problem
from solver.reasons import Reasons
from solver.room import Ints, Ledger
from solver.shapes import shape_of
from solver.stages.reserve import in_time
from solver.tree import Tree

Why = tuple[tuple[Fact, ...], tuple[Repair, ...]]


@dataclass(frozen=True)
class Waits:
    """reasons: of the problem as it is. guarded: with the kept domains closed to strangers. final: with the reserved nodes closed as well.

    barred: gangs that may not start for the sake of the reservation's queues. waiting: all that wait.
    """

    reasons: Reasons
    guarded: Problem
    guarded_tree: Tree
    final: Problem
    final_tree: Tree
    reservation: Reservation | None
    barred: frozenset[int]
    waiting: Sequence[int]

    @cached_property
    def _behind(self) -> dict[int, int]:
        return passed(self.guarded, self.waiting, ())

    @cached_property
    def _guarded_reasons(self) -> Reasons:
        r = self.reasons
        return Reasons(self.guarded, self.guarded_tree, r.free_before, r.before, r.free_after, r.after, r.started, r.options)

    @cached_property
    def _strangers(self) -> dict[int, frozenset[int]]:
        return kept_from(self.reasons.problem)

    def explain(self, j: int) -> Why:
        """Facts and repairs of a gang that waits. What it lacks by itself is told first."""
        reasons = self.reasons
        if j in self._strangers:
            if not self._fits(self.guarded, self.guarded_tree, j, reasons.free_before, reasons.before):
                alone = self._fits(reasons.problem, reasons.tree, j, reasons.free_before, reasons.before)
                return (self._kept(j), ()) if alone else reasons.explain(j)
            reasons = self._guarded_reasons
        first = self._behind.get(j)
        if first is not None and self._fits(self.guarded, self.guarded_tree, j, reasons.free_before, reasons.before):
            return (Fact("GW115", queue=self.guarded.gangs[j].queue, gangs=(first,)),), ()
        if self._held_back(j):
            return (Fact("GW114", gangs=(self.reservation.gang,) if self.reservation else ()),), ()
        return reasons.explain(j)

    def _held_back(self, j: int) -> bool:
        """Whether it fits beside the plan, and only the reservation keeps it from starting."""
        held, r = self.reservation, self.reasons
        if held is None or j == held.gang or in_time(self.guarded, j, held) or level_of(self.guarded, j) > level_of(self.guarded, held.gang):
            return False
        if not self._fits(self.guarded, self.guarded_tree, j, r.free_after, r.after):
            return False
        return j in self.barred or not self._fits(self.final, self.final_tree, j, r.free_after, r.after)

    def _kept(self, j: int) -> tuple[Fact, ...]:
        """The queue whose domains alone would do; the first that keeps any where several together are in the way."""
        problem, r = self.reasons.problem, self.reasons
        keepers = [q for q, queue in enumerate(problem.queues) if queue.kept and q not in r.before.path(problem.gangs[j].queue)]
        for q in keepers:
            others = closed(problem, kept_from(problem, frozenset(keepers) - {q}))
            if len(keepers) == 1 or self._fits(others, Tree(others), j, r.free_before, r.before):
                return (Fact("GW106", queue=q, tier=self._tier(q)),)
        return tuple(Fact("GW106", queue=q, tier=self._tier(q)) for q in keepers)

    def _tier(self, q: int) -> int:
        return max(self.guarded.hypernodes[h].tier for h in self.guarded.queues[q].kept)

    def _fits(self, problem: Problem, tree: Tree, j: int, free: Ints, ledger: Ledger) -> bool:
        shape = shape_of(j, problem.gangs[j])
        if not ledger.allows(problem.gangs[j].queue, shape.demand(len(problem.resources))) or shortage(problem, tree, shape, free) is not None:
            return False
        return holds(problem, tree, j, shape, free, self.reasons.options) is True
