"""The ceilings on what a queue may hold, by capability, guarantees of others and proportional share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from solver.problem import Limits, Problem, Vector
from solver.semantics.entitlements import asked_amounts, water_filled_shares
from solver.semantics.queues import PODS, queue_path, real_capability


@dataclass(frozen=True, slots=True)
class QueueCeiling:
    """A queue holds at most `limits`: with all its descendants, or by itself alone. code: of the fact that names this
    ceiling."""

    code: Literal["GW101", "GW106", "GW112"]
    queue: int
    includes_descendants: bool
    limits: Limits


def queue_ceilings(problem: Problem, held: Collection[int] = ()) -> tuple[QueueCeiling, ...]:
    """Return every limit on what queues hold: capabilities, then what guarantees leave of them, then proportional
    shares while the `held` gangs are kept out of the cluster."""
    stated = tuple((queue.capability, queue.guarantee, queue.parent) for queue in problem.queues)
    key = "capability ceilings", problem.policy, problem.totals, stated
    found = list(problem.memoize(key, lambda: _capability_ceilings(problem)))
    if problem.policy.proportion:
        shares = zip(water_filled_shares(problem, held), asked_amounts(problem, held), strict=True)
        found += [QueueCeiling("GW112", q, False, _share_limits(problem, *each)) for q, each in enumerate(shares)]
    return tuple(ceiling for ceiling in found if any(amount is not None for amount in ceiling.limits))


def share_limits(problem: Problem, q: int) -> Limits:
    """Return the most that queue q may hold with the plugin proportion."""
    return _share_limits(problem, water_filled_shares(problem)[q], asked_amounts(problem)[q])


def _share_limits(problem: Problem, share: Vector | None, wanted: Sequence[int] | None) -> Limits:
    """A share that is the whole cluster, or all that the queue asks for, is never what holds it back."""
    whole = problem.totals
    ends = map(min, whole, wanted or whole)
    return tuple(
        None if n == PODS or m >= end else m for n, m, end in zip(problem.resources, share or whole, ends, strict=True)
    )


def _capability_ceilings(problem: Problem) -> tuple[QueueCeiling, ...]:
    """Capabilities, and what guarantees leave of them."""
    found = [QueueCeiling("GW101", q, True, queue.capability) for q, queue in enumerate(problem.queues)]
    whole = problem.totals
    if problem.policy.capacity or problem.policy.proportion:
        tree = problem.policy.hierarchical
        for q, most in enumerate(real_capability(problem)):
            limits = [problem.queues[above].capability for above in queue_path(problem, q)]
            tighter: list[int | None] = []
            for r, (name, m) in enumerate(zip(problem.resources, most, strict=True)):
                named = [limit[r] for limit in limits]
                looser = m is not None and (m >= whole[r] or any(s is not None and s <= m for s in named))
                tighter.append(None if name == PODS or looser else m)
            found.append(QueueCeiling("GW106", q, tree, tuple(tighter)))
    return tuple(found)
