"""Evictions gang by gang: each preemptor that finds no free room gets the cheapest victims, and is then placed as any
other gang in the room they free, so that it spans no more domains than it must."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from solver.preemption.evictions import total_loss
from solver.preemption.joint import with_extra_preemptor, with_joint_victims
from solver.preemption.plan_state import PlanState
from solver.preemption.search import cheapest_victims
from solver.search.search import Incumbent, Limits, Moves, improve
from solver.semantics.gang_classes import waiting_class
from solver.semantics.priorities import precedence, serving_order_key
from solver.state.state import Pods

EVICTING_SHARE = 0.5
"""Share of the remaining time for the choice of victims; the rest is for dropping unneeded ones."""


def evict_for_waiting(plan: PlanState, waiting: Sequence[int], current: int) -> PlanState:
    """Evict for the waiting gangs of this precedence in serving order. Room that evictions leave over is offered to the
    next in order, and in the end to earlier gangs."""
    clock = time.perf_counter()
    order = sorted(waiting, key=partial(serving_order_key, plan.problem))
    limited, evicted = _evict_in_order(replace(plan, options=plan.options.within(EVICTING_SHARE)), order, current)
    plan = replace(limited, options=plan.options)
    if evicted:
        start_in_leftovers(plan, order)
    plan = with_joint_victims(plan)
    plan.add_eviction_seconds(time.perf_counter() - clock)
    return plan


def _evict_in_order(plan: PlanState, order: Sequence[int], current: int) -> tuple[PlanState, bool]:
    """(the plan, whether any gang was started by an eviction)."""
    evicted = False
    hopeless: set[object] = set()
    for j in order:
        if plan.options.clock.is_over():
            break
        gang = plan.problem.gangs[j]
        if not _is_eligible(plan, j) or _start_in_free_room(plan, j) or precedence(gang) != current:
            continue
        class_key = gang.queue, gang.eviction.may_evict, waiting_class(j, gang)
        other = None if class_key in hopeless else (plan if evict_for_gang(plan, j) else with_extra_preemptor(plan, j))
        if other is None:
            hopeless.add(class_key)
        else:
            plan, evicted = other, True
            hopeless.clear()
    return plan, evicted


def start_in_leftovers(plan: PlanState, order: Sequence[int]) -> None:
    """Start the gangs that fit into room which evictions have left over, in this order."""
    refused: set[object] = set()
    for j in order:
        class_key = plan.problem.gangs[j].queue, waiting_class(j, plan.problem.gangs[j])
        if class_key not in refused and _is_eligible(plan, j) and not _start_in_free_room(plan, j):
            refused.add(class_key)


def _is_eligible(plan: PlanState, j: int) -> bool:
    """Return whether gang j waits and may start."""
    return j not in plan.placements and bool(plan.eligible_gangs([j]))


def _start_in_free_room(plan: PlanState, j: int) -> bool:
    """Start gang j in what evictions have left over, if it fits there."""
    found = plan.feasible_placement(j) if plan.evictions.evicted_pods else None
    if found is not None:
        plan.start_preemptor(j, *found)
    return found is not None


def evict_for_gang(plan: PlanState, j: int) -> bool:
    """Evict for gang j and start it; False, and nothing changed, where that cannot be."""
    choice = cheapest_victims(plan.evictions, j, plan.options)
    if choice is None:
        return False
    for v, pods in choice.evicted_pods.items():
        plan.evict_pods(v, pods, (j,))
    plan.evictions.note_measures(choice.evicted_pods, choice.victims, choice.reclaim_limits)
    placed, spread = plan.feasible_placement(j) or (choice.placements[j], ())
    plan.start_preemptor(j, placed, (*choice.objectives, *spread))
    return True


# ---- victims that are not needed after all


def without_needless_victims(plan: PlanState) -> PlanState:
    """Return the plan without the victims that it does not need. The proven choice for a single preemptor has none."""
    alone = len({j for js in plan.evictions.preemptors_of.values() for j in js}) <= 1
    if alone and all(o.verdict == "proven" for o in plan.preemptor_objectives("loss")):
        return plan
    return with_spared_victims(plan)


def with_spared_victims(plan: PlanState) -> PlanState:
    """Return the plan in which victims stay whose preemptors fit next to them, tried in order of their loss, the
    largest first."""

    def moves(incumbent: Incumbent[PlanState]) -> Moves[PlanState]:
        """A victim of the plan stays after all, and its preemptors are placed again; the largest loss first."""
        gone, problem = plan.evictions.evicted_pods, plan.problem
        for v in sorted(gone, key=lambda v: (-total_loss(problem, {v: gone[v]}), v)):
            for pods in _restorable_units(plan, v):
                yield partial(_with_restored_victim, incumbent.solution, v, pods)

    return improve(plan, _evicted_amount, moves, Limits(plan.options.clock, passes=1))


def _evicted_amount(plan: PlanState) -> tuple[int, int]:
    """(loss, evicted pods)."""
    evicted = plan.evictions.evicted_pods
    return total_loss(plan.problem, evicted), sum(p.pods for pods in evicted.values() for p in pods)


def _restorable_units(plan: PlanState, v: int) -> list[Pods]:
    """Return the parts that a victim may get back: everything when it is evicted whole, or loses parts of subgroups;
    else one pod after another."""
    evicted = plan.evictions.evicted_pods[v]
    if v not in plan.placements or plan.problem.gangs[v].subgroups:
        return [evicted]
    return [(replace(p, pods=1),) for p in evicted for _ in range(p.pods)]


def _with_restored_victim(plan: PlanState, v: int, pods: Pods) -> PlanState | None:
    """Return the plan in which these pods stay and the victim's preemptors are placed again; None where one of them
    then finds no room."""
    plan = plan.copy()
    preemptors = plan.evictions.preemptors_of[v]
    for j in preemptors:
        plan.cancel_start(j)
    try:
        plan.restore_pods(v, pods)
    except ValueError:
        return None
    for j in preemptors:
        found = plan.feasible_placement(j)
        if found is None:
            return None
        plan.start_gang(j, found[0])
    return None if plan.state.free_nodes.breaks_pod_rules or plan.starts_beyond_ceilings() else plan
