"""Repairs by waiting: which gangs must end, and when that is expected."""

from __future__ import annotations

from collections.abc import Sequence

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.minimal import minimal_subset, shortest_prefix
from solver.diagnosis.world import World
from solver.repairs import EndOfGangs


def trial_after_ends(case: GangDiagnosis, t: World) -> World | None:
    """The trial after the end of a minimal set of few gangs: those after which the gang starts soonest, where ends are
    known."""
    trials = EndTrials(case, t)
    return trials.soonest() or trials.smallest()


class EndTrials:
    """Trials in which gangs that run or start have ended."""

    def __init__(self, case: GangDiagnosis, t: World) -> None:
        state = case.state
        self.case, self.trial, self.state, self.budget = case, t, state, state.options.budget
        self.ends = state.expected_ends

    def without(self, some: Sequence[int]) -> World:
        gone = tuple(sorted(some))
        at = max((self.ends[i] for i in gone), default=0) if self.ends.keys() >= set(gone) else None
        return self.trial.with_change(EndOfGangs(gone, at), ended_gangs=gone, start_delay=at or 0)

    def suffices(self, some: Sequence[int]) -> bool:
        return self.case.lets_start(self.without(some))

    def soonest(self) -> World | None:
        """Gangs end one after another, T_1 <= T_2 <= ...; the gang starts at the first T_k at which it fits, since it
        fits the better the more have ended. Of those that have ended by then, the ones that it does not need are
        dropped, first all that hold nothing on the nodes where it would be."""
        gangs = self.state.problem.gangs
        chosen = shortest_prefix(sorted(self.ends, key=lambda i: (self.ends[i], gangs[i].age, i)), self.suffices)
        if chosen is None:
            return None
        nodes = {p.node for p in self.case.question(self.without(chosen)).placement() or ()}
        near = tuple(i for i in chosen if nodes & {p.node for p in self.state.pods_of(i, with_plan=True)})
        if len(near) < len(chosen) and near and self.suffices(near):
            chosen = near
        return self._minimal(chosen)

    def smallest(self) -> World | None:
        """Running gangs, whatever is known of their ends: a single one, the smallest first, else the largest."""
        kept = self.state.kept_placements
        order = sorted(kept, key=lambda i: (sum(p.pods for p in kept[i]), i))
        chosen = shortest_prefix(order[::-1], self.suffices)
        if chosen is None:
            return None
        for i in order[: self.budget.single_ends]:
            if self.suffices((i,)):
                return self.without((i,))
        return self._minimal(chosen)

    def _minimal(self, chosen: tuple[int, ...]) -> World | None:
        """A minimal part of the chosen gangs whose end suffices; None where that is still too many."""
        if len(chosen) > 4 * self.budget.ended_gangs:
            return None
        least = minimal_subset(chosen, self.suffices)
        return self.without(least) if len(least) <= self.budget.ended_gangs and self.suffices(least) else None
