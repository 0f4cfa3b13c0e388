"""Victims that a plugin of the scheduler, or a disruption budget, protects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.problem import DisruptionBudget, EvictionVotes, Policy, Problem, Queue, Vector
from tests.property.mutants.parts import Mutant, Mutators, Placed, as_plan, edit
from tests.property.mutants.victims import evicting, lenient, victims


def gone_whole_where_the_gang_plugin_votes(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    surplus = EvictionVotes(whole_gangs=False)
    for g, j, pods in victims(world, placed, random):
        voted = replace(lenient(world, g, j), preempt_votes=surplus, reclaim_votes=surplus)
        yield voted, evicting(voted, as_plan(voted, placed), g, j, pods)


def left_with_less_than_its_winner_gets(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """All of it goes, and the winner asks for something that there is."""
    shares = EvictionVotes(compare_shares=True)
    there = [any(node.capacity[r] for node in world.nodes) for r in range(len(world.resources))]
    for g, j, pods in victims(world, placed, random):
        if any(
            role.minimum and any(a and here for a, here in zip(role.request, there, strict=True))
            for role in world.gangs[j].roles
        ):
            voted = replace(lenient(world, g, j), preempt_votes=shares, reclaim_votes=shares)
            yield voted, evicting(voted, as_plan(voted, placed), g, j, pods)


def beyond_a_disruption_budget(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victims(world, placed, random):
        number = sum(p.pods for p in pods)
        others = tuple((g, t) for t in range(len(world.gangs[g].roles)))
        guarded = replace(
            lenient(world, g, j), disruption_budgets=(DisruptionBudget("tight", random.randrange(number), others),)
        )
        yield guarded, evicting(guarded, as_plan(guarded, placed), g, j, pods)


def _families(world: Problem, g: int, j: int, due: int | None) -> Problem:
    """The victim and its winner in queues of their own, below two others of which the victim's deserves `due`; with
    `None` below the same."""
    width = len(world.resources)
    nothing: tuple[int | None, ...] = (None,) * width
    zero: Vector = (0,) * width
    lender = Queue("lenders", None, 1, 0, nothing, nothing if due is None else (due,) * width, nothing, zero)
    taker = Queue("takers", None, 1, 0, nothing, (1_000_000,) * width, nothing, zero)
    first = len(world.queues)
    victim = replace(lender, name="lender", parent=first, deserved=(0,) * width if due is not None else nothing)
    winner = replace(
        taker,
        name="taker",
        parent=first if due is None else first + 1,
        deserved=taker.deserved if due is not None else nothing,
    )
    policy = Policy(capacity=True, capacity_hierarchy=True, ancestor_reclaim_levels=1)
    gangs = edit(edit(lenient(world, g, j).gangs, g, queue=first + 2), j, queue=first + 3)
    return replace(
        lenient(world, g, j),
        queues=(*lenient(world, g, j).queues, lender, taker, victim, winner),
        gangs=gangs,
        policy=policy,
    )


def taken_from_below_a_queue_that_deserves_it(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The victim's own queue deserves nothing of it, but the one above does, and is asked."""
    for g, j, pods in victims(world, placed, random):
        families = _families(world, g, j, 1_000_000)
        yield families, evicting(families, as_plan(families, placed), g, j, pods)


def taken_from_a_sister_that_deserves_no_less(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victims(world, placed, random):
        if any(role.minimum and any(role.request) for role in world.gangs[j].roles):
            families = _families(world, g, j, None)
            yield families, evicting(families, as_plan(families, placed), g, j, pods)


MUTATORS: Mutators = {
    gone_whole_where_the_gang_plugin_votes: "gang_votes",
    left_with_less_than_its_winner_gets: "share_votes",
    beyond_a_disruption_budget: "disruption_budgets",
    taken_from_below_a_queue_that_deserves_it: "reclaim_limits",
    taken_from_a_sister_that_deserves_no_less: "contention",
}
