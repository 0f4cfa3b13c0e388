"""Large-neighbourhood search: free a part of a solution, decide it again, keep what is cheaper.

A neighbourhood proposes the moves of a pass, the most promising first; each has its own way to decide the freed part
again: a greedy, a small exact model, an exchange. The search is deterministic: it stops at a bound on the cost, after a
pass that brings nothing, or at its limits, which count moves and not seconds; and when the time is over. The
neighbourhoods:

    solver.placement.improve   the gangs of a supernode are placed again in supernodes that are open anyway
    solver.placement.improve          a few gangs that compete for domains are placed again by a model
    solver.placement.identical_pods     gangs with identical pods are placed again in one or two domains by a model
    solver.placement.batch       other greedies choose the gangs of a batch; pods are exchanged on each node
    solver.placement.node_exchange      pods of one node are exchanged for waiting ones by a model
    solver.placement.role_affinity      pods of one gang and leaf change nodes
    solver.preemption.evict             a victim stays, and its preemptors are placed again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from solver.clock import Clock

Solution = TypeVar("Solution")


@dataclass(slots=True)
class Incumbent(Generic[Solution]):
    """The cheapest solution so far. cost: compared with <; a tuple where the order is lexicographic."""

    solution: Solution
    cost: Any

    def go_on_from(self, solution: Solution, cost: Any) -> None:
        """Continue the search from a cheaper solution."""
        self.solution, self.cost = solution, cost


@dataclass(slots=True)
class Work:
    """Deterministic work left, such as variables of models, shared by the moves of one or more searches."""

    left: int

    def spend(self, work: int) -> None:
        self.left -= work


Moves = Iterator[Callable[[], Solution | None]]
"""One pass of a neighbourhood: ways to free a part of the incumbent and decide it again, the most promising first.

A move returns the new solution; None where a bound or a size rules it out at once. It may change the incumbent in place
if it returns it only when cheaper. A pass that ends after an improvement is followed by another.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """clock: the search ends with it. tries: moves made. failures: consecutive moves that were not ruled out and
    brought nothing. improvements: moves that brought something. passes: over all moves. None: any number."""

    clock: Clock
    tries: int | None = None
    failures: int | None = None
    improvements: int | None = None
    passes: int | None = None


def improve(
    start: Solution,
    cost: Callable[[Solution], Any],
    neighbourhood: Callable[[Incumbent[Solution]], Moves[Solution]],
    limits: Limits,
    is_least: Callable[[Any], bool] = lambda cost: False,
) -> Solution:
    """Return the cheapest solution found from `start`; `start` itself where no move is cheaper.

    is_least: whether a bound proves that nothing is cheaper than this cost.
    """
    best = Incumbent(start, cost(start))
    tries = failures = improvements = passes = 0
    improved = True
    while improved and passes != limits.passes:
        improved, passes = False, passes + 1
        for move in neighbourhood(best):
            spent = tries == limits.tries or failures == limits.failures or improvements == limits.improvements
            if spent or is_least(best.cost) or limits.clock.is_over():
                return best.solution
            tries, found = tries + 1, move()
            if found is None:
                continue
            if (new := cost(found)) < best.cost:
                best.go_on_from(found, new)
                improved, failures, improvements = True, 0, improvements + 1
            else:
                failures += 1
    return best.solution
