"""Victims that nobody had a right to, or that went for nothing, or not whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from solver.plan import Plan
from solver.problem import Placement, Problem, Queue
from tests.property.brute import is_kept, running
from tests.property.mutants.parts import Mutant, Mutators, Placed, as_plan, edit, some
from tests.unit.solver.builders import queue_uses


def evicting(world: Problem, made: Plan, g: int, j: int, evicted: Iterable[Placement], **changes: object) -> Plan:
    """The plan with gang g gone for gang j."""
    decisions = edit(
        made.decisions, g, action="evict", placements=(), domains=(), evicted=tuple(evicted), evicted_for=(j,), **changes
    )  # fmt: skip
    return replace(made, decisions=decisions, queues=queue_uses(world, decisions))


def victims(world: Problem, placed: Placed, random: Random) -> Iterator[tuple[int, int, tuple[Placement, ...]]]:
    """(a gang that is kept, one that starts, what the first one runs)."""
    kept = [g for g in sorted(placed) if is_kept(world.gangs[g])]
    starting = [g for g in sorted(placed) if not is_kept(world.gangs[g])]
    for g, j in some(random, [(g, j) for g in kept for j in starting]):
        yield g, j, tuple(Placement(role, node, pods) for (role, node), pods in sorted(running(world.gangs[g]).items()))


def lenient(world: Problem, g: int, j: int) -> Problem:
    """The same without quotas, and with gang g open to eviction for gang j."""
    nothing = (None,) * len(world.resources)
    gangs = edit(world.gangs, g, evictable=True, priority=world.gangs[j].priority - 1)
    queues = tuple(replace(queue, guarantee=nothing, deserved=nothing, capability=nothing) for queue in world.queues)
    return replace(world, gangs=gangs, queues=queues, preempt_enabled=True, reclaim_enabled=True)


def across(world: Problem, g: int, j: int, deserved: int) -> Problem:
    """The same with the victim in a queue of its own, that deserves this much of everything."""
    whole, nothing = (deserved,) * len(world.resources), (None,) * len(world.resources)
    other = Queue("other", None, 1, 0, nothing, whole, nothing, (0,) * len(world.resources))
    open_to = lenient(world, g, j)
    return replace(open_to, queues=(*open_to.queues, other), gangs=edit(open_to.gangs, g, queue=len(open_to.queues)))


def evicted_without_a_right(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victims(world, placed, random):
        yield (
            replace(world, preempt_enabled=True, reclaim_enabled=True),
            evicting(world, as_plan(world, placed), g, j, pods),
        )


def evicted_for_nothing(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The plan was valid with the victim still there."""
    for g, j, pods in victims(world, placed, random):
        yield lenient(world, g, j), evicting(world, as_plan(world, placed), g, j, pods)


def evicted_but_for_a_pod(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victims(world, placed, random):
        left = (*pods[:-1], *((replace(pods[-1], pods=pods[-1].pods - 1),) if pods[-1].pods > 1 else ()))
        yield lenient(world, g, j), evicting(world, as_plan(world, placed), g, j, left)


def evicted_for_a_gang_that_does_not_start(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victims(world, placed, random):
        made = evicting(world, as_plan(world, placed), g, j, pods)
        others = [k for k, decision in enumerate(made.decisions) if decision.action != "start"]
        wrong = random.choice([(j, j), (), *((k,) for k in (*others, len(world.gangs)))])
        yield lenient(world, g, j), replace(made, decisions=edit(made.decisions, g, evicted_for=wrong))


def evicted_from_a_queue_that_deserves_it(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victims(world, placed, random):
        other = across(world, g, j, 1_000)
        yield other, evicting(other, as_plan(other, placed), g, j, pods)


def evicted_for_a_queue_that_deserves_nothing(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victims(world, placed, random):
        other = across(world, g, j, 0)
        yield other, evicting(other, as_plan(other, placed), g, j, pods)


MUTATORS: Mutators = {
    evicted_without_a_right: "eviction_rights",
    evicted_for_nothing: "eviction_necessity",
    evicted_but_for_a_pod: "evictions",
    evicted_for_a_gang_that_does_not_start: "evictions",
    evicted_from_a_queue_that_deserves_it: "reclaim_limits",
    evicted_for_a_queue_that_deserves_nothing: "entitlement",
}
