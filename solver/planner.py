"""From a problem to a plan: keep running gangs, decide batch by batch, grow, and explain why the rest waits."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from solver.clock import LATE_WORK
from solver.diagnosis.delays import DelayDiagnosis
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.explanations import Explanation, explain_waiting_gangs, explanation_work
from solver.diagnosis.kept_gangs import unlocated_holders
from solver.facts import SlotShortage
from solver.mip.executors import LOCAL_EXECUTOR, Mapper
from solver.mip.lexicographic import verdict_of
from solver.options import Options
from solver.placement.growth import grow_gangs
from solver.placement.keep import keeps_former_places
from solver.placement.role_affinity import improve_role_affinity
from solver.placement.spread import spread_pods_evenly
from solver.plan import Action, Batch, Decision, Objective, Plan, QueueUse, Verdict
from solver.preemption.plan_state import PlanState
from solver.problem import Problem
from solver.semantics.device_slots import SlotUses, slot_uses_of
from solver.semantics.entitlements import deserved_amounts
from solver.semantics.exclusions import closed_classes, dedicated_nodes, with_fixed_exclusions, without_closed_groups
from solver.semantics.gang_classes import meets_minima
from solver.semantics.placement_cost import COST_NAMES, UnopenedCapacity
from solver.semantics.placements import Placements, add_vectors, new_placements
from solver.state.state import State
from solver.timeline.entitled_growth import lend_dedicated_domains, pass_shares_on, plan_with_entitled_growth
from solver.validation.values import validate

DECIDING_SHARE = 0.7
"""Share of the time for the decisions; the rest is for the reasons."""
_VERDICT_ORDER: tuple[Verdict, ...] = ("proven", "within gap", "limit reached")


def solve(
    problem: Problem, options: Options | None = None, mapper: Mapper = LOCAL_EXECUTOR, *, reasons: bool = True
) -> Plan:
    """Decide every gang of the problem. Same problem and options, same plan (its `seconds` apart), wherever `mapper`
    computes its parts. reasons: also find why gangs wait, and what would help.

    Raises InvalidProblemError, naming the index, for a problem that contradicts itself.
    """
    options = options or Options()
    clock = options.clock.within(options.time_limit, LATE_WORK)
    options = replace(options, clock=clock)
    validate(problem)
    start = _Start.of(problem, options)
    if reasons:
        mapper.prepare(explanation_work(problem, sum(not meets_minima(gang) for gang in problem.gangs)), clock)
    decided = _decide(replace(start, options=options.within(DECIDING_SHARE)), mapper)
    plan = _finish_plan(start, decided, mapper if reasons else None)
    return replace(plan, hit_time_limit=clock.has_struck)


def _decide(start: _Start, mapper: Mapper) -> PlanState:
    """Decide all gangs. Former places that cost a gang its start, or more evictions, or the reserved start, count for
    nothing."""
    decided = _decide_all(start, mapper)
    clock = start.options.clock
    if clock.is_over() or not _may_cost_starts(decided):
        return decided
    plain = _decide_all(start.without_former_places(), mapper)
    return decided if clock.is_over() or _starts_as_much(decided, plain) else plain


def _decide_all(start: _Start, mapper: Mapper) -> PlanState:
    decided = plan_with_entitled_growth(start.plan_state(mapper))
    return decided if start.options.clock.is_over() else pass_shares_on(lend_dedicated_domains(decided))


def _may_cost_starts(decided: PlanState) -> bool:
    """Return whether a gang has started at former places, and another one waits or is evicted."""
    gangs = decided.problem.gangs
    kept = any(gangs[j].former and not meets_minima(gangs[j]) for j in decided.placements)
    return kept and (bool(decided.evictions.evicted_pods) or bool(decided.waiting_gangs()))


def _starts_as_much(decided: PlanState, plain: PlanState) -> bool:
    """Return whether all that starts or stays in the plain plan does so in the other one, with no more loss and the
    reserved start no later."""
    evictions, others = decided.evictions, plain.evictions
    losses = evictions.total_loss(), len(evictions.evicted_pods)
    if not plain.placements.keys() <= decided.placements.keys() or losses > (
        others.total_loss(),
        len(others.evicted_pods),
    ):
        return False
    former, own = plain.reservation, decided.reservation
    if former is None or former.gang in decided.placements:
        return True
    starts = (math.inf if of is None or of.starts_in is None else of.starts_in for of in (own, former))
    return own is not None and own.gang == former.gang and operator.le(*starts)


@dataclass(frozen=True)
class _Start:
    """The state before the plan: as it is, with exclusions that hold for every plan (strict), and with dedicated
    domains open to gangs that may borrow them (lending). closed_classes: node classes that a gang's queue closes to
    it."""

    state: State
    strict: State
    lending: State
    options: Options
    closed_classes: Mapping[int, tuple[frozenset[int], ...]]

    @classmethod
    def of(cls, problem: Problem, options: Options) -> _Start:
        closed = closed_classes(problem)
        state = State.initial(without_closed_groups(problem))
        problem = state.problem
        strict = state.for_problem(with_fixed_exclusions(problem, lending=False))
        lending = state.for_problem(with_fixed_exclusions(problem)) if dedicated_nodes(problem) else strict
        return cls(state, strict, lending, options, closed)

    def without_former_places(self) -> _Start:
        """Return the same for gangs that keep no places."""

        def bare(state: State) -> State:
            gangs = tuple(replace(gang, former=()) if gang.former else gang for gang in state.problem.gangs)
            return state.for_problem(replace(state.problem, gangs=gangs), state.tree)

        state, strict = bare(self.state), bare(self.strict)
        lending = strict if self.lending is self.strict else bare(self.lending)
        return replace(self, state=state, strict=strict, lending=lending)

    def plan_state(self, mapper: Mapper) -> PlanState:
        """Return the plan in which nothing is decided but what stays."""
        return PlanState.initial(self.state.problem, self.strict, self.options, mapper)


def _finish_plan(start: _Start, decided: PlanState, mapper: Mapper | None) -> Plan:
    """Return the plan. mapper: for the reasons; None leaves them out."""
    problem = start.state.problem
    placements = _final_placements(start, decided)
    uses = _slot_uses(decided, placements)
    explanations: Mapping[int, Explanation] = {}
    if mapper is not None:
        explanations = explain_waiting_gangs(_delays(start, decided, placements, uses), mapper)
    decisions = [_decision(decided, j, placements, explanations.get(j)) for j in range(len(problem.gangs))]
    for j, of_gang in uses.items():
        decisions[j] = replace(decisions[j], slot_uses=of_gang)
    return Plan(tuple(decisions), _final_batches(decided), _queue_uses(start.state, decided.state), decided.reservation)


# ---- growth and the last choice of nodes


def _final_placements(start: _Start, decided: PlanState) -> Placements:
    """Return the placements with growth; without evictions and reservation, which were proved for the nodes as they
    are, pods are then spread, or brought near their affinities."""
    problem, state, reserved = start.state.problem, decided.state, decided.reserved
    evicted = decided.evictions.evicted_pods
    shrunk = {j for j in evicted if meets_minima(problem.gangs[j])}
    growing = {j: pods for j, pods in decided.placements.items() if j not in shrunk}
    grown = grow_gangs(
        state,
        growing,
        None if reserved is None else reserved.queue_books,
        () if reserved is None else reserved.exclusions,
        decided.options.budget,
    )
    placements: Placements = decided.placements | grown
    if evicted or reserved is not None:
        return placements
    kept = {j: pods for j, pods in placements.items() if keeps_former_places(problem.gangs[j], pods)}
    placements = {j: pods for j, pods in placements.items() if j not in kept}
    if problem.policy.spread_pods:
        placements = spread_pods_evenly(state, placements)
    if any(gang.role_affinities for gang in problem.gangs):
        unopened = UnopenedCapacity(problem, start.state.tree, start.state.free.amounts).unopened_nodes
        placements = improve_role_affinity(state.problem, state.free_nodes, placements, unopened, start.options)
    return {**kept, **placements}


def _slot_uses(decided: PlanState, placements: Placements) -> SlotUses:
    """Return gang -> the device slots of its new pods."""
    layout, gangs = decided.state.free_nodes.slot_layout, decided.problem.gangs
    new = {j: new_placements(gangs[j], pods) for j, pods in placements.items()} if layout else {}
    return slot_uses_of(decided.problem, layout, new)


# ---- why gangs wait


def _delays(start: _Start, decided: PlanState, placements: Placements, uses: SlotUses) -> DelayDiagnosis:
    """Return the diagnosis's inputs from the plan."""
    problem, options = start.state.problem, start.options
    staying = {j for j in placements if meets_minima(problem.gangs[j])}
    # The first of equal gangs is explained.
    first = sorted(decided.waiting_gangs(), key=lambda j: (-problem.gangs[j].priority, j))
    after = decided.state.with_free(decided.state.free, decided.state.rule_counts)
    state = DiagnosisState(
        start.state,
        after,
        {j: pods for j, pods in placements.items() if j not in staying},
        {j: pods for j, pods in placements.items() if j in staying},
        replace(options, time_limit=min(options.time_limit, options.budget.diagnosis_seconds)),
        uses,
        decided.reservation,
        closed_classes=start.closed_classes,
        reclaimed=decided.evictions.reclaimed_gangs,
        asked_evictions=frozenset(first[: options.budget.eviction_reasons]),
    )
    restricted = start.lending.problem, start.lending.tree
    return DelayDiagnosis(state, restricted, decided.blocked_gangs, decided.waiting_gangs())


# ---- the parts of the plan


def _decision(decided: PlanState, j: int, placements: Placements, why: Explanation | None) -> Decision:
    problem, pods = decided.unrestricted_problem, placements.get(j)
    evicted, preemptors = decided.evictions.evicted_pods.get(j, ()), decided.evictions.preemptors_of.get(j, ())
    if evicted and pods is None:
        return Decision(j, "evict", (), (), evicted_pods=evicted, evicted_for=preemptors)
    placed = decided.state.running.get(j, ()) if pods is None else pods
    leaves = tuple(sorted({leaf for p in placed if (leaf := problem.nodes[p.node].leaf) is not None}))
    if pods is not None:
        action: Action = "keep" if meets_minima(problem.gangs[j]) else "start"
        return Decision(j, action, placed, leaves, evicted_pods=evicted, evicted_for=preemptors)
    facts, repairs = why or ((), ())
    reservation = decided.reservation
    starts_in = reservation.starts_in if reservation is not None and reservation.gang == j else None
    asks_for_slots = any(isinstance(fact, SlotShortage) and not fact.never for fact in facts)
    holders = unlocated_holders(problem, j) if asks_for_slots else ()
    return Decision(
        j,
        "wait",
        placed,
        leaves,
        facts,
        repairs,
        starts_in=starts_in,
        unlocated_holders=holders,
        held=j in decided.held_gangs,
    )


def _queue_uses(before: State, after: State) -> tuple[QueueUse, ...]:
    totals = before.problem.totals
    found = []
    for q, deserved in enumerate(deserved_amounts(before.problem)):
        held, later = before.queue_books.held[q], after.queue_books.held[q]
        share = after.queue_books.weighted_dominant_share(q, totals)
        found.append(QueueUse(q, held, add_vectors(later, held, -1), share, deserved))
    return tuple(found)


def _final_batches(decided: PlanState) -> tuple[Batch, ...]:
    """Return the batches, then those of borrowers, then one of the preemptors: each gang in the one that started it."""
    late = decided.preemptors.keys() | {j for batch in decided.borrower_batches for j in batch.gangs}
    early = (replace(b, gangs=tuple(j for j in b.gangs if j not in late)) for b in decided.batches)
    found = [
        Batch(b.gangs, worst_verdict(b.objectives), b.objectives, b.seconds)
        for b in (*early, *decided.borrower_batches)
        if b.gangs
    ]
    if decided.preemptors:
        objectives = _eviction_objectives(decided)
        gangs = tuple(sorted(decided.preemptors))
        found.append(Batch(gangs, worst_verdict(objectives), objectives, decided.eviction_seconds))
    return tuple(found)


def worst_verdict(objectives: Iterable[Objective]) -> Verdict:
    """Return the least certain of the objectives' verdicts."""
    return max((o.verdict for o in objectives), key=_VERDICT_ORDER.index, default="proven")


def _eviction_objectives(decided: PlanState) -> tuple[Objective, ...]:
    """Sums over the preemptors, each of which was decided given those before it."""
    evictions = decided.evictions
    values = {
        "loss": evictions.total_loss(),
        "whole gangs": evictions.fully_evicted_count(evictions.evicted_pods),
        "victims": len(evictions.evicted_pods),
    }
    found = []
    for name in (*values, *COST_NAMES):
        own = decided.preemptor_objectives(name)
        if own or name in values:
            value, bound = values.get(name, sum(o.value for o in own)), sum(o.bound for o in own)
            found.append(verdict_of(name, value, bound, decided.options.gap, maximise=False))
    return tuple(found)
