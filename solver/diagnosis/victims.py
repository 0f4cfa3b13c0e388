"""Who would go for a waiting gang that had a higher priority: the victims that the plan would choose then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from solver.diagnosis.case import GangDiagnosis
from solver.preemption.evictions import EvictionState
from solver.preemption.search import cheapest_victims


def victims_at(case: GangDiagnosis, priority: int, later: Iterable[int]) -> tuple[int, ...]:
    """The gangs that lose pods to the gang at this priority, once the gangs `later` are decided after it; () where that
    is not known: the plan evicts others, nobody goes, the model is too large, or a limit struck.
    """
    state, j, options = case.state, case.index, case.state.options
    size = len(state.problem.nodes) * len(case.gang.roles)
    if state.after.running != state.before.running or size > options.budget.repair_variables or not case.models.spend():
        return ()
    gangs = list(state.after.problem.gangs)
    gangs[j] = replace(gangs[j], priority=priority)
    then = state.after.without({i: state.started_placements[i] for i in later})
    then = then.with_gangs(replace(then.problem, gangs=tuple(gangs)))
    choice = cheapest_victims(EvictionState.initial(then.problem, then), j, options)
    if choice is None or any(objective.verdict != "proven" for objective in choice.objectives):
        return ()
    return tuple(sorted(choice.evicted_pods))
