"""Victims that nobody had a right to, or that went for nothing, or not whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from solver.plan import Plan
from solver.problem import Gang, Node, Placement, Problem, Queue, Vector
from tests.builders.problems import queue_uses
from tests.property.brute import meets_minima_now, running_pods
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, pick_one, plan_of_pods, replace_at


def plan_with_eviction(
    world: Problem, made: Plan, g: int, j: int, evicted_pods: Iterable[Placement], **changes: object
) -> Plan:
    """The plan with gang g gone for gang j."""
    gone = tuple(evicted_pods)
    decisions = replace_at(
        made.decisions, g, action="evict", placements=(), domains=(), evicted_pods=gone, evicted_for=(j,), **changes
    )
    return replace(made, decisions=decisions, queues=queue_uses(world, decisions))


def victim_pairs(
    world: Problem, placed: PodsByGang, random: Random
) -> Iterator[tuple[int, int, tuple[Placement, ...]]]:
    """(a gang that is kept, one that starts, what the first one runs)."""
    kept = [g for g in sorted(placed) if meets_minima_now(world.gangs[g])]
    starting = [g for g in sorted(placed) if not meets_minima_now(world.gangs[g])]
    for g, j in pick_one(random, [(g, j) for g in kept for j in starting]):
        yield (
            g,
            j,
            tuple(Placement(role, node, pods) for (role, node), pods in sorted(running_pods(world.gangs[g]).items())),
        )


def with_eviction_right(world: Problem, g: int, j: int) -> Problem:
    """The same without quotas, and with gang g open to eviction for gang j."""
    nothing = (None,) * len(world.resources)
    gangs = replace_at(world.gangs, g, evictable=True, priority=world.gangs[j].priority - 1)
    queues = tuple(replace(queue, guarantee=nothing, deserved=nothing, capability=nothing) for queue in world.queues)
    return replace(world, gangs=gangs, queues=queues, preempt_enabled=True, reclaim_enabled=True)


def in_another_queue(world: Problem, g: int, j: int, deserved: Vector) -> Problem:
    """The same with the victim in a queue of its own, that deserves this much."""
    nothing = (None,) * len(world.resources)
    other = Queue("other", None, 1, 0, nothing, deserved, nothing, (0,) * len(world.resources))
    open_to = with_eviction_right(world, g, j)
    return replace(
        open_to, queues=(*open_to.queues, other), gangs=replace_at(open_to.gangs, g, queue=len(open_to.queues))
    )


def evicted_without_a_right(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        yield (
            replace(world, preempt_enabled=True, reclaim_enabled=True),
            plan_with_eviction(world, plan_of_pods(world, placed), g, j, pods),
        )


def evicted_for_nothing(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The plan was valid with the victim still there."""
    for g, j, pods in victim_pairs(world, placed, random):
        yield with_eviction_right(world, g, j), plan_with_eviction(world, plan_of_pods(world, placed), g, j, pods)


def evicted_but_for_a_pod(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        left = (*pods[:-1], *((replace(pods[-1], pods=pods[-1].pods - 1),) if pods[-1].pods > 1 else ()))
        yield with_eviction_right(world, g, j), plan_with_eviction(world, plan_of_pods(world, placed), g, j, left)


def evicted_for_a_gang_that_does_not_start(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        made = plan_with_eviction(world, plan_of_pods(world, placed), g, j, pods)
        others = [k for k, decision in enumerate(made.decisions) if decision.action != "start"]
        wrong = random.choice([(j, j), (), *((k,) for k in (*others, len(world.gangs)))])
        yield (
            with_eviction_right(world, g, j),
            replace(made, decisions=replace_at(made.decisions, g, evicted_for=wrong)),
        )


def evicted_from_a_queue_that_deserves_it(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        other = in_another_queue(world, g, j, (1_000,) * len(world.resources))
        yield other, plan_with_eviction(other, plan_of_pods(other, placed), g, j, pods)


def evicted_for_a_queue_that_deserves_nothing(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        other = in_another_queue(world, g, j, (0,) * len(world.resources))
        yield other, plan_with_eviction(other, plan_of_pods(other, placed), g, j, pods)


def evicted_from_a_queue_that_holds_just_what_it_deserves(
    world: Problem, placed: PodsByGang, random: Random
) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        if any(held := _held(world, g, pods)):
            other = in_another_queue(world, g, j, held)
            yield other, plan_with_eviction(other, plan_of_pods(other, placed), g, j, pods)


def evicted_after_the_last_victim(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Two equal gangs go whole from a queue that deserves what one of them holds."""
    for g, j, pods in victim_pairs(world, placed, random):
        if any(held := _held(world, g, pods)):
            per_role = Counter[int]()
            for p in pods:
                per_role[p.role] += p.pods
            twin_pods = tuple(Placement(role, len(world.nodes), n) for role, n in sorted(per_role.items()))
            twin = replace(world.gangs[g], name="twin", running=twin_pods, slot_holds=())
            node = Node("twin's", 0, None, held, held)
            both = replace(world, nodes=(*world.nodes, node), gangs=(*world.gangs, twin))
            other = in_another_queue(both, g, j, held)
            last, queue = len(world.gangs), len(other.queues) - 1
            changes = {"evictable": True, "priority": other.gangs[g].priority, "queue": queue}
            other = replace(other, gangs=replace_at(other.gangs, last, **changes))
            now = {**placed, last: Counter({(p.role, p.node): p.pods for p in twin_pods})}
            made = plan_with_eviction(other, plan_of_pods(other, now), g, j, pods)
            yield other, plan_with_eviction(other, made, last, j, twin_pods)


def evicted_for_half_a_right(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The winner's queue deserves one resource that it asks for and not the other; the victim's, too, but has more than
    it deserves of only one."""
    for g, j, pods in victim_pairs(world, placed, random):
        rich = (1, *(1_000 for _ in world.resources[1:]))
        other = in_another_queue(world, g, j, rich)
        queue = replace(other.queues[-1], used=(5, *(0 for _ in rich[1:])))
        queues = (*other.queues[:-1], queue, replace(queue, name="home"))
        gangs = replace_at(replace_at(other.gangs, j, queue=len(queues) - 1), g, queue=len(queues) - 2)
        nodes = [replace(n, capacity=(1_000,) * len(rich), free=(1_000,) * len(rich)) for n in world.nodes]
        other = replace(other, nodes=tuple(nodes), queues=queues, gangs=tuple(map(_asking_for_all, gangs)))
        yield other, plan_with_eviction(other, plan_of_pods(other, placed), g, j, pods)


def _asking_for_all(gang: Gang) -> Gang:
    roles = [replace(role, request=tuple(max(1, amount) for amount in role.request)) for role in gang.roles]
    return replace(gang, roles=tuple(roles))


def _held(world: Problem, g: int, pods: Iterable[Placement]) -> Vector:
    roles = world.gangs[g].roles
    return tuple(sum(p.pods * roles[p.role].request[r] for p in pods) for r in range(len(world.resources)))


def evicted_with_a_protected_pod(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, j, pods in victim_pairs(world, placed, random):
        other = with_eviction_right(world, g, j)
        other = replace(other, gangs=replace_at(other.gangs, g, protected=(replace(random.choice(pods), pods=1),)))
        yield other, plan_with_eviction(other, plan_of_pods(other, placed), g, j, pods)


MUTATORS: Mutators = {
    evicted_without_a_right: "eviction_rights",
    evicted_with_a_protected_pod: "eviction_rights",
    evicted_for_nothing: "eviction_necessity",
    evicted_but_for_a_pod: "evictions",
    evicted_for_a_gang_that_does_not_start: "evictions",
    evicted_from_a_queue_that_deserves_it: "reclaim_limits",
    evicted_for_a_queue_that_deserves_nothing: "entitlement",
    evicted_from_a_queue_that_holds_just_what_it_deserves: "reclaim_limits",
    evicted_after_the_last_victim: "reclaim_limits",
    evicted_for_half_a_right: "reclaim_limits",
}
