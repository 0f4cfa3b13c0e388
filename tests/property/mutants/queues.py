"""Queues that hold what they may not, or are said to hold what they do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.problem import Gang, Policy, Problem, Queue, Role
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, new_pods, pick_one, plan_of_pods, replace_at


def capability_lowered(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """To one less than the queue or one above it comes to hold."""
    made = plan_of_pods(world, placed)
    grown = [(use.queue, r) for use in made.queues for r, amount in enumerate(use.admitted) if amount]
    for q, r in pick_one(random, grown):
        held = made.queues[q].allocated[r] + made.queues[q].admitted[r]
        limits = tuple(held - 1 if k == r else limit for k, limit in enumerate(world.queues[q].capability))
        tighter = replace(world, queues=replace_at(world.queues, q, capability=limits))
        yield tighter, plan_of_pods(tighter, placed)


def guarantee_of_another_taken(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A new queue is guaranteed more than the others, none of which is guaranteed anything, leave."""
    made = plan_of_pods(world, placed)
    grown = [r for r in range(len(world.resources)) if any(use.admitted[r] for use in made.queues)]
    for r in pick_one(random, [r for r in grown if not any(queue.guarantee[r] for queue in world.queues)]):
        total = sum(node.free[r] for node in world.nodes) + sum(queue.used[r] for queue in world.queues)
        roots = [use for use in made.queues if world.queues[use.queue].parent is None]
        left = total - sum(use.allocated[r] + use.admitted[r] for use in roots)
        unset, zero = (None,) * len(world.resources), (0,) * len(world.resources)
        guarantee = tuple(max(0, left) + 1 if k == r else None for k in range(len(world.resources)))
        richer = replace(world, queues=(*world.queues, Queue("rich", None, 1, 0, guarantee, unset, unset, zero)))
        yield richer, plan_of_pods(richer, placed)


def queue_closed(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The queue of a gang with new pods, or one above it."""
    for g, _ in pick_one(random, new_pods(world, placed)):
        q, above = world.gangs[g].queue, world.queues[world.gangs[g].queue].parent
        shut = replace(
            world, queues=replace_at(world.queues, q if above is None else random.choice((q, above)), open=False)
        )
        yield shut, plan_of_pods(shut, placed)


def guarantee_counted_twice(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Flat capacity knows no tree: what a queue and its parent are guaranteed counts twice, for everybody else."""
    made = plan_of_pods(world, placed)
    grown = [
        (g, r)
        for g, (role, _) in new_pods(world, placed)
        for r, amount in enumerate(world.gangs[g].roles[role].request)
        if amount
    ]
    for g, r in pick_one(random, [(g, r) for g, r in grown if not any(queue.guarantee[r] for queue in world.queues)]):
        total = sum(node.free[r] for node in world.nodes) + sum(queue.used[r] for queue in world.queues)
        left = total - sum(
            use.allocated[r] + use.admitted[r] for use in made.queues if world.queues[use.queue].parent is None
        )
        whole = sum(node.capacity[r] for node in world.nodes)
        mine = sum(use.allocated[r] + use.admitted[r] for use in made.queues if use.queue == world.gangs[g].queue)
        if left <= 0 or whole - 2 * left >= mine:
            continue
        unset, zero = (None,) * len(world.resources), (0,) * len(world.resources)
        guarantee = tuple(left if k == r else None for k in range(len(world.resources)))
        pair = (
            Queue("rich", None, 1, 0, guarantee, unset, unset, zero),
            Queue("heir", len(world.queues), 1, 0, guarantee, unset, unset, zero),
        )
        flat = replace(world, queues=(*world.queues, *pair), policy=Policy(capacity=True))
        yield flat, plan_of_pods(flat, placed)


def share_by_weight_exceeded(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A rival appears that is so heavy, and asks for so much, that next to nothing is left for everybody else."""
    grown = [
        (g, r)
        for g, (role, _) in new_pods(world, placed)
        for r, amount in enumerate(world.gangs[g].roles[role].request)
        if amount
    ]
    for _, r in pick_one(random, [(g, r) for g, r in grown if not any(queue.guarantee[r] for queue in world.queues)]):
        unset, zero = (None,) * len(world.resources), (0,) * len(world.resources)
        whole = sum(node.capacity[r] for node in world.nodes)
        request = tuple(int(k == r) for k in range(len(world.resources)))
        rival = Gang(
            "rival",
            len(world.queues),
            0,
            99,
            2 * whole + 1,
            (Role("r", 2 * whole + 1, 2 * whole + 1, request, frozenset({0})),),
        )
        heavy = Queue("heavy", None, 1000, 0, unset, unset, unset, zero)
        crowded = replace(
            world, queues=(*world.queues, heavy), gangs=(*world.gangs, rival), policy=Policy(proportion=True)
        )
        yield crowded, plan_of_pods(crowded, placed)


def held_but_there(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A gang that starts, or one that waits and is in the cluster; and without proportion, one that may be held."""
    made, by_share = plan_of_pods(world, placed), replace(world, policy=Policy(proportion=True))
    for g in pick_one(random, list(range(len(world.gangs)))):
        held = replace(made, decisions=replace_at(made.decisions, g, held=True))
        may = replace_at(world.gangs, g, may_be_held=True)
        yield by_share, held
        yield (replace(by_share, gangs=may) if g in placed else replace(world, policy=Policy(), gangs=may)), held


def queue_sum_wrong(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    for q in pick_one(random, list(range(len(world.queues)))):
        use = made.queues[q]
        wrong = {
            "share": use.share + 0.01,
            "allocated": (use.allocated[0] + 1, *use.allocated[1:]),
            "admitted": (*use.admitted[:-1], -1),
            "deserved": tuple((amount or 0) + 2 for amount in use.deserved),
        }
        field = random.choice(sorted(wrong))
        yield world, replace(made, queues=replace_at(made.queues, q, **{field: wrong[field]}))


MUTATORS: Mutators = {
    capability_lowered: "capability",
    guarantee_of_another_taken: "guarantees",
    queue_closed: "closed_queues",
    guarantee_counted_twice: "real_capability",
    share_by_weight_exceeded: "proportion",
    held_but_there: "held_gangs",
    queue_sum_wrong: "queue_use",
}
