"""What would let a gang start beside the plan: each change was tried, and is the least of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solver.plan import Fact, Repair
from solver.problem import Problem, Topology
from solver.reasons.world import Case


def repairs(case: Case, facts: tuple[Fact, ...]) -> Iterator[Repair]:
    """One change after another that alone is enough."""
    yield from capability(case, facts)
    yield from higher_tier(case, facts)


def capability(case: Case, facts: tuple[Fact, ...]) -> Iterator[Repair]:
    """GR101: more of one queue's capability, where nothing else is in the way."""
    ledger, queue = case.world.after, case.gang.queue
    amount = case.amount
    for fact in facts:
        if fact.code == "GW101" and fact.queue is not None and fact.resource is not None and case.fits(case.now):
            missing = ledger.held[fact.queue][fact.resource] + amount[fact.resource] - (fact.limit or 0)
            if ledger.under(_unlimited(ledger.problem, fact.queue, fact.resource)).allows(queue, amount):
                yield Repair("GR101", queue=fact.queue, resource=fact.resource, amount=missing)


def higher_tier(case: Case, facts: tuple[Fact, ...]) -> Iterator[Repair]:
    """GR102: the lowest tier above the one that is allowed at which the gang finds a domain."""
    topology, tree = case.gang.topology, case.world.tree
    blamed = any(fact.code == "GW104" for fact in facts)
    if not blamed or topology is None or case.gang.running or not case.world.after.allows(case.gang.queue, case.amount):
        return
    for tier in [*(t for t in tree.tiers if t > topology.tier), tree.top + 1]:
        if case.fits(replace(case.now, gang=replace(case.now.gang, topology=Topology("hard", tier)))):
            yield Repair("GR102", tier=tier)
            return


def _unlimited(problem: Problem, q: int, r: int) -> Problem:
    """The problem without queue q's capability of resource r."""
    queues = list(problem.queues)
    queues[q] = replace(queues[q], capability=tuple(None if i == r else x for i, x in enumerate(queues[q].capability)))
    return replace(problem, queues=tuple(queues))
