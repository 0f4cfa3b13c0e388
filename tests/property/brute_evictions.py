"""Evictions by brute force: the legal choices of pods to evict, and the least that has to be evicted for one gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

from solver.plan import Plan
from solver.problem import DisruptionBudget, Gang, Problem, Vector
from tests.property.brute import (
    FreeCapacity,
    RoleOnNode,
    _domain,
    _meets_minima,
    home_nodes,
    meets_minima_now,
    new_pod_sets,
    running_pods,
)
from tests.property.brute_pod_rules import keeps_pod_rules


def due(world: Problem, q: int, r: int) -> int | None:
    """What is written, inside what guarantees leave of the capability; at least the guarantee."""
    queue = world.queues[q]
    if queue.deserved[r] is None and queue.guarantee[r] is None:
        return None
    total, guaranteed = (
        sum(node.capacity[r] for node in world.nodes),
        sum(other.guarantee[r] or 0 for other in world.queues),
    )
    real = max(0, total - guaranteed) + (queue.guarantee[r] or 0)
    most = queue.capability[r]
    return max(min(queue.deserved[r] or 0, real if most is None else min(real, most)), queue.guarantee[r] or 0)


def losses(world: Problem, v: int) -> Iterator[Counter[RoleOnNode]]:
    """What gang v may lose as far as it alone is concerned: nothing, everything, or a surplus in whole parts."""
    gang, have = world.gangs[v], running_pods(world.gangs[v])
    yield Counter()
    if not have or not gang.eviction.evictable:
        return
    stay = Counter({(p.role, p.node): p.pods for p in gang.eviction.protected})
    if not stay:
        yield have
    spots = sorted(have)
    for counts in product(*(range(have[spot] - stay[spot] + 1) for spot in spots)):
        gone = Counter({spot: n for spot, n in zip(spots, counts, strict=True) if n})
        if (
            gone
            and gone != have
            and meets_minima_now(gang)
            and _meets_minima(gang, have - gone)
            and _parts_whole(world, gang, have, gone)
        ):
            yield gone


def _parts_whole(world: Problem, gang: Gang, have: Counter[RoleOnNode], gone: Counter[RoleOnNode]) -> bool:
    for part in gang.subgroups:
        for counts in (have, gone):
            inside: Counter[int | None] = Counter()
            for (role, node), pods in counts.items():
                if role in part.roles:
                    inside[_domain(world, node, part.topology)] += pods
            if inside[None] or any(pods % part.size for pods in inside.values()):
                return False
    return True


def legal(
    world: Problem, room: FreeCapacity, j: int, gone: dict[int, Counter[RoleOnNode]], short: frozenset[int]
) -> bool:
    """short: what keeps the gang out."""
    winner = world.gangs[j]
    foreign = [v for v in gone if world.gangs[v].queue != winner.queue]
    if gone and not winner.eviction.may_evict:
        return False
    if not all(_voted(world, winner, v, pods) for v, pods in gone.items()) or not all(
        _budgeted(budget, gone) for budget in world.disruption_budgets
    ):
        return False
    if any(not world.preempt_enabled or world.gangs[v].priority >= winner.priority for v in gone if v not in foreign):
        return False
    if not foreign:
        return True
    if not world.reclaim_enabled:
        return False
    rights = {q: _right(world, room, winner, q, short) for q in {world.gangs[v].queue for v in foreign}}
    return all(right and _spared(world, room, q, foreign, gone, winner, short, right) for q, right in rights.items())


def _right(world: Problem, room: FreeCapacity, winner: Gang, q: int, short: frozenset[int]) -> str:
    """The winner's right to take from q: "all", or "some", of what it asks for is within what its queue deserves."""
    amounts = range(len(world.resources))
    asked, mixes = _asked(world, winner), smallest_mixes(winner)
    own = [room.held_below(winner.queue, [held[r] for held in room.held]) for r in amounts]
    mine = {r: most for r in asked if (most := due(world, winner.queue, r))}
    within = [own[r] + max(_amount(winner, mix, r) for mix in mixes) <= mine[r] for r in mine.keys() & short or mine]
    return "all" if within and all(within) else "some" if any(within) else ""


def _short(world: Problem, room: FreeCapacity, winner: Gang) -> frozenset[int]:
    """The resources that keep the winner out, each looked at by itself; all that it asks for where none does."""
    return lacking(world, room, winner) or frozenset(_asked(world, winner))


def _asked(world: Problem, winner: Gang) -> set[int]:
    """The resources that it asks for whichever pods it starts with."""
    return {r for r, amount in enumerate(_least_amounts(world, winner)) if amount}


def _least_amounts(world: Problem, winner: Gang) -> list[int]:
    mixes = smallest_mixes(winner)
    return [min(_amount(winner, mix, r) for mix in mixes) for r in range(len(world.resources))]


def _amount(winner: Gang, mix: tuple[int, ...], r: int) -> int:
    return sum(pods * role.request[r] for pods, role in zip(mix, winner.roles, strict=True))


def smallest_mixes(gang: Gang) -> list[tuple[int, ...]]:
    """Numbers of pods per role with which the gang just reaches its minima."""
    least = max(gang.minimum, sum(role.minimum for role in gang.roles))
    options = product(*(range(role.minimum, role.replicas + 1) for role in gang.roles))
    return [mix for mix in options if sum(mix) == least]


def lacking(world: Problem, room: FreeCapacity, winner: Gang, nodes: Collection[int] | None = None) -> frozenset[int]:
    """The resources of which there is too little among these nodes, or all, whichever pods it starts with."""
    places = [n for n in range(len(room.free)) if nodes is None or n in nodes]

    def fits(r: int, mix: tuple[int, ...]) -> bool:
        free = [max(0, room.free[n][r]) for n in places]
        roles = [(role.request[r], pods) for role, pods in zip(winner.roles, mix, strict=True) if role.request[r]]
        alone = all(sum(have // size for have in free) >= pods for size, pods in roles)
        return alone and sum(free) >= _amount(winner, mix, r)

    mixes = smallest_mixes(winner)
    return frozenset(r for r in _asked(world, winner) if not any(fits(r, mix) for mix in mixes))


def _voted(world: Problem, winner: Gang, v: int, gone: Counter[RoleOnNode]) -> bool:
    """Whether the plugins gang and drf let these pods go."""
    votes = world.preempt_votes if world.gangs[v].queue == winner.queue else world.reclaim_votes
    left = running_pods(world.gangs[v]) - gone
    whole = votes.whole_gangs or world.gangs[v].eviction.may_lose_all
    if not votes.compare_shares:
        return whole or bool(+left)
    totals = [sum(node.capacity[r] for node in world.nodes) for r in range(len(world.resources))]
    asked = max(
        Fraction(sum(role.minimum * role.request[r] for role in winner.roles), total) for r, total in enumerate(totals)
    )
    keeps = max(
        Fraction(sum(n * world.gangs[v].roles[t].request[r] for (t, _), n in left.items()), total)
        for r, total in enumerate(totals)
    )
    return (whole or bool(+left)) and keeps >= asked - Fraction(1, 10**6)


def _budgeted(budget: DisruptionBudget, gone: dict[int, Counter[RoleOnNode]]) -> bool:
    return sum(n for v, pods in gone.items() for (t, _), n in pods.items() if (v, t) in budget.roles) <= budget.allowed


def _spared(
    world: Problem,
    room: FreeCapacity,
    q: int,
    foreign: list[int],
    gone: dict[int, Counter[RoleOnNode]],
    winner: Gang,
    short: frozenset[int],
    right: str,
) -> bool:
    """Whether the queue can spare what others take from it: it keeps its guarantee, and whatever went, a gang or a pod,
    went while it held more than it deserves."""
    amounts = range(len(world.resources))
    asked = _asked(world, winner)
    lost = [[0] * len(world.queues) for _ in amounts]
    for v in foreign:
        for (role, _), pods in gone[v].items():
            for r in amounts:
                lost[r][world.gangs[v].queue] += pods * world.gangs[v].roles[role].request[r]
    held = [room.held_below(q, [h[r] - x for h, x in zip(room.held, lost[r], strict=True)]) for r in amounts]
    if not world.queues[q].reclaimable or any(held[r] < (world.queues[q].guarantee[r] or 0) for r in amounts):
        return False
    units = [unit for v in foreign if world.gangs[v].queue == q for unit in _units(world, v, gone[v])]
    spare = {r for r in amounts if held[r] + max(last[r] for _, last in units) > (due(world, q, r) or 0)}
    for returned, _ in units:
        named = {r for r in amounts if returned[r] and due(world, q, r)}
        counted = named & short or named
        if not any(returned[r] for r in asked):
            return False
        if named and not (named <= spare if right == "some" else counted & spare):
            return False
    return True


def _units(world: Problem, v: int, gone: Counter[RoleOnNode]) -> list[tuple[list[int], list[int]]]:
    """What each unit of these pods holds, and what of it may be the last to go: a pod, or what is left of a gang that
    goes whole once it has lost all that it can spare."""
    gang, have = world.gangs[v], running_pods(world.gangs[v])

    def amounts(pods: Counter[RoleOnNode]) -> list[int]:
        return [sum(n * gang.roles[t].request[r] for (t, _), n in pods.items()) for r in range(len(world.resources))]

    if gone != have:
        return [(amounts(Counter([spot])), amounts(Counter([spot]))) for spot in gone]
    return [(amounts(have), amounts(have) if gang.subgroups else list(_least_kept(gang)))]


@cache
def _least_kept(gang: Gang) -> Vector:
    """The least of each resource that the gang, which has no subgroups, keeps when it loses what it can spare, and at
    least a pod."""
    kept = [gang.running]
    if meets_minima_now(gang):
        for counts in product(*(range(p.pods + 1) for p in gang.running)):
            left = tuple(replace(p, pods=n) for p, n in zip(gang.running, counts, strict=True))
            if any(counts) and _meets_minima(gang, Counter({(p.role, p.node): p.pods for p in left})):
                kept.append(left)
    held = [[sum(p.pods * gang.roles[p.role].request[r] for p in left) for left in kept] for r in range(2)]
    return tuple(max(min(some), *(gang.roles[p.role].request[r] for p in gang.running)) for r, some in enumerate(held))


def fits(world: Problem, room: FreeCapacity, j: int, gone: dict[int, Counter[RoleOnNode]]) -> bool:
    """Whether the gang's minima find a place once these pods are gone."""
    amounts = range(len(world.resources))
    free = [list(node) for node in room.free]
    added = [[0] * len(world.resources) for _ in world.queues]
    for v, pods in gone.items():
        for (role, node), number in pods.items():
            for r in amounts:
                free[node][r] += number * world.gangs[v].roles[role].request[r]
                added[world.gangs[v].queue][r] -= number * world.gangs[v].roles[role].request[r]
    for option in new_pod_sets(world, j):
        use = room.use_of(j, option)
        if any(use[n][r] > max(0, free[n][r]) for n in range(len(free)) for r in amounts):
            continue
        after = [list(vector) for vector in added]
        for vector in use:
            for r in amounts:
                after[world.gangs[j].queue][r] += vector[r]
        new = Counter({(j, role, node): pods for (role, node), pods in option.items()})
        evicted = Counter({(v, role, node): n for v, pods in gone.items() for (role, node), n in pods.items()})
        home = home_nodes(world, world.gangs[j], next((node for _, node in option), 0))
        if not keeps_pod_rules(world, new, evicted if lacking(world, room, world.gangs[j], home) else None):
            continue
        if room.fits_queues([tuple(vector) for vector in after]) and _within(world, room, j, use, after):
            return True
    return False


def _within(
    world: Problem, room: FreeCapacity, j: int, use: tuple[tuple[int, ...], ...], added: list[list[int]]
) -> bool:
    """New pods stay under every capability above them, also where what ran before did not."""
    q: int | None = world.gangs[j].queue
    while q is not None:
        for r, limit in enumerate(world.queues[q].capability):
            held = room.held_below(q, [h[r] + a[r] for h, a in zip(room.held, added, strict=True)])
            if limit is not None and any(vector[r] for vector in use) and held > limit:
                return False
        q = world.queues[q].parent
    return True


def least_loss(world: Problem, j: int) -> tuple[int, int] | None:
    """(loss, gangs that go whole) of the best choice."""
    room = FreeCapacity(world)
    short, costs = _short(world, room, world.gangs[j]), list[tuple[int, int]]()
    for choice in product(
        *(list(losses(world, v)) if v != j else [Counter[RoleOnNode]()] for v in range(len(world.gangs)))
    ):
        gone = {v: pods for v, pods in enumerate(choice) if pods}
        if legal(world, room, j, gone, short) and fits(world, room, j, gone):
            costs.append(cost(world, gone))
    return min(costs, default=None)


def cost(world: Problem, gone: dict[int, Counter[RoleOnNode]]) -> tuple[int, int]:
    """(loss, gangs that go whole)"""
    whole = sum(pods == running_pods(world.gangs[v]) for v, pods in gone.items())
    return sum(max(1, world.gangs[v].eviction.loss) * sum(pods.values()) for v, pods in gone.items()), whole


def paid(plan: Plan, world: Problem) -> tuple[int, int]:
    """`cost` of what a plan evicts."""
    return cost(
        world,
        {d.gang: Counter({(p.role, p.node): p.pods for p in d.evicted_pods}) for d in plan.decisions if d.evicted_pods},
    )
