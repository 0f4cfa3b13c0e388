"""The plan under construction: the decisions so far, and the resulting state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from solver.mip.executors import Mapper
from solver.options import Options
from solver.placement.batch import cannot_start, decide_batch
from solver.plan import Objective, Reservation
from solver.preemption.evictions import EvictionState
from solver.problem import Placement, Problem
from solver.semantics.exclusions import NodeSet
from solver.semantics.gang_classes import meets_minima
from solver.semantics.gang_sizes import Minima, with_minima
from solver.semantics.order import eligible_in_order
from solver.semantics.placement_cost import COST_NAMES
from solver.semantics.placements import Placements, negative_of, new_placements, placed_demand
from solver.state.queue_books import QueueBooks
from solver.state.state import Pods, State


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """Gangs that were decided together, what their objectives reached, and the seconds that took."""

    gangs: tuple[int, ...]
    objectives: tuple[Objective, ...]
    seconds: float


@dataclass(frozen=True)
class ReservedStart:
    """A reservation in force. exclusions: gang -> the reserved nodes, for every gang that would still be there at its
    start. queue_books: what the queues hold at that start. blocked_gangs: gangs that may not start because their queue
    would then not have enough."""

    reservation: Reservation
    exclusions: Mapping[int, NodeSet]
    queue_books: QueueBooks
    blocked_gangs: frozenset[int]


@dataclass
class PlanState:
    """unrestricted_problem: without exclusions. placements: gang -> all its pods, of gangs that are kept or start.
    preemptors: gangs that start because of evictions -> their objectives. borrower_batches: batches of gangs that start
    in dedicated domains or shares of others. held_gangs: waiting gangs that are kept out of the cluster.
    settled_gangs: gangs whose new pods were placed before all others were decided."""

    unrestricted_problem: Problem
    state: State
    options: Options
    mapper: Mapper
    placements: dict[int, Pods]
    evictions: EvictionState
    batches: list[DecidedBatch] = field(default_factory=list)
    preemptors: dict[int, tuple[Objective, ...]] = field(default_factory=dict)
    eviction_seconds: float = 0.0
    borrower_batches: tuple[DecidedBatch, ...] = ()
    reserved: ReservedStart | None = None
    held_gangs: frozenset[int] = frozenset()
    settled_gangs: frozenset[int] = frozenset()

    @classmethod
    def initial(cls, unrestricted_problem: Problem, state: State, options: Options, mapper: Mapper) -> PlanState:
        """Return the plan in which gangs that run with their minima are kept, and nothing else is decided."""
        kept = {j: pods for j, pods in state.running.items() if meets_minima(state.problem.gangs[j])}
        return cls(
            unrestricted_problem, state, options, mapper, kept, EvictionState.initial(unrestricted_problem, state)
        )

    @property
    def problem(self) -> Problem:
        """Return the problem with the exclusions in force."""
        return self.state.problem

    @property
    def reservation(self) -> Reservation | None:
        """Return the reservation in force."""
        return None if self.reserved is None else self.reserved.reservation

    @property
    def blocked_gangs(self) -> frozenset[int]:
        """Return gangs that may not start for the sake of the reservation's queues."""
        return frozenset() if self.reserved is None else self.reserved.blocked_gangs

    # ---- other plans

    def copy(self) -> PlanState:
        """Return an independent copy."""
        return self._copy_with_state(self.state.copy())

    def _copy_with_state(self, state: State) -> PlanState:
        """Return an independent copy over another state."""
        reserved = self.reserved
        return replace(
            self,
            state=state,
            placements=dict(self.placements),
            evictions=self.evictions.copy(state),
            batches=list(self.batches),
            preemptors=dict(self.preemptors),
            reserved=None if reserved is None else replace(reserved, queue_books=reserved.queue_books.copy()),
        )

    def for_borrowers(self, opened: Problem) -> PlanState:
        """Return a copy in which dedicated domains are open to borrowers, without the batches so far."""
        return replace(self._copy_with_state(self.state.for_problem(opened)), batches=[])

    def with_reservation(self, reserved: ReservedStart) -> PlanState:
        """Return a copy in which no decision delays this start."""
        return replace(self._copy_with_state(self.state.excluding(reserved.exclusions)), reserved=reserved)

    def with_minima(self, minima: Mapping[int, Minima]) -> PlanState:
        """Return a copy in which these gangs need so many pods to start."""
        if not minima:
            return self.copy()
        plan = self._copy_with_state(self.state.with_gangs(with_minima(self.problem, minima)))
        return replace(plan, unrestricted_problem=with_minima(self.unrestricted_problem, minima))

    def with_settled(self, other: PlanState, larger: Placements) -> PlanState:
        """Return a copy with the evictions of another plan, the gangs that they are for, and these pods of gangs, which
        fit next to them; no further evictions."""
        evicting = other.evicting_gangs
        plan = replace(self.copy(), settled_gangs=evicting | larger.keys())
        for v, pods in sorted(other.evictions.evicted_pods.items()):
            plan.evict_pods(v, pods, other.evictions.preemptors_of[v])
        for j in sorted(evicting):
            plan.start_preemptor(j, larger.get(j, other.placements[j]), other.preemptors[j])
        for j in sorted(larger.keys() - evicting):
            plan.start_gang(j, larger[j])
        plan.evictions.settle()
        return plan

    def with_borrowers(self, other: PlanState) -> PlanState:
        """Return the plan `other` with the gangs that start in dedicated domains of other queues, in batches of their
        own."""
        batches = (replace(b, gangs=tuple(j for j in b.gangs if j in other.placements)) for b in other.batches)
        lent = other._copy_with_state(other.state.for_problem(self.problem, self.state.tree))
        return replace(lent, batches=self.batches, borrower_batches=tuple(b for b in batches if b.gangs))

    # ---- who evicts, who waits

    @property
    def evicting_gangs(self) -> frozenset[int]:
        """Return the gangs for which others are evicted; without gangs that only start in leftovers of evictions."""
        chosen = (j for j, objectives in self.preemptors.items() if any(o.name == "loss" for o in objectives))
        return frozenset(chosen).union(*self.evictions.preemptors_of.values())

    def preemptor_objectives(self, name: str) -> list[Objective]:
        """Return the objective of this name of each preemptor that has it."""
        every = (o for objectives in self.preemptors.values() for o in objectives)
        return [o for o in every if o.name == name]

    def waiting_gangs(self) -> list[int]:
        """Return gangs that neither run nor start nor are evicted."""
        decided = self.placements.keys() | self.evictions.evicted_pods.keys()
        return [j for j in range(len(self.problem.gangs)) if j not in decided]

    def eligible_gangs(self, gangs: Iterable[int]) -> list[int]:
        """Return the gangs among these that may start."""
        unblocked = (j for j in gangs if j not in self.blocked_gangs)
        candidates = [j for j in unblocked if j not in self.evictions.evicted_pods]
        has_order = any(self.problem.queues[self.problem.gangs[j].queue].strict_order for j in candidates)
        return eligible_in_order(self.problem, self.waiting_gangs(), candidates) if has_order else candidates

    def gangs_after(self, gangs: Collection[int]) -> list[int]:
        """Return the waiting gangs with former places that are decided after these."""
        named = (j for j in self.waiting_gangs() if self.problem.gangs[j].former)
        return [j for j in named if j not in gangs]

    def feasible_placement(self, j: int) -> tuple[Pods, tuple[Objective, ...]] | None:
        """Return (pods of gang j in the free room, the objectives of their spread); None where it does not fit. Takes
        nothing."""
        if cannot_start(self.state, j):
            return None
        chosen, objectives = decide_batch(self.state, [j], self.options, self.mapper, self.gangs_after([j]))
        return (chosen[j], tuple(o for o in objectives if o.name in COST_NAMES)) if j in chosen else None

    # ---- decisions

    def start_batch(
        self, gangs: Iterable[int], placements: Placements, objectives: tuple[Objective, ...], seconds: float
    ) -> None:
        """Start the gangs with placements; all of `gangs` were decided in one batch."""
        for j, pods in placements.items():
            self.start_gang(j, pods)
        self.batches.append(DecidedBatch(tuple(gangs), objectives, seconds))

    def start_gang(self, j: int, pods: Pods) -> None:
        """Start gang j with these pods, running ones included."""
        self.state.start_gang(j, pods)
        self._charge_reserved_queue(j, pods, 1)
        self.evictions.protect_gang(j)
        self.placements[j] = pods

    def cancel_start(self, j: int) -> None:
        """Undo `start_gang`."""
        pods = self.placements.pop(j)
        self.state.stop_gang(j, pods)
        self._charge_reserved_queue(j, pods, -1)

    def _charge_reserved_queue(self, j: int, pods: Iterable[Placement], sign: int) -> None:
        """Charge the queues at the reservation's start too, where the gang lasts until then."""
        if self.reserved is None or j not in self.reserved.exclusions:
            return
        gang = self.problem.gangs[j]
        amount = placed_demand(gang, new_placements(gang, pods), len(self.problem.resources))
        self.reserved.queue_books.charge_queue(gang.queue, amount if sign > 0 else negative_of(amount))

    def start_preemptor(self, j: int, pods: Pods, objectives: tuple[Objective, ...]) -> None:
        """Start gang j in what evictions have freed."""
        self.start_gang(j, pods)
        self.record_preemptor(j, objectives)

    def record_preemptor(self, j: int, objectives: tuple[Objective, ...]) -> None:
        """Note the objectives of a start that evictions allow."""
        self.preemptors[j] = objectives

    def evict_pods(self, v: int, pods: Pods, preemptors: Iterable[int]) -> None:
        """Evict these pods of gang v for these gangs."""
        self.evictions.evict_pods(v, pods, preemptors)
        if v in self.placements:
            self.placements[v] = self.state.running[v]
            if not self.placements[v]:
                del self.placements[v]

    def restore_pods(self, v: int, pods: Pods) -> None:
        """Undo the eviction of these pods. Raises ValueError where their room is taken."""
        self.evictions.restore_pods(v, pods)
        if meets_minima(self.problem.gangs[v]):
            self.placements[v] = self.state.running[v]

    def starts_beyond_ceilings(self) -> bool:
        """Return whether some gang started in a queue that now holds more than it may, since pods stay after all that
        had made room for it there."""
        books, width = self.state.queue_books, len(self.problem.resources)
        for j, pods in self.placements.items():
            gang = self.problem.gangs[j]
            taken = placed_demand(gang, new_placements(gang, pods), width)
            if any(taken) and books.holds_beyond_ceiling(gang.queue, taken):
                return True
        return False

    def add_eviction_seconds(self, seconds: float) -> None:
        """Count time that the choice of victims took."""
        self.eviction_seconds += seconds
