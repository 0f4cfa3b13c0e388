"""From a problem to a plan: keep what runs, decide batch by batch, grow, and say why the rest waits."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from solver.admission.admit import Admission, admit_all, solve_admission
from solver.admission.batches import split_into_batches
from solver.admission.greedy_fill import (
    add_gangs_that_fit,
    first_improvement,
    floor_after_exchange,
    greedy_floor,
    unpackable_objective,
)
from solver.admission.greedy_floor import GreedyFloor, is_floor_better
from solver.admission.greedy_floor import floor_objectives as floor_objectives
from solver.diagnosis import DiagnosisState, Explanation
from solver.diagnosis.delay_repairs import waiting_explanations
from solver.diagnosis.delays import DelayDiagnosis
from solver.diagnosis.slot_holders import unlocated_holders
from solver.greedy.least_fragmentation import fragmentation_aware_placers, may_go_anywhere
from solver.mip.engine import watch_time_limit
from solver.mip.executors import LOCAL_EXECUTOR, Mapper
from solver.mip.lexicographic import verdict_of
from solver.models.sets import Bucket, Sets, coarsest_buckets, split_buckets
from solver.options import Options
from solver.placement.fit import shortage
from solver.placement.growth import grow_gangs
from solver.placement.independent_parts import place_independent_groups
from solver.placement.role_affinity import improve_role_affinity
from solver.placement.spread_pods import spread_pods_evenly
from solver.plan import Batch, Decision, Objective, Plan, QueueUse, Reservation, Verdict
from solver.preemption.joint import with_extra_preemptor, with_joint_victims
from solver.preemption.search import EvictionState, cheapest_victims, total_loss
from solver.problem import Placement, Problem
from solver.semantics.device_slots import IntArray, slot_uses_of
from solver.semantics.eviction_rights import allows_eviction
from solver.semantics.exclusions import dedicated_nodes, exclude_for_gang, exclude_nodes, with_fixed_exclusions
from solver.semantics.gang_classes import gangs_by_class, meets_minima, waiting_class
from solver.semantics.placement_cost import COST_NAMES, UnopenedCapacity
from solver.semantics.placements import Placements, merge_placements, new_placements, placed_demand
from solver.semantics.priorities import eligible_in_order, precedence, serving_order_key
from solver.semantics.queue_limits import cluster_totals, deserved_amounts
from solver.semantics.slot_holdings import SlotHoldings
from solver.semantics.topology import TopologyTree
from solver.state.free_nodes import FreeNodes, free_and_overcommitted
from solver.state.pod_rules import initial_rule_counts
from solver.state.queue_books import QueueBooks
from solver.timeline.lending import lend_dedicated_domains
from solver.timeline.reservation import reserved_exclusions
from solver.timeline.two_pass import plan_with_reservation
from solver.validation.values import validate

_VERDICT_ORDER: tuple[Verdict, ...] = ("proven", "within gap", "limit reached")


def solve(problem: Problem, options: Options | None = None, mapper: Mapper = LOCAL_EXECUTOR) -> Plan:
    """Decide every gang of the problem. Same problem and options, same plan (its `seconds` apart), wherever `mapper`
    has its parts worked out.

    Raises InvalidProblemError, naming the index, for a problem that contradicts itself.
    """
    with watch_time_limit() as watch:
        plan = _make_plan(problem, options or Options(), mapper)
    return replace(plan, hit_time_limit=watch.hit_time_limit)


def _make_plan(problem: Problem, options: Options, mapper: Mapper) -> Plan:
    """`solve`, without noticing the clock."""
    validate(problem)
    timely = replace(options, deadline=time.monotonic() + options.time_limit)
    tree, before = TopologyTree(problem), QueueBooks(problem)
    free_before, owed = free_and_overcommitted(problem)
    neighbours = initial_rule_counts(problem)
    running = {j: merge_placements(g.running) for j, g in enumerate(problem.gangs)}
    kept = {j for j, g in enumerate(problem.gangs) if meets_minima(g)}
    strict = with_fixed_exclusions(problem, lending=False)
    usable = with_fixed_exclusions(problem) if dedicated_nodes(problem) else strict
    strict_tree = tree if strict is problem else TopologyTree(strict)
    usable_tree = strict_tree if usable is strict else TopologyTree(usable)
    room = FreeNodes(free_before, neighbours)
    start = PlanState.initial(
        problem, strict, strict_tree, room, owed, before.copy(), {j: running[j] for j in kept}, timely, mapper
    )
    course = lend_dedicated_domains(plan_with_reservation(start, _decide_gangs))
    whole = cluster_totals(problem)
    shrunk = course.evictions.evicted_pods.keys() & kept
    growing = {j: pods for j, pods in course.placements.items() if j not in shrunk}
    placements = course.placements | grow_gangs(
        course.problem,
        course.tree,
        course.room,
        course.ledger,
        growing,
        whole,
        course.ledger_at_start,
        course.lasting_gangs,
        options.budget.growth_strides,
    )
    if (
        problem.policy.spread_pods and not course.evictions.evicted_pods and course.reservation is None
    ):  # both were proved for the nodes as they are
        placements = spread_pods_evenly(course.problem, course.room, placements)
    if (
        any(gang.role_affinities for gang in problem.gangs)
        and not course.evictions.evicted_pods
        and course.reservation is None
    ):
        placements = improve_role_affinity(
            course.problem,
            course.room,
            placements,
            UnopenedCapacity(problem, tree, free_before.amounts).unopened_nodes,
            options.budget,
        )
    started = {j: pods for j, pods in placements.items() if j not in kept}
    staying = {j: pods for j, pods in placements.items() if j in kept}
    patience = replace(options, time_limit=min(options.time_limit, options.budget.diagnosis_seconds))
    new = (
        {j: new_placements(problem.gangs[j], pods) for j, pods in placements.items()} if course.room.slot_layout else {}
    )
    uses = slot_uses_of(problem, course.room.slot_layout, new)
    held = tuple(sorted({p.node for p in course.reservation.placements})) if course.reservation is not None else ()
    beside = course.room.rule_counts
    world = DiagnosisState(
        problem,
        tree,
        free_before,
        before,
        course.room.vectors,
        course.ledger,
        started,
        staying,
        patience,
        beside,
        uses,
        held,
    )
    final = (
        usable if course.reservation is None else exclude_nodes(usable, reserved_exclusions(usable, course.reservation))
    )
    final_tree = usable_tree if final is usable else TopologyTree(final)
    waits = DelayDiagnosis(
        world, usable, usable_tree, final, final_tree, course.reservation, course.blocked_gangs, course.waiting_gangs()
    )
    why = waiting_explanations(waits, mapper)
    decisions = [
        _decision(problem, j, placements.get(j), running[j], j in kept, course, why.get(j))
        for j in range(len(problem.gangs))
    ]
    for j, cells in uses.items():
        decisions[j] = replace(decisions[j], slot_uses=cells)
    return Plan(
        tuple(decisions), course.final_batches(), _queue_uses(problem, before, course.ledger, whole), course.reservation
    )


def worst_verdict(objectives: Iterable[Objective]) -> Verdict:
    """The least certain of the objectives' verdicts."""
    return max((o.verdict for o in objectives), key=_VERDICT_ORDER.index, default="proven")


@dataclass
class PlanState:
    """What is decided so far. batches: gangs asked, objectives, seconds. winners: gangs that started once room had been
    made -> objectives.

    whole: the problem with nothing closed. borrowed: batches of gangs that start in domains that others keep. With a
    reservation: later, what the queues hold when it falls due; lasting: gangs that would still be there then; barred:
    those of them that may not start for the sake of its queues. `problem` then keeps the lasting ones off its nodes.
    """

    unrestricted_problem: Problem
    problem: Problem
    tree: TopologyTree
    options: Options
    mapper: Mapper
    room: FreeNodes
    ledger: QueueBooks
    placements: dict[int, tuple[Placement, ...]]
    evictions: EvictionState
    batches: list[tuple[tuple[int, ...], tuple[Objective, ...], float]] = field(default_factory=list)
    preemptors: dict[int, tuple[Objective, ...]] = field(default_factory=dict)
    eviction_seconds: float = 0.0
    borrower_batches: tuple[tuple[tuple[int, ...], tuple[Objective, ...], float], ...] = ()
    reservation: Reservation | None = None
    ledger_at_start: QueueBooks | None = None
    lasting_gangs: frozenset[int] = frozenset()
    blocked_gangs: frozenset[int] = frozenset()

    @classmethod
    def initial(
        cls,
        unrestricted_problem: Problem,
        problem: Problem,
        tree: TopologyTree,
        room: FreeNodes,
        owed: IntArray,
        ledger: QueueBooks,
        kept_placements: dict[int, tuple[Placement, ...]],
        options: Options,
        mapper: Mapper,
    ) -> PlanState:
        running = {
            j: merge_placements(gang.running) for j, gang in enumerate(problem.gangs) if gang.evictable and gang.running
        }
        return cls(
            unrestricted_problem,
            problem,
            tree,
            options,
            mapper,
            room,
            ledger,
            kept_placements,
            EvictionState(problem, tree, room, ledger, running, owed, SlotHoldings(problem)),
        )

    def copy(self) -> PlanState:
        """The same, to be taken further apart from this one."""
        room, ledger = self.room.copy(), self.ledger.copy()
        return replace(
            self,
            room=room,
            ledger=ledger,
            placements=dict(self.placements),
            evictions=self.evictions.copy(room, ledger),
            batches=list(self.batches),
            preemptors=dict(self.preemptors),
            ledger_at_start=None if self.ledger_at_start is None else self.ledger_at_start.copy(),
        )

    def waiting_gangs(self) -> list[int]:
        """Gangs that neither run nor start, those that are evicted apart."""
        return [
            j
            for j in range(len(self.problem.gangs))
            if j not in self.placements and j not in self.evictions.evicted_pods
        ]

    def decide_batches(self, groups: list[list[int]], joint_floor: GreedyFloor | None = None) -> PlanState:
        """Batch after batch. Where they are several, no level ends below what the greedy alone would start of all their
        gangs (`whole`)."""
        course, clean = self, self.copy() if len(groups) > 1 else None
        every, asked = [j for gangs in groups for j in gangs], list[int]()
        if joint_floor is not None and (easy := joint_floor.fully_started_batches(groups)):
            course.decide_by_greedy(
                joint_floor, precedence(self.problem.gangs[easy[-1][0]]), [j for gangs in easy for j in gangs]
            )
            groups = groups[len(easy) :]
            asked += [j for gangs in easy for j in gangs]
        for urgent, alike in groupby(groups, lambda gangs: precedence(self.problem.gangs[gangs[0]])):
            for gangs in alike:
                course.decide_batch(gangs)
                asked += gangs
            if clean is None or all(j in course.placements for j in asked):
                continue
            joint_floor = joint_floor or clean.joint_floor(every)
            order = joint_floor.compare(course.placements, urgent, self.options)
            if order > 0:
                course = clean.copy()
                course.decide_by_greedy(joint_floor, urgent, asked)
            elif order < 0:
                clean = None
        return course

    def eligible_gangs(self, gangs: Iterable[int]) -> list[int]:
        """Those of the gangs that may start."""
        return eligible_in_order(
            self.problem,
            self.waiting_gangs(),
            [j for j in gangs if j not in self.evictions.evicted_pods and j not in self.blocked_gangs],
        )

    def joint_floor(self, gangs: Iterable[int]) -> GreedyFloor:
        """What the greedy alone starts of all these gangs, and in which order it asks them."""
        asking, line = (
            [
                j
                for j in self.eligible_gangs(sorted(gangs))
                if self.ledger.queue_rules.accepts_gangs[self.problem.gangs[j].queue]
            ],
            list[int](),
        )
        s = _model_sets(
            self.problem, self.tree, coarsest_buckets(self.problem), self.room.copy(), self.ledger.copy(), asking
        )
        return GreedyFloor(
            s, greedy_floor(self.problem, self.tree, self.room, self.ledger, asking, serving_order=line), tuple(line)
        )

    def decide_by_greedy(self, joint_floor: GreedyFloor, current_precedence: int, gangs: list[int]) -> None:
        """These gangs, the most urgent, are decided by the greedy."""
        clock = time.perf_counter()
        s, floor = joint_floor.at_or_above(current_precedence)
        placements, objectives = _floor_result(s, floor, None, self.options, self.mapper)
        for j, pods in placements.items():
            self.start_gang(j, pods)
        self.batches.append((tuple(sorted(gangs)), objectives, time.perf_counter() - clock))

    def decide_batch(self, gangs: list[int]) -> None:
        """One batch. Gangs whose last pods were evicted before it belong to it, and wait."""
        clock = time.perf_counter()
        chosen, objectives = _solve_batch(
            self.problem, self.tree, self.room, self.ledger, self.eligible_gangs(gangs), self.options, self.mapper
        )
        for j, pods in chosen.items():
            self.start_gang(j, pods)
        self.batches.append((tuple(gangs), objectives, time.perf_counter() - clock))

    def start_gang(self, j: int, pods: tuple[Placement, ...], sign: int = 1) -> None:
        """Gang j starts with these pods (times -1: it does not after all)."""
        gang = self.problem.gangs[j]
        new = new_placements(gang, pods)
        self.room.add_gang_pods(gang, (replace(p, pods=sign * p.pods) for p in new))
        amount = tuple(sign * x for x in placed_demand(gang, new, len(self.problem.resources)))
        self.ledger.charge_queue(gang.queue, amount)
        if self.ledger_at_start is not None and j in self.lasting_gangs:
            self.ledger_at_start.charge_queue(gang.queue, amount)
        self.evictions.running.pop(j, None)
        self.placements[j] = pods

    def eviction_may_help(self, j: int) -> bool:
        """Whether, before anything starts, eviction may help gang j: somebody may go for it, and counting does not
        prove that it helps nothing."""
        victims, _ = self.evictions.candidates(j)
        return bool(victims) and not self.evictions.is_hopeless(j, victims)

    def feasible_placement(self, j: int) -> tuple[tuple[Placement, ...], tuple[Objective, ...]] | None:
        """Gang j in the room that is free now, and how well it is spread. Takes nothing."""
        if shortage(self.problem, self.tree, waiting_class(j, self.problem.gangs[j]), self.room.vectors) is not None:
            return None
        chosen, objectives = _solve_batch(
            self.problem, self.tree, self.room, self.ledger, [j], self.options, self.mapper
        )
        return (chosen[j], tuple(o for o in objectives if o.name in COST_NAMES)) if j in chosen else None

    def evict_for_waiting(self, waiting: Sequence[int], current_precedence: int) -> None:
        """Evict for the waiting gangs of this urgency, the oldest first. What is left over is for whoever comes later,
        and in the end for all who had their turn when it was not there yet."""
        clock = time.perf_counter()
        hopeless: set[object] = set()
        line, made = sorted(waiting, key=partial(serving_order_key, self.problem)), False
        for j in line:
            gang = self.problem.gangs[j]
            if not self._is_eligible(j) or self._start_in_free_capacity(j) or precedence(gang) != current_precedence:
                continue
            alike = (gang.queue, gang.may_evict, waiting_class(j, gang))
            if alike not in hopeless and (self.evict_for_gang(j) or self._copy_from(with_extra_preemptor(self, j))):
                hopeless.clear()
                made = True
            else:
                hopeless.add(alike)
        refused: set[object] = set()
        for j in line if made else ():
            kind = (self.problem.gangs[j].queue, waiting_class(j, self.problem.gangs[j]))
            if kind not in refused and self._is_eligible(j) and not self._start_in_free_capacity(j):
                refused.add(kind)
        self._copy_from(with_joint_victims(self))
        self.eviction_seconds += time.perf_counter() - clock

    def _is_eligible(self, j: int) -> bool:
        """Whether gang j waits and may start."""
        return j not in self.placements and bool(self.eligible_gangs([j]))

    def _start_in_free_capacity(self, j: int) -> bool:
        """Start gang j in what evictions have left over, if it finds room there."""
        found = self.feasible_placement(j) if self.evictions.evicted_pods else None
        if found is not None:
            self.start_gang(j, found[0])
            self.preemptors[j] = found[1]
        return found is not None

    def _copy_from(self, other: PlanState | None) -> bool:
        """Become the other course, if there is one."""
        for name in (
            ("room", "ledger", "placements", "evictions", "preemptors", "ledger_at_start") if other is not None else ()
        ):
            setattr(self, name, getattr(other, name))
        return other is not None

    def evict_for_gang(self, j: int) -> bool:
        """Make room for gang j and start it; False, and nothing changed, where that cannot be."""
        taken = cheapest_victims(self.evictions, j, self.options)
        if taken is None:
            return False
        for v, pods in taken.evicted_pods.items():
            self.evict_pods(v, pods, (j,))
        self.evictions.record_protected_resources(taken.evicted_pods, j, taken.exposures)
        placed, spreading = self.feasible_placement(j) or (taken.placements[j], ())
        self.start_gang(j, placed)
        self.preemptors[j] = (*taken.objectives, *spreading)
        return True

    def evict_pods(self, v: int, pods: tuple[Placement, ...], preemptors: Sequence[int]) -> None:
        """Gang v loses these pods for the sake of these gangs."""
        self.evictions.evict_pods(v, pods, preemptors)
        if v in self.placements:
            self.placements[v] = self.evictions.running[v]
            if not self.placements[v]:
                del self.placements[v]

    def placement_in(
        self, j: int, room: FreeNodes, ledger: QueueBooks, excluded_nodes: Collection[int] = ()
    ) -> tuple[Placement, ...] | None:
        """The pods of gang j alone in this room, where it fits there and in its queues. shut: nodes without anything
        free, on which it may not be."""
        problem, tree = exclude_for_gang(self.problem, self.tree, j, excluded_nodes)
        if shortage(problem, tree, waiting_class(j, problem.gangs[j]), room.vectors) is not None:
            return None
        return _solve_batch(problem, tree, room, ledger, [j], self.options, self.mapper)[0].get(j)

    def without_needless_victims(self) -> PlanState:
        """Nobody goes whom nobody needs: try to do without each victim, the dearest first. The choice for one gang
        alone was proved already."""
        one = len({j for js in self.evictions.preemptors_of.values() for j in js}) <= 1
        if one and all(
            o.verdict == "proven" for objectives in self.preemptors.values() for o in objectives if o.name == "loss"
        ):
            return self
        best = self
        for v in sorted(
            self.evictions.evicted_pods,
            key=lambda v: (-total_loss(self.problem, {v: self.evictions.evicted_pods[v]}), v),
        ):
            for pods in self._restorable_units(v):
                trial = best.copy()
                if trial._restore_victim(v, pods):
                    best = trial
        return best

    def _restorable_units(self, v: int) -> list[tuple[Placement, ...]]:
        """What a victim may get back: everything when it goes whole, or loses parts of subgroups; else one pod after
        another."""
        evicted = self.evictions.evicted_pods[v]
        if v not in self.placements or self.problem.gangs[v].subgroups:
            return [evicted]
        return [(replace(p, pods=1),) for p in evicted for _ in range(p.pods)]

    def _restore_victim(self, v: int, pods: tuple[Placement, ...]) -> bool:
        """Leave these pods where they are and place again the gangs that they were to go for; False where one of them
        then finds no room."""
        winners = self.evictions.preemptors_of[v]
        for j in winners:
            self.start_gang(j, self.placements[j], -1)
        try:
            self.evictions.restore_pods(v, pods)
        except ValueError:
            return False
        if meets_minima(self.problem.gangs[v]):
            self.placements[v] = self.evictions.running[v]
        for j in winners:
            found = self.feasible_placement(j)
            if found is None:
                return False
            self.start_gang(j, found[0])
        return not self.room.breaks_pod_rules

    def final_batches(self) -> tuple[Batch, ...]:
        """The batches, and more for those who borrow, and for the gangs that room was made for: each belongs to the one
        that started it."""
        found, late = [], self.preemptors.keys() | {j for gangs, _, _ in self.borrower_batches for j in gangs}
        for gangs, objectives, seconds in self.batches:
            if left := tuple(j for j in gangs if j not in late):
                found.append(Batch(left, worst_verdict(objectives), objectives, seconds))
        found += [
            Batch(gangs, worst_verdict(objectives), objectives, seconds)
            for gangs, objectives, seconds in self.borrower_batches
        ]
        if self.preemptors:
            objectives = self._eviction_objectives()
            found.append(
                Batch(tuple(sorted(self.preemptors)), worst_verdict(objectives), objectives, self.eviction_seconds)
            )
        return tuple(found)

    def _eviction_objectives(self) -> tuple[Objective, ...]:
        """Sums over the winners; each was decided given those before it."""
        gone = self.evictions.evicted_pods
        values = {
            "loss": total_loss(self.problem, gone),
            "whole gangs": self.evictions.fully_evicted_count(gone),
            "victims": len(gone),
        }
        found = []
        for name in (*values, *COST_NAMES):
            every = [o for objectives in self.preemptors.values() for o in objectives if o.name == name]
            if not every and name not in values:
                continue
            value = values.get(name, sum(o.value for o in every))
            found.append(verdict_of(name, value, sum(o.bound for o in every), self.options.gap, maximise=False))
        return tuple(found)


def _decide_gangs(state: PlanState, waiting: list[int]) -> PlanState:
    """Batch after batch; where gangs may be evicted, each urgency gets its room before the next one is asked."""
    problem, options = state.problem, state.options
    groups, whole = split_into_batches(problem, waiting, options, partial(state.joint_floor, waiting))
    plain = state
    if not allows_eviction(problem):
        return state.decide_batches(groups, whole)
    if any(len({precedence(problem.gangs[j]) for j in group}) > 1 for group in groups):
        plain = state.copy().decide_batches(groups, whole)
        if not any(state.eviction_may_help(j) for j in waiting if j not in plain.placements):
            return plain
        groups, _ = split_into_batches(
            problem, waiting, options.with_budget(joint_variables=0), partial(state.joint_floor, waiting)
        )
    clean = state.copy() if plain is state and len(groups) > 1 else None
    for number, group in enumerate(groups):
        urgent = precedence(problem.gangs[group[0]])
        state.decide_batch(group)
        if number + 1 == len(groups) or precedence(problem.gangs[groups[number + 1][0]]) != urgent:
            state.evict_for_waiting([j for j in waiting if precedence(problem.gangs[j]) >= urgent], urgent)
    if state.evictions.evicted_pods or plain is not state:
        return state.without_needless_victims() if state.evictions.evicted_pods else plain
    if clean is not None and clean.joint_floor(waiting).is_better(state.placements, options):
        return clean.decide_batches(groups, whole)
    return state


def _solve_batch(
    problem: Problem,
    tree: TopologyTree,
    room: FreeNodes,
    ledger: QueueBooks,
    gangs: list[int],
    options: Options,
    mapper: Mapper,
) -> tuple[Placements, tuple[Objective, ...]]:
    """Stages A, B and C of one batch, again with finer places as long as a place proves too coarse to be packed; the
    floor, if that is better."""
    gangs = [
        j for j in gangs if ledger.queue_rules.accepts_gangs[problem.gangs[j].queue]
    ]  # the others wait, and are in no model
    floor = greedy_floor(problem, tree, room, ledger, gangs)
    loose = len(floor) < len(gangs) and may_go_anywhere(problem, gangs)
    if loose:
        floor = first_improvement(
            floor,
            (
                greedy_floor(problem, tree, room, ledger, gangs, greedy)
                for greedy in fragmentation_aware_placers(problem, tree, room, gangs)
            ),
            problem,
        )
    s = _model_sets(problem, tree, coarsest_buckets(problem), room, ledger, gangs)
    most = options.budget.node_model_factor * options.budget.batch_variables
    bound = unpackable_objective(s, floor, options) if loose and s.finest_variable_count > most else None
    if bound is not None:
        return _floor_result(s, floor_after_exchange(s, room, floor, gangs, options), bound, options, mapper)
    while True:
        admission = admit_all(s, gangs) if len(floor) == len(gangs) else solve_admission(s, floor, options)
        found = place_independent_groups(s, admission, floor, options, mapper)
        if not found.unpackable_buckets:
            placements = add_gangs_that_fit(s, found.placements, gangs)
            if is_floor_better(s, floor, placements, options):
                return _floor_result(s, floor, None, options, mapper)
            return placements, _recounted_objectives(
                s, admission.objectives, set(placements), options
            ) + found.objectives
        finer = replace(s, buckets=split_buckets(s.buckets, found.unpackable_buckets))
        if loose and finer.variable_count > most:
            return _floor_result(
                s, floor_after_exchange(s, room, floor, gangs, options), admission.objectives[0], options, mapper
            )
        s = finer


def _floor_result(
    s: Sets, floor: Placements, bound: Objective | None, options: Options, mapper: Mapper
) -> tuple[Placements, tuple[Objective, ...]]:
    """The floor's gangs, and what is known of them. bound: the first goal of a relaxation."""
    tidied = place_independent_groups(s, Admission(tuple(sorted(floor)), {}, ()), floor, options, mapper)
    return tidied.placements, floor_objectives(s, floor, options, bound) + tidied.objectives


def _model_sets(
    problem: Problem,
    tree: TopologyTree,
    buckets: tuple[Bucket, ...],
    room: FreeNodes,
    ledger: QueueBooks,
    gangs: list[int],
) -> Sets:
    waiting = gangs_by_class(problem, gangs)
    shapes = tuple(dict.fromkeys(shape for _, _, shape in waiting))
    index = {shape: k for k, shape in enumerate(shapes)}
    by_class = {(q, p, index[shape]): js for (q, p, shape), js in waiting.items()}
    return Sets(problem, tree, buckets, room.vectors, ledger, shapes, by_class, room.rule_counts)


def _recounted_objectives(
    s: Sets, objectives: tuple[Objective, ...], started: set[int], options: Options
) -> tuple[Objective, ...]:
    """The sums again for the gangs that start in the end, with the bounds that were proved."""
    sums: dict[str, int] = {}
    for (q, p, k), js in s.waiting_gangs.items():
        number, label = len(started.intersection(js)), s.level_label(s.precedence_level(q, p))
        sums[f"placed[{label}]"] = sums.get(f"placed[{label}]", 0) + s.dominant_units[k] * number
        sums[f"gangs[{label}]"] = sums.get(f"gangs[{label}]", 0) + number
    return tuple(verdict_of(o.name, sums[o.name], o.bound, options.gap) if o.name in sums else o for o in objectives)


def _decision(
    problem: Problem,
    j: int,
    pods: tuple[Placement, ...] | None,
    running: tuple[Placement, ...],
    is_kept: bool,
    state: PlanState,
    why: Explanation | None,
) -> Decision:
    evicted, winners = state.evictions.evicted_pods.get(j, ()), state.evictions.preemptors_of.get(j, ())
    if evicted and pods is None:
        return Decision(j, "evict", (), (), evicted_pods=evicted, evicted_for=winners)
    placed = running if pods is None else pods
    leaves = tuple(sorted({leaf for p in placed if (leaf := problem.nodes[p.node].leaf) is not None}))
    if pods is not None:
        return Decision(j, "keep" if is_kept else "start", placed, leaves, evicted_pods=evicted, evicted_for=winners)
    held = state.reservation
    facts, repairs = why or ((), ())
    return Decision(
        j,
        "wait",
        placed,
        leaves,
        facts,
        repairs,
        starts_in=held.starts_in if held is not None and held.gang == j else None,
        unlocated_holders=(
            unlocated_holders(problem, j) if any(f.code == "GW118" and not f.never for f in facts) else ()
        ),
    )


def _queue_uses(
    problem: Problem, ledger_before: QueueBooks, ledger_after: QueueBooks, totals: tuple[int, ...]
) -> tuple[QueueUse, ...]:
    found = []
    for q, deserved in enumerate(deserved_amounts(problem)):
        admitted = tuple(b - a for a, b in zip(ledger_before.held[q], ledger_after.held[q], strict=True))
        share = ledger_after.weighted_dominant_share(q, totals)
        found.append(QueueUse(q, ledger_before.held[q], admitted, share, deserved))
    return tuple(found)
