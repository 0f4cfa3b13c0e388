"""Several gangs that room is made for: their places and their victims chosen together, where that is one small model.

Gang by gang, each takes the least loss that those before it leave: the first may take the cheap node that would have
spared the second a dear one, or the only one that lets the second start. The gang-by-gang answer is the incumbent;
together they lose no more, and start no fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from solver.mip.lexicographic import verdict_of
from solver.options import Options
from solver.plan import Objective
from solver.preemption.search import EvictionChoice, EvictionProblem, solve_eviction_model, total_loss
from solver.problem import Placement, Vector
from solver.semantics.eviction_rights import Victim, is_entitled_to_reclaim, min_retained_amounts
from solver.semantics.gang_classes import meets_minima, waiting_class
from solver.semantics.placement_cost import COST_NAMES
from solver.semantics.placements import add_vectors
from solver.semantics.priorities import serving_order_key

if TYPE_CHECKING:
    from solver.planner import PlanState

EvictionRights = tuple[tuple[int, bool, tuple[int, ...]], ...]
"""(victim, whether of the gang's own queue, queues that have to spare what it loses), ascending: who may go for a gang."""


def with_joint_victims(state: PlanState) -> PlanState:
    """The same course with the victims and the places of all winners chosen anew, those that have the same rights
    together, where that loses less."""
    if len(state.preemptors) < 2 or _is_too_large(state, len(state.preemptors)):
        return state
    best = state
    for group in _groups_by_rights(state, ()):
        if len(group) > 1:
            best = with_joint_preemption(best, group, ()) or best
    return best


def with_extra_preemptor(state: PlanState, j: int) -> PlanState | None:
    """The course in which gang j, for which alone no room can be made, starts beside the winners so far, once all of
    them are placed anew; None where it does not."""
    if not state.preemptors or _is_too_large(state, len(state.preemptors) + 1):
        return None
    group = next((group for group in _groups_by_rights(state, (j,)) if j in group), [j])
    winners = [w for w in group if w != j]
    return with_joint_preemption(state, winners, (j,)) if winners else None


def _is_too_large(state: PlanState, gangs: int) -> bool:
    """Whether not even to look for the nodes that matter: gangs times nodes are far beyond what one model may have."""
    return (
        gangs * len(state.problem.nodes)
        > state.options.budget.preemptor_node_factor * state.options.budget.preemptor_variables
    )


def _groups_by_rights(state: PlanState, extra_gangs: Sequence[int]) -> list[list[int]]:
    """Winners and `more` by what rights they have while none of them has got anything, each group in the order in which
    it was served."""
    base = _without_preemptors(state, state.preemptors)
    if base is None:
        return []
    found: dict[EvictionRights, list[int]] = {}
    for j in sorted({*state.preemptors, *extra_gangs}, key=partial(serving_order_key, state.problem)):
        found.setdefault(_eviction_rights(base, j, base.evictions.candidates(j)[0]), []).append(j)
    return list(found.values())


def _eviction_rights(state: PlanState, j: int, victims: Sequence[Victim]) -> EvictionRights:
    gangs = state.problem.gangs
    return tuple((v.gang, gangs[v.gang].queue == gangs[j].queue, v.checked_queues) for v in victims)


def with_joint_preemption(state: PlanState, preemptors: Sequence[int], extra_gangs: Sequence[int]) -> PlanState | None:
    """The course in which room is made at once for these winners and for `more`, who found none; None where that is no
    better, or too much to ask.

    minimise sum_v loss_v e[v], then sum_v z[v], then sum_v d[v]        all of them start        (docs/model.md,
    Evictions)
    """
    base = _without_preemptors(state, preemptors)
    gangs = sorted((*preemptors, *extra_gangs), key=partial(serving_order_key, state.problem))
    making = None if base is None else _joint_problem(base, gangs)
    if (
        base is None
        or making is None
        or not making.victims
        or any(base.evictions.is_hopeless(j, making.victims) for j in extra_gangs)
    ):
        return None
    spots = {
        v: state.evictions.evicted_pods[v]
        for v, js in state.evictions.preemptors_of.items()
        if set(js) <= set(preemptors)
    }
    stand = {p.node for j in preemptors for p in state.placements[j]} | {
        p.node for pods in spots.values() for p in pods
    }
    taken = _solve_joint_evictions(making, stand, state.options)
    if taken is None:
        return None
    before = total_loss(state.problem, spots), state.evictions.fully_evicted_count(spots), len(spots)
    if extra_gangs or tuple(o.value for o in taken.objectives) < before:
        return _apply_choice(base, gangs, taken)
    if taken.objectives[0].bound < before[0]:
        return None
    kept = state.copy()
    _record_objectives(
        kept,
        gangs,
        _incumbent_objectives(taken, before, state.options.gap),
        {j: _spread_objectives(state.preemptors[j]) for j in preemptors},
    )
    return kept


def _solve_joint_evictions(
    eviction_problem: EvictionProblem, current_nodes: set[int], options: Options
) -> EvictionChoice | None:
    """The answer over the nodes where each of the gangs is cheapest, and those where they stand now; over more of them
    until it is proved."""
    bounds = [eviction_problem.loss_bounds(k) for k in range(len(eviction_problem.gangs))]
    best: EvictionChoice | None = None
    for size in options.budget.eviction_nodes:
        choices = [bound.choose_nodes(size) for bound in bounds]
        nodes = frozenset(current_nodes).union(*(choice.nodes for choice in choices))
        useful = [
            v
            for v in eviction_problem.victims
            if eviction_problem.count_everywhere or any(p.node in nodes for p in v.running)
        ]
        if (
            len(nodes) * sum(len(shape.roles) for shape in eviction_problem.gang_classes)
            + sum(len(v.running) for v in useful)
            > options.budget.preemptor_variables
        ):
            break
        beyond = min(choice.outside_bound for choice in choices)
        best = solve_eviction_model(eviction_problem.model(nodes), eviction_problem.gangs, beyond, options) or best
        if math.isinf(beyond) or (best is not None and eviction_problem.is_conclusive(best)):
            break
    return best


def _incumbent_objectives(
    answer: EvictionChoice, incumbent_values: tuple[int, int, int], gap: float
) -> tuple[Objective, ...]:
    """That no choice loses less than the incumbent. How few could go whole, and how few be victims, is not known where
    the model found no answer that was as good until there."""
    loss, whole, victims = answer.objectives
    alike = loss.value == incumbent_values[0], (loss.value, whole.value) == incumbent_values[:2]
    return (
        verdict_of("loss", incumbent_values[0], incumbent_values[0], gap, maximise=False),
        verdict_of(
            "whole gangs",
            incumbent_values[1],
            min(whole.bound, incumbent_values[1]) if alike[0] else 0,
            gap,
            maximise=False,
        ),
        verdict_of(
            "victims",
            incumbent_values[2],
            min(victims.bound, incumbent_values[2]) if alike[1] else min(incumbent_values[2], 1),
            gap,
            maximise=False,
        ),
    )


def _without_preemptors(state: PlanState, preemptors: Iterable[int]) -> PlanState | None:
    """The course in which these winners have no room yet, and their victims still have theirs; None where others have a
    hand in it."""
    gone, base = set(preemptors), state.copy()
    for j in sorted(gone):
        base.start_gang(j, base.placements[j], -1)
    for v, js in sorted(state.evictions.preemptors_of.items()):
        if not gone.isdisjoint(js):
            if not gone.issuperset(js):
                return None
            try:
                base.evictions.restore_pods(v, base.evictions.evicted_pods[v])
            except ValueError:
                return None
            if meets_minima(base.problem.gangs[v]):
                base.placements[v] = base.evictions.running[v]
    if gone.issuperset(state.preemptors):
        base.evictions.protected_resources.clear()
    return base


def _joint_problem(base: PlanState, gangs: Sequence[int]) -> EvictionProblem | None:
    """What is to be decided; None where these gangs do not have the same rights any more, or not all of them together."""
    standing, problem = base.evictions, base.problem
    width = len(problem.resources)
    shapes = tuple(replace(waiting_class(j, problem.gangs[j]), only_gang=j) for j in gangs)
    found = [standing.candidates(j) for j in gangs]
    victims, exposures = found[0]
    if len({_eviction_rights(base, j, some) for j, (some, _) in zip(gangs, found, strict=True)}) > 1:
        return None
    if any(v.checked_queues for v in victims):
        asked: dict[int, Vector] = {}
        for j, shape in zip(gangs, shapes, strict=True):
            home = problem.gangs[j].queue
            asked[home] = add_vectors(asked.get(home, (0,) * width), shape.min_demand(width))
        if any(other != exposures for _, other in found[1:]):
            return None
        if not all(
            is_entitled_to_reclaim(problem, standing.ledger.held, home, standing.deserved, amount)
            for home, amount in asked.items()
        ):
            return None
    return EvictionProblem(
        standing,
        tuple(gangs),
        shapes,
        [replace(v, retained_amounts=min_retained_amounts(problem, gangs, v.gang)) for v in victims],
        exposures,
    )


def _apply_choice(base: PlanState, gangs: Sequence[int], choice: EvictionChoice) -> PlanState:
    """The course with this answer, each gang then spread as well as the others let it."""
    lost = {v: {p.node for p in pods} for v, pods in choice.evicted_pods.items()}
    for v, pods in choice.evicted_pods.items():
        mine = [j for j in gangs if any(p.node in lost[v] for p in choice.placements[j])]
        base.evict_pods(v, pods, mine or gangs)
    base.evictions.record_protected_resources(choice.evicted_pods, gangs[0], choice.exposures)
    placed: dict[int, tuple[Placement, ...]] = dict(choice.placements)
    for j in gangs:
        base.start_gang(j, placed[j])
    spreading: dict[int, tuple[Objective, ...]] = {}
    for j in gangs:
        base.start_gang(j, placed[j], -1)
        placed[j], spreading[j] = base.feasible_placement(j) or (placed[j], ())
        base.start_gang(j, placed[j])
    _record_objectives(base, gangs, choice.objectives, spreading)
    return base


def _record_objectives(
    state: PlanState,
    gangs: Sequence[int],
    objectives: tuple[Objective, ...],
    spreading: Mapping[int, tuple[Objective, ...]],
) -> None:
    """What is known of their loss is known of all together, and stands with the first of them."""
    for j in gangs:
        state.preemptors[j] = (*(objectives if j == gangs[0] else ()), *spreading[j])


def _spread_objectives(objectives: tuple[Objective, ...]) -> tuple[Objective, ...]:
    return tuple(o for o in objectives if o.name in COST_NAMES)
