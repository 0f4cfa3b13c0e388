"""Why a gang waits for which there is room: its queue's order, a reservation, domains that a queue keeps, maintenance.
Else `reasons`.

Codes, for ever: GW106 kept for a guarantee, GW114 reserved for another gang, GW115 an earlier gang of its queue waits,
GW116 maintenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from solver.diagnosis import World
from solver.placement.fit import holds, shortage
from solver.plan import Fact, Reservation
from solver.problem import Problem
from solver.semantics.exclusions import both, closed, closing_on, kept_from
from solver.semantics.gang_classes import shape_of
from solver.semantics.priorities import level_of, passed
from solver.semantics.topology import Tree
from solver.state.pod_rules import Neighbours, whoever_minds
from solver.timeline.reservation import in_time

When = Literal["now", "planned", "idle"]


@dataclass(frozen=True)
class Waits:
    """world: the problem as it is. guarded: as `closing.guarded`. final: with the reserved nodes closed as well.

    barred: gangs that may not start for the sake of the reservation's queues. waiting: all that wait.
    """

    world: World
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
    def guarded_world(self) -> World:
        return replace(self.world, problem=self.guarded, tree=self.guarded_tree, guarded=True, blockers={})

    @cached_property
    def closings(self) -> dict[int, frozenset[int]]:
        """Gang -> the nodes that are closed to it."""
        return both(kept_from(self.world.problem), closing_on(self.world.problem))

    def delay(self, j: int) -> tuple[Fact, ...]:
        """Why it waits although it lacks nothing by itself; none where it does, or where only others are before it."""
        room = self.beside_what_runs(j) or self._beside_the_plan(j)
        if j in self.closings and not room and self._fits(self.world.problem, self.world.tree, j, "now"):
            return self._closed(j, "now")
        if j in self._behind and room:
            return (Fact("GW115", queue=self.guarded.gangs[j].queue, gangs=(self._behind[j],)),)
        if self.reservation is not None and self._held_back(j, self.reservation):
            return (Fact("GW114", gangs=(self.reservation.gang,)),)
        return ()

    def shut_out(self, j: int) -> bool:
        """Whether nodes are closed to it."""
        return j in self.closings

    def beside_what_runs(self, j: int) -> bool:
        """Whether it provably fits beside what runs, in what is not closed to it."""
        if j not in self._beside:
            self._beside[j] = self._fits(self.guarded, self.guarded_tree, j, "now")
        return self._beside[j]

    @cached_property
    def _beside(self) -> dict[int, bool]:
        return {}

    def _beside_the_plan(self, j: int) -> bool:
        """Whether it provably fits in what evictions have left over: the plan may be roomier than what runs."""
        return self._roomier and self._fits(self.guarded, self.guarded_tree, j, "planned")

    @cached_property
    def _roomier(self) -> bool:
        """Whether the plan leaves some node more than it has beside what runs."""
        return bool((self.world.free_after.amounts > self.world.free_before.amounts).any())

    def _held_back(self, j: int, held: Reservation) -> bool:
        """Whether it fits beside the plan, and only the reservation keeps it from starting; or would, but for those who
        fill in what is reserved and end in time: it finds no room beside what runs either, with the reserved nodes
        closed."""
        if (
            j == held.gang
            or in_time(self.guarded, j, held)
            or level_of(self.guarded, j) > level_of(self.guarded, held.gang)
        ):
            return False
        if self.beside_the_plan(j):
            return j in self.barred or not self._fits(self.final, self.final_tree, j, "planned")
        return self._filled_in and self.beside_what_runs(j) and self._misses(self.final, self.final_tree, j)

    def beside_the_plan(self, j: int) -> bool:
        """Whether it provably fits beside what the plan lets run, in what is not closed to it, reserved or not."""
        return self._fits(self.guarded, self.guarded_tree, j, "planned")

    @cached_property
    def _filled_in(self) -> bool:
        """Whether the plan starts anything on nodes that it reserves."""
        reserved = {p.node for p in self.reservation.placements} if self.reservation is not None else set()
        return any(p.node in reserved for placed in self.world.started.values() for p in placed)

    def closed_anyway(self, j: int) -> tuple[Fact, ...]:
        """What is closed to a gang that lacks room even so, and would keep it out of an empty cluster that would hold
        it; not said of pods that mind others."""
        if any(role.bears or role.matches for role in self.guarded.gangs[j].roles):
            return ()
        fits = self._fits(self.world.problem, self.world.tree, j, "idle") and not self._fits(
            self.guarded, self.guarded_tree, j, "idle"
        )
        return self._closed(j, "idle") if fits else ()

    def _closed(self, j: int, when: When) -> tuple[Fact, ...]:
        """The one closing without which it would fit: of a queue that keeps domains, or for maintenance. All, where no
        single one would do."""
        problem, path = self.world.problem, self.world.before.path(self.world.problem.gangs[j].queue)
        keepers = [q for q, queue in enumerate(problem.queues) if queue.kept and q not in path]
        facts = {q: Fact("GW106", queue=q, tier=self._tier(q)) for q in keepers}
        closing = closing_on(problem)
        without = [(fact, both(closing, kept_from(problem, frozenset(keepers) - {q}))) for q, fact in facts.items()]
        if j in closing:
            without.append((Fact("GW116"), kept_from(problem)))
        enough = [fact for fact, shut in without if self._fits_when_closed(j, shut, when)]
        return (enough[0],) if enough else tuple(fact for fact, _ in without)

    def _fits_when_closed(self, j: int, shut: Mapping[int, frozenset[int]], when: When) -> bool:
        problem = closed(self.world.problem, {j: shut[j]} if j in shut else {})
        return self._fits(problem, Tree(problem), j, when)

    def _tier(self, q: int) -> int:
        return max(self.guarded.hypernodes[h].tier for h in self.guarded.queues[q].kept)

    def _fits(self, problem: Problem, tree: Tree, j: int, when: When) -> bool:
        """Whether it provably fits, by room and queues, beside what runs (now), beside the plan, or on the empty
        cluster (idle)."""
        world, neighbours = self.world, None
        free, ledger = world.free_before, world.before
        if when == "now":
            neighbours = self._present
        elif when == "planned":
            free, ledger, neighbours = world.free_after, world.after, world.neighbours
        else:
            free, ledger = world.capacity, world.idle
            problem = replace(
                problem,
                gangs=tuple(replace(gang, running=()) if i == j else gang for i, gang in enumerate(problem.gangs)),
            )
        shape = shape_of(j, problem.gangs[j])
        if (
            not ledger.allows(problem.gangs[j].queue, shape.demand(len(problem.resources)))
            or shortage(problem, tree, shape, free) is not None
        ):
            return False
        return holds(problem, tree, j, shape, free, world.options, neighbours) is True

    def _misses(self, problem: Problem, tree: Tree, j: int) -> bool:
        """Whether it provably finds no room beside what runs."""
        shape, free = shape_of(j, problem.gangs[j]), self.world.free_before
        return (
            shortage(problem, tree, shape, free) is not None
            or holds(problem, tree, j, shape, free, self.world.options, self._present) is False
        )

    @cached_property
    def _present(self) -> Neighbours | None:
        return whoever_minds(self.world.problem)
