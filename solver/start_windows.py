"""When the gangs that wait in a plan start: windows of start times from simulated futures.

A gang is in the line of the resource of which it needs the largest part of the cluster, of devices if it needs any. For
that resource the cluster is one pool (`solver.forecast`), to which gangs return their amounts as they end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solver.forecast import PastRuns, Pool, Window, draw_length, start_times, starts_in_futures
from solver.plan import Decision, Plan
from solver.problem import Problem, Vector
from solver.semantics.gang_classes import waiting_class
from solver.semantics.order import expected_end, serving_order_key
from solver.semantics.placements import placed_demand

LONGEST_LINE = 200
"""Waiting gangs that a future follows, from the head of the line."""
_NEVER = 2**62
"""Seconds that a gang lasts which does not end."""
HORIZON = 10 * 365 * 24 * 3600
"""Seconds beyond which no start is forecast."""


@dataclass(frozen=True, slots=True)
class StartForecast:
    """by_limits: seconds until the start if every gang lasts as long as it declares; None where one declares
    nothing."""

    window: Window
    by_limits: int | None


def start_windows(problem: Problem, plan: Plan, past: PastRuns, seed: int) -> dict[int, StartForecast]:
    """Return gang -> its forecast, for gangs that wait and start in all futures. Empty where too few runs are known."""
    known = past.history.run_times((past.classes[j], past.ages.get(j, 0)) for j in _holders(plan) if past.classes[j])
    if "all" not in known:
        return {}

    def length(j: int, rng: random.Random) -> int:
        return draw_length(known, past.classes[j], 0, None, rng) if past.classes[j] else _NEVER

    def rest(j: int, rng: random.Random) -> int:
        age = past.ages.get(j, 0)
        return draw_length(known, past.classes[j], age, None, rng) - age if past.classes[j] else _NEVER

    found = dict[int, StartForecast]()
    for pool in _pools(problem, plan):
        declared = _starts_by_limits(problem, pool)
        for j, starts in starts_in_futures(pool, length, rest, seed).items():
            window, by_limits = past.correction.window(starts), declared.get(j)
            if max(window.high, window.raw, by_limits or 0) <= HORIZON:
                found[j] = StartForecast(window, by_limits)
    return found


def _holders(plan: Plan) -> dict[int, Decision]:
    """Return gang -> its decision, for gangs that hold pods under the plan."""
    staying = (decision for decision in plan.decisions if decision.action != "evict")
    return {decision.gang: decision for decision in staying if decision.placements}


def _pools(problem: Problem, plan: Plan) -> list[Pool]:
    """Return a pool for each resource in whose line gangs wait."""
    width = len(problem.resources)
    held = {j: placed_demand(problem.gangs[j], of.placements, width) for j, of in _holders(plan).items()}
    lines = dict[int, list[tuple[int, int]]]()
    for j in sorted(_waiting(plan), key=lambda j: serving_order_key(problem, j)):
        needed = waiting_class(j, problem.gangs[j]).max_demand(width)
        if (r := _scarcest(problem, needed)) is not None:
            lines.setdefault(r, []).append((j, needed[r]))
    return [_pool(problem, r, held, line[:LONGEST_LINE]) for r, line in sorted(lines.items())]


def _waiting(plan: Plan) -> list[int]:
    """Return the gangs that wait and for which waiting can help."""
    waiting = (decision for decision in plan.decisions if decision.action == "wait")
    return [decision.gang for decision in waiting if not _is_stuck(decision)]


def _is_stuck(decision: Decision) -> bool:
    return any(fact.never for fact in decision.facts)


def _scarcest(problem: Problem, needed: Vector) -> int | None:
    """Return the resource of which this is the largest part of the cluster, of devices if there are any; None for
    nothing."""
    asked = [r for r, amount in enumerate(needed) if amount]
    devices = [r for r in asked if r in problem.device_resources]
    return max(devices or asked, key=lambda r: (needed[r] / max(1, problem.totals[r]), -r), default=None)


def _pool(problem: Problem, r: int, held: Mapping[int, Vector], line: Sequence[tuple[int, int]]) -> Pool:
    """Return the pool. A waiting gang holds its running pods until it starts, so that only gangs that run or start free
    room."""
    waiting = {j for j, _ in line}
    free = sum(node.free[r] for node in problem.nodes) - sum(amounts[r] for amounts in held.values())
    running = [(j, amounts[r]) for j, amounts in sorted(held.items()) if j not in waiting]
    return Pool(0, max(0, free), running, line)


def _starts_by_limits(problem: Problem, pool: Pool) -> Mapping[int, int]:
    """Return gang -> when it starts if all last as long as they declare; empty where one of the pool declares
    nothing."""
    gangs = [j for j, _ in (*pool.running, *pool.waiting)]
    ends = {j: expected_end(problem, j) for j in gangs}
    lasting = {j: end for j, end in ends.items() if end is not None}
    return start_times(pool, lasting.__getitem__, lasting.__getitem__) if len(lasting) == len(ends) else {}
