"""Victims that a plugin of the scheduler, or a disruption budget, protects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.problem import DisruptionBudget, EvictionVotes, Policy, Problem, Queue, Vector
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, plan_of_pods, replace_at
from tests.property.mutants.victims import plan_with_eviction, victim_pairs, with_eviction_right


def gone_whole_where_the_gang_plugin_votes(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    surplus = EvictionVotes(whole_gangs=False)
    for g, j, pods in victim_pairs(world, placed, random):
        voted = replace(with_eviction_right(world, g, j), preempt_votes=surplus, reclaim_votes=surplus)
        yield voted, plan_with_eviction(voted, plan_of_pods(voted, placed), g, j, pods)


def left_with_less_than_its_preemptor_gets(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """All of it goes, and the winner asks for something that there is."""
    shares = EvictionVotes(compare_shares=True)
    there = [any(node.capacity[r] for node in world.nodes) for r in range(len(world.resources))]
    for g, j, pods in victim_pairs(world, placed, random):
        if any(
            role.minimum and any(a and here for a, here in zip(role.request, there, strict=True))
            for role in world.gangs[j].roles
        ):
            voted = replace(with_eviction_right(world, g, j), preempt_votes=shares, reclaim_votes=shares)
            yield voted, plan_with_eviction(voted, plan_of_pods(voted, placed), g, j, pods)


def beyond_a_disruption_budget(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        number = sum(p.pods for p in pods)
        others = tuple((g, t) for t in range(len(world.gangs[g].roles)))
        guarded = replace(
            with_eviction_right(world, g, j),
            disruption_budgets=(DisruptionBudget("tight", random.randrange(number), others),),
        )
        yield guarded, plan_with_eviction(guarded, plan_of_pods(guarded, placed), g, j, pods)


def _in_sibling_queues(world: Problem, g: int, j: int, deserved: int | None) -> Problem:
    """The victim and its winner in queues of their own, below two others of which the victim's deserves `due`; with
    `None` below the same."""
    width = len(world.resources)
    nothing: tuple[int | None, ...] = (None,) * width
    zero: Vector = (0,) * width
    lender = Queue("lenders", None, 1, 0, nothing, nothing if deserved is None else (deserved,) * width, nothing, zero)
    taker = Queue("takers", None, 1, 0, nothing, (1_000_000,) * width, nothing, zero)
    first = len(world.queues)
    victim = replace(lender, name="lender", parent=first, deserved=(0,) * width if deserved is not None else nothing)
    winner = replace(
        taker,
        name="taker",
        parent=first if deserved is None else first + 1,
        deserved=taker.deserved if deserved is not None else nothing,
    )
    policy = Policy(capacity=True, capacity_hierarchy=True, ancestor_reclaim_levels=1)
    gangs = replace_at(replace_at(with_eviction_right(world, g, j).gangs, g, queue=first + 2), j, queue=first + 3)
    return replace(
        with_eviction_right(world, g, j),
        queues=(*with_eviction_right(world, g, j).queues, lender, taker, victim, winner),
        gangs=gangs,
        policy=policy,
    )


def taken_from_below_a_queue_that_deserves_it(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The victim's own queue deserves nothing of it, but the one above does, and is asked."""
    for g, j, pods in victim_pairs(world, placed, random):
        families = _in_sibling_queues(world, g, j, 1_000_000)
        yield families, plan_with_eviction(families, plan_of_pods(families, placed), g, j, pods)


def taken_from_a_sister_that_deserves_no_less(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        if any(role.minimum and any(role.request) for role in world.gangs[j].roles):
            families = _in_sibling_queues(world, g, j, None)
            yield families, plan_with_eviction(families, plan_of_pods(families, placed), g, j, pods)


MUTATORS: Mutators = {
    gone_whole_where_the_gang_plugin_votes: "gang_votes",
    left_with_less_than_its_preemptor_gets: "share_votes",
    beyond_a_disruption_budget: "disruption_budgets",
    taken_from_below_a_queue_that_deserves_it: "reclaim_limits",
    taken_from_a_sister_that_deserves_no_less: "contention",
}
