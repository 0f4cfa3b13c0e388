"""Evictions gang by gang: each preemptor that finds no free room gets the cheapest victims, and is then placed as any
other gang in the room they free, so that it spans no more domains than it must.

Gang by gang, each takes the least loss that those before it leave: the first may take the cheap node that would have
spared the second a dear one, or the only one that lets the second start. So one model chooses places and victims of
several preemptors where it is small. The gang-by-gang answer is its incumbent; it loses no more, and starts no fewer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from solver.mip.lexicographic import verdict_of
from solver.options import Options
from solver.plan import Objective
from solver.preemption.evictions import total_loss
from solver.preemption.plan_state import PlanState
from solver.preemption.search import EvictionChoice, EvictionProblem, cheapest_victims
from solver.search import Incumbent, Limits, Moves, improve
from solver.semantics.eviction_rights import ReclaimRight, Victim, min_retained_amounts
from solver.semantics.gang_classes import waiting_class
from solver.semantics.order import precedence, serving_order_key
from solver.semantics.placement_cost import COST_NAMES
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


EvictionRights = tuple[tuple[int, bool, tuple[int, ...], ReclaimRight], ...]
"""The gangs that may be evicted for a gang, ascending: (victim, whether of its own queue, queues that must be able to
spare what the victim loses, the gang's right to reclaim)."""


def with_joint_victims(plan: PlanState) -> PlanState:
    """Return the plan with the victims and places of all preemptors chosen again, jointly where they have the same
    rights, if that loses less."""
    if len(plan.preemptors) < 2 or _is_too_large(plan, len(plan.preemptors)):
        return plan
    best = plan
    for group in _groups_by_rights(plan, ()):
        if len(group) > 1:
            best = with_joint_preemption(best, group, ()) or best
    return best


def with_extra_preemptor(plan: PlanState, j: int) -> PlanState | None:
    """Return the plan in which gang j, for which no victims are found alone, starts next to the preemptors so far, all
    of them placed again; None where it cannot."""
    if not plan.preemptors or _is_too_large(plan, len(plan.preemptors) + 1):
        return None
    group = next((group for group in _groups_by_rights(plan, (j,)) if j in group), [j])
    others = [w for w in group if w != j]
    return with_joint_preemption(plan, others, (j,)) if others else None


def _is_too_large(plan: PlanState, gangs: int) -> bool:
    """Return whether gangs times nodes are far beyond the size of a model, so that the nodes that matter are not even
    looked for."""
    budget = plan.options.budget
    return gangs * len(plan.problem.nodes) > budget.preemptor_node_factor * budget.preemptor_variables


def _groups_by_rights(plan: PlanState, extra_gangs: Sequence[int]) -> list[list[int]]:
    """Preemptors and extra gangs with the same rights while none of them has got anything, each group in serving
    order."""
    base = _without_preemptors(plan, plan.preemptors)
    if base is None:
        return []
    found: dict[EvictionRights, list[int]] = {}
    for j in sorted({*plan.preemptors, *extra_gangs}, key=partial(serving_order_key, plan.problem)):
        found.setdefault(_eviction_rights(base, j, base.evictions.candidates(j)[0]), []).append(j)
    return list(found.values())


def _eviction_rights(plan: PlanState, j: int, victims: Sequence[Victim]) -> EvictionRights:
    gangs = plan.problem.gangs
    return tuple((v.gang, gangs[v.gang].queue == gangs[j].queue, v.checked_queues, v.right) for v in victims)


def with_joint_preemption(plan: PlanState, preemptors: Sequence[int], extra_gangs: Sequence[int]) -> PlanState | None:
    """Return the plan in which victims are chosen at once for these preemptors and for extra gangs, which have none;
    None where that is no better, or too costly.

    minimise sum_v loss_v e[v], then sum_v z[v], then sum_v d[v]        all of them start        (docs/develop/model.md,
    Evictions)
    """
    base = _without_preemptors(plan, preemptors)
    gangs = sorted((*preemptors, *extra_gangs), key=partial(serving_order_key, plan.problem))
    joint = None if base is None else _joint_problem(base, gangs)
    if base is None or joint is None or not joint.victims:
        return None
    if any(base.evictions.is_hopeless(j, joint.victims) for j in extra_gangs):
        return None
    all_evicted, preemptors_of = plan.evictions.evicted_pods, plan.evictions.preemptors_of
    evicted = {v: all_evicted[v] for v, js in preemptors_of.items() if set(js) <= set(preemptors)}
    current = [*(plan.placements[j] for j in preemptors), *evicted.values()]
    choice = _solve_joint_evictions(joint, {p.node for pods in current for p in pods}, plan.options)
    if choice is None:
        return None
    before = total_loss(plan.problem, evicted), plan.evictions.fully_evicted_count(evicted), len(evicted)
    if extra_gangs or tuple(o.value for o in choice.objectives) < before:
        return _apply_choice(base, gangs, choice)
    if choice.objectives[0].bound < before[0]:
        return None
    proven = plan.copy()
    spread = {j: tuple(o for o in plan.preemptors[j] if o.name in COST_NAMES) for j in preemptors}
    _record_objectives(proven, gangs, _incumbent_objectives(choice, before, plan.options.gap), spread)
    return proven


def _solve_joint_evictions(joint: EvictionProblem, current_nodes: set[int], options: Options) -> EvictionChoice | None:
    """Return the answer over the nodes where each of the gangs is cheapest and those in use now; over more of them
    until it is proved."""
    bounds = [joint.loss_bounds(k) for k in range(len(joint.gangs))]
    role_count = sum(len(gang_class.roles) for gang_class in joint.gang_classes)
    best: EvictionChoice | None = None
    for size in options.budget.eviction_nodes:
        choices = [bound.choose_nodes(size) for bound in bounds]
        nodes = frozenset(current_nodes).union(*(choice.nodes for choice in choices))
        placements = sum(len(v.running) for v in joint.useful_victims(nodes))
        if len(nodes) * role_count + placements > options.budget.preemptor_variables:
            break
        outside_bound = min(choice.outside_bound for choice in choices)
        best = joint.solve(nodes, outside_bound, options) or best
        if math.isinf(outside_bound) or (best is not None and joint.is_conclusive(best, outside_bound)):
            break
    return best


def _incumbent_objectives(answer: EvictionChoice, values: tuple[int, int, int], gap: float) -> tuple[Objective, ...]:
    """Return the objectives of the incumbent: no choice loses less. Bounds on whole gangs and victims hold only where
    the model's answer is as good until there."""
    loss, whole, victims = answer.objectives
    same_loss = loss.value == values[0]
    same_whole = (loss.value, whole.value) == values[:2]
    bounds = (
        values[0],
        min(whole.bound, values[1]) if same_loss else 0,
        min(victims.bound, values[2]) if same_whole else min(values[2], 1),
    )
    names = ("loss", "whole gangs", "victims")
    return tuple(
        verdict_of(name, value, bound, gap, maximise=False)
        for name, value, bound in zip(names, values, bounds, strict=True)
    )


def _without_preemptors(plan: PlanState, preemptors: Iterable[int]) -> PlanState | None:
    """Return the plan in which these preemptors do not start and their victims stay; None where victims go for others
    too, or their room, on nodes or in queues, is taken."""
    cancelled, base = set(preemptors), plan.copy()
    for j in sorted(cancelled):
        base.cancel_start(j)
    for v, js in sorted(plan.evictions.preemptors_of.items()):
        if cancelled.isdisjoint(js):
            continue
        if not cancelled.issuperset(js):
            return None
        try:
            base.restore_pods(v, base.evictions.evicted_pods[v])
        except ValueError:
            return None
    if base.starts_beyond_ceilings() or base.state.free_nodes.breaks_pod_rules:
        return None
    if cancelled.issuperset(plan.preemptors):
        base.evictions.forget_measures()
    return base


def _joint_problem(base: PlanState, gangs: Sequence[int]) -> EvictionProblem | None:
    """Return the joint eviction problem of these gangs; None where their rights differ, or not all of them have rights
    jointly."""
    problem, evictions = base.problem, base.evictions
    found = [evictions.candidates(j) for j in gangs]
    victims, limits = found[0]
    if len({_eviction_rights(base, j, some) for j, (some, _) in zip(gangs, found, strict=True)}) > 1:
        return None
    joint = EvictionProblem(
        evictions,
        tuple(gangs),
        tuple(replace(waiting_class(j, problem.gangs[j]), only_gang=j) for j in gangs),
        [replace(v, retained_amounts=min_retained_amounts(problem, gangs, v.gang)) for v in victims],
        limits,
    )
    rights = {problem.gangs[v.gang].queue: v.right for v in victims if v.checked_queues}
    if rights and any(other != limits for _, other in found[1:]):
        return None
    for home in {problem.gangs[j].queue for j in gangs}:
        own = [j for j in gangs if problem.gangs[j].queue == home]
        if any(evictions.right_to_reclaim(own, queue) != right for queue, right in rights.items()):
            return None
    return joint


def _apply_choice(base: PlanState, gangs: Sequence[int], choice: EvictionChoice) -> PlanState:
    """Return the plan with this choice, each gang then spread as well as the others let it."""
    for v, pods in choice.evicted_pods.items():
        nodes = {p.node for p in pods}
        beneficiaries = [j for j in gangs if any(p.node in nodes for p in choice.placements[j])]
        base.evict_pods(v, pods, beneficiaries or gangs)
    base.evictions.note_measures(choice.evicted_pods, choice.victims, choice.reclaim_limits)
    for j in gangs:
        base.start_gang(j, choice.placements[j])
    spread: dict[int, tuple[Objective, ...]] = {}
    for j in gangs:
        base.cancel_start(j)
        placed, spread[j] = base.feasible_placement(j) or (choice.placements[j], ())
        base.start_gang(j, placed)
    _record_objectives(base, gangs, choice.objectives, spread)
    return base


def _record_objectives(
    plan: PlanState,
    gangs: Sequence[int],
    objectives: tuple[Objective, ...],
    spread: Mapping[int, tuple[Objective, ...]],
) -> None:
    """Note the joint objectives with the first of the gangs, and with each how well it is spread."""
    for j in gangs:
        plan.record_preemptor(j, (*(objectives if j == gangs[0] else ()), *spread[j]))
