"""Orders not kept, domains and nodes that others hold, reservations that promise what cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.facts import Undecided
from solver.plan import Plan, Reservation
from solver.problem import DisruptionBudget, EvictionVotes, Placement, Problem, Queue
from solver.verify import verify
from tests.builders.problems import with_fields
from tests.property.brute import meets_minima_now
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, new_pods, pick_one, plan_of_pods, replace_at


def started_out_of_turn(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The queue becomes strict, and whoever waits in it older than one who starts."""
    waiting = [g for g in range(len(world.gangs)) if g not in placed]
    starting = [g for g in sorted(placed) if not meets_minima_now(world.gangs[g])]
    for g, j in pick_one(
        random, [(g, j) for g in waiting for j in starting if world.gangs[g].queue == world.gangs[j].queue]
    ):
        late = with_fields(
            world.gangs[j],
            age=99,
            priority=world.gangs[g].priority,
            overdue=random.choice((False, world.gangs[g].times.overdue)),
        )
        queues = replace_at(world.queues, late.queue, strict_order=True)
        strict = replace(world, queues=queues, gangs=(*world.gangs[:j], late, *world.gangs[j + 1 :]))
        yield strict, plan_of_pods(strict, placed)


def pod_in_a_dedicated_domain(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The domain of a new pod turns out to be kept for a queue that has no gangs."""
    nothing, zero = (None,) * len(world.resources), (0,) * len(world.resources)
    spots = [(g, world.nodes[node].leaf) for g, (_, node) in new_pods(world, placed)]
    for _, leaf in pick_one(random, [(g, leaf) for g, leaf in spots if leaf is not None]):
        owner = Queue("owner", None, 1, 0, nothing, nothing, nothing, zero, dedicated_domains=(leaf,))
        guarded = replace(world, queues=(*world.queues, owner))
        yield guarded, plan_of_pods(guarded, placed)


def domain_lent_to_one_that_stays(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The borrower could be evicted, but for one thing: reclaim is off, its queue is not reclaimable, a plugin or a
    disruption budget protects it."""
    for guarded, _ in pod_in_a_dedicated_domain(world, placed, random):
        open_to = replace(
            guarded, reclaim_enabled=True, gangs=tuple(with_fields(gang, evictable=True) for gang in guarded.gangs)
        )
        everyone = tuple((g, 0) for g, gang in enumerate(open_to.gangs) if gang.roles)
        firm = random.choice(
            (
                replace(open_to, reclaim_enabled=False),
                replace(open_to, reclaim_votes=EvictionVotes(whole_gangs=False)),
                replace(open_to, disruption_budgets=(DisruptionBudget("firm", 9, everyone),)),
                replace(open_to, queues=tuple(replace(queue, reclaimable=False) for queue in open_to.queues)),
            )
        )
        yield firm, plan_of_pods(firm, placed)


def pod_on_a_node_that_closes(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Before the gang is to end, or whenever it does if nobody knows."""
    for g, (_, node) in pick_one(random, new_pods(world, placed)):
        ends = random.choice((None, 101))
        gangs = replace_at(world.gangs, g, duration=ends, ends_in=ends if world.gangs[g].running else None)
        closing = replace(
            world, gangs=gangs, nodes=replace_at(world.nodes, node, maintenance_in=random.choice((0, 100)))
        )
        yield closing, plan_of_pods(closing, placed)


def _worlds_with_reservation(
    world: Problem, placed: PodsByGang, random: Random
) -> Iterator[tuple[Problem, PodsByGang, Reservation]]:
    """A gang that starts waits instead, with its pods reserved until another one, which is to end in 100 seconds, is
    gone."""
    starting = [g for g in sorted(placed) if not meets_minima_now(world.gangs[g]) and not world.gangs[g].running]
    with_pods = [v for v in sorted(placed) if any(placed[v].values())]
    for g, v in pick_one(random, [(g, v) for g in starting for v in with_pods if v != g]):
        pods = tuple(Placement(role, node, n) for (role, node), n in sorted(placed[g].items()) if n)
        if not pods:
            continue
        field = "ends_in" if world.gangs[v].running else "duration"
        timed = replace(world, gangs=replace_at(world.gangs, v, **{field: 100}))
        yield timed, {other: spots for other, spots in placed.items() if other != g}, Reservation(g, 100, pods, (v,))


def _plan_with_reservation(world: Problem, placed: PodsByGang, reservation: Reservation) -> Plan:
    made = plan_of_pods(world, placed)
    return replace(
        made,
        decisions=replace_at(made.decisions, reservation.gang, starts_in=reservation.starts_in),
        reservation=reservation,
    )


def reservation_wrong(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Its time, who it waits for, its pods, or what the decisions say of it."""
    for timed, rest, held in _worlds_with_reservation(world, placed, random):
        if verify(timed, _plan_with_reservation(timed, rest, held)):
            continue
        first = held.placements[0]
        wrong = random.choice(
            (
                replace(held, starts_in=99),
                replace(held, starts_in=None),
                replace(held, awaited_gangs=()),
                replace(held, awaited_gangs=(*held.awaited_gangs, held.gang)),
                replace(held, placements=()),
                replace(held, placements=(replace(first, pods=first.pods + 99), *held.placements[1:])),
                replace(held, placements=(replace(first, node=len(world.nodes)), *held.placements[1:])),
            )
        )
        yield timed, _plan_with_reservation(timed, rest, wrong)
        yield timed, replace(_plan_with_reservation(timed, rest, held), reservation=None)


def never_for_a_reserved_gang(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """It is said to fit never, and the plan holds room for it."""
    for timed, rest, held in _worlds_with_reservation(world, placed, random):
        made = _plan_with_reservation(timed, rest, held)
        yield (timed, replace(made, decisions=replace_at(made.decisions, held.gang, facts=(Undecided(never=True),))))


def reserved_node_taken(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Another gang's new pod is on a reserved node, and nobody knows when that gang ends."""
    for timed, rest, held in _worlds_with_reservation(world, placed, random):
        nodes = {place.node for place in held.placements}
        for g, _ in pick_one(
            random, [(g, spot) for g, spot in new_pods(timed, rest) if spot[1] in nodes and g not in held.awaited_gangs]
        ):
            gangs = replace_at(timed.gangs, g, duration=None, ends_in=None, priority=timed.gangs[held.gang].priority)
            later = replace(timed, gangs=gangs)
            yield later, _plan_with_reservation(later, rest, held)


MUTATORS: Mutators = {
    started_out_of_turn: "strict_order",
    pod_in_a_dedicated_domain: "dedicated_domains",
    domain_lent_to_one_that_stays: "dedicated_domains",
    pod_on_a_node_that_closes: "maintenance",
    reservation_wrong: "reservation",
    never_for_a_reserved_gang: "reasons",
    reserved_node_taken: "reservation",
}
