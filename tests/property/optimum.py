"""What the best plan is worth, by trying everything: the objectives of docs/model.md in their order, under every queue
policy.

Written from docs/model.md and from Volcano's own rules (capacity, proportion, drf), in fractions; `brute` knows what is
feasible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from solver.problem import Gang, Problem, Vector
from solver.semantics.hierarchical_drf import entitlements
from tests.property.brute import Room, Spot, growths, is_kept, running, smallest

_State = tuple[tuple[Vector, ...], tuple[Vector, ...]]
"""What new pods take from each node, and from each queue."""

CRUMB = Fraction(1, 100_000)
"""Of a unit. What proportion no longer shares out; five of them are forgiven, as Volcano's own comparisons forgive
more."""

Value = tuple[tuple[Fraction, ...], ...]


def ancestors(problem: Problem, q: int) -> list[int]:
    """The queue itself, then all above it."""
    above = problem.queues[q].parent
    return [q] + ([] if above is None else ancestors(problem, above))


def along_the_tree(problem: Problem) -> bool:
    return problem.policy.capacity and problem.policy.capacity_hierarchy


def takes(problem: Problem, q: int) -> bool:
    has_children = any(queue.parent == q for queue in problem.queues)
    return all(problem.queues[a].open for a in ancestors(problem, q)) and not (along_the_tree(problem) and has_children)


def totals(problem: Problem) -> list[int]:
    return [sum(node.capacity[r] for node in problem.nodes) for r in range(len(problem.resources))]


# ---- limits of the policies


def guaranteed(problem: Problem, q: int, r: int) -> int:
    return problem.queues[q].guarantee[r] or 0


def real(problem: Problem, q: int, r: int) -> int | None:
    """What the guarantees of others leave of a queue's capability; None for no limit."""
    if not along_the_tree(problem):
        left = max(0, totals(problem)[r] - sum(guaranteed(problem, other, r) for other in range(len(problem.queues))))
        return min(
            amount
            for amount in (problem.queues[q].capability[r], left + guaranteed(problem, q, r))
            if amount is not None
        )
    parent = problem.queues[q].parent
    if parent is None:
        return problem.queues[q].capability[r]
    named = [most for a in ancestors(problem, q) if (most := problem.queues[a].capability[r]) is not None]
    above = real(problem, parent, r)
    siblings = [c for c, queue in enumerate(problem.queues) if queue.parent == parent]
    inside = (
        None
        if above is None
        else max(0, above - sum(guaranteed(problem, c, r) for c in siblings)) + guaranteed(problem, q, r)
    )
    return min((amount for amount in (*named[:1], inside) if amount is not None), default=None)


def asked(problem: Problem) -> dict[int, list[int]]:
    """What each queue with jobs holds and waits for, with all replicas."""
    found = {
        q: list(queue.used)
        for q, queue in enumerate(problem.queues)
        if any(queue.used) or any(g.queue == q for g in problem.gangs)
    }
    for gang in problem.gangs:
        for t, role in enumerate(gang.roles):
            pods = max(role.replicas, sum(n for (of, _), n in running(gang).items() if of == t))
            found[gang.queue] = [
                have + pods * amount for have, amount in zip(found[gang.queue], role.request, strict=True)
            ]
    return found


def weighted(problem: Problem) -> dict[int, list[Fraction]]:
    """Proportion's water-filling, until next to nothing is left (it may halve what is left for ever)."""
    want, amounts = asked(problem), range(len(problem.resources))
    left = [Fraction(total) for total in totals(problem)]
    share = {q: [Fraction(0) for _ in amounts] for q in want}
    unmet = sorted(want)
    flat = Problem(problem.resources, problem.nodes, problem.hypernodes, problem.queues, problem.gangs)
    while unmet and any(amount >= CRUMB for amount in left):
        weights = sum(problem.queues[q].weight for q in unmet)
        grown = [Fraction(0) for _ in amounts]
        met = []
        for q in unmet:
            part = Fraction(problem.queues[q].weight, weights)
            most = [Fraction(min(want[q][r], real(flat, q, r) or 0)) for r in amounts]
            new = [
                max(min(share[q][r] + left[r] * part, most[r]), Fraction(guaranteed(problem, q, r))) for r in amounts
            ]
            if new == share[q] or all(new[r] >= want[q][r] for r in amounts):
                met.append(q)
            grown = [grown[r] + new[r] - share[q][r] for r in amounts]
            share[q] = new
        unmet = [q for q in unmet if q not in met]
        if not any(grown):
            break
        left = [max(Fraction(0), left[r] - grown[r]) for r in amounts]
    return share


@dataclass(frozen=True)
class Ceilings:
    """The limits that a policy sets beside the capabilities: (queues that count, resource, most)."""

    rows: tuple[tuple[frozenset[int], int, Fraction], ...]

    @classmethod
    def of(cls, problem: Problem, unshared: Collection[tuple[int, int]] = ()) -> Ceilings:
        """unshared: queues and resources without a share by weight."""
        rows: list[tuple[frozenset[int], int, Fraction]] = []
        whole = totals(problem)
        for q, r in product(range(len(problem.queues)), range(len(problem.resources))):
            if problem.policy.capacity or problem.policy.proportion:
                most = real(problem, q, r)
                below = (
                    [d for d in range(len(problem.queues)) if q in ancestors(problem, d)]
                    if along_the_tree(problem)
                    else [q]
                )
                if most is not None and most < whole[r]:
                    rows.append((frozenset(below), r, Fraction(most)))
        if problem.policy.proportion:
            shares = weighted(problem)
            rows += [
                (frozenset({q}), r, most + 5 * CRUMB)
                for q, amounts in shares.items()
                for r, most in enumerate(amounts)
                if most + 5 * CRUMB < whole[r] and (q, r) not in unshared
            ]
        return cls(tuple(rows))

    def hold(self, before: Sequence[Sequence[int]], added: Sequence[Vector]) -> bool:
        """before, added: by queue, without those below it."""
        for queues, r, most in self.rows:
            new = sum(added[q][r] for q in queues)
            if new and new + sum(before[q][r] for q in queues) > most:
                return False
        return True


# ---- what can start together, and how close


def spans(problem: Problem, pods: Iterable[int]) -> int:
    """The communication cost of a gang on these nodes: per tier the domains beyond the first, four times as much from
    tier to tier. A node without a domain of some tier counts with the one below, a node outside with itself and all the
    others outside."""
    lines = [_line(problem, node) for node in sorted(set(pods))]
    return sum(4**level * (len(set(domains)) - 1) for level, domains in enumerate(zip(*lines, strict=True)))


def _line(problem: Problem, node: int) -> list[int | None]:
    """The node's domain at every tier."""
    here = problem.nodes[node].leaf
    at: dict[int, int] = {}
    while here is not None:
        at[problem.hypernodes[here].tier] = here
        here = problem.hypernodes[here].parent
    found: list[int | None] = []
    last = problem.nodes[node].leaf
    for tier in sorted({hypernode.tier for hypernode in problem.hypernodes}):
        last = at.get(tier, last)
        found.append(last)
    return found


def torn(problem: Problem, gang: Gang, pods: Mapping[Spot, int]) -> int:
    """Parts of subgroups that are not whole in one domain, four times as much from tier to tier. Domains as in `spans`."""
    cost = 0
    for part in gang.subgroups:
        mine = {node: sum(n for (t, at), n in pods.items() if at == node and t in part.roles) for _, node in pods}
        for level in range(len({hypernode.tier for hypernode in problem.hypernodes})):
            inside: dict[int | None, int] = {}
            for node, n in mine.items():
                domain = _line(problem, node)[level]
                inside[domain] = inside.get(domain, 0) + n
            cost += 4**level * (sum(mine.values()) // part.size - sum(n // part.size for n in inside.values()))
    return cost


def opened(problem: Problem, room: Room, use: Sequence[Vector]) -> tuple[int, int]:
    """(whole supernodes, whole nodes) that are used now."""
    whole, fresh = set(), set()
    for n, node in enumerate(problem.nodes):
        has = [r for r, amount in enumerate(node.capacity) if amount]
        counts = [r for r in has if r in problem.device_resources] or has
        if counts and all(room.free[n][r] == node.capacity[r] for r in counts):
            whole.add(n)
            if any(use[n][r] for r in counts):
                fresh.add(n)
    leaves = {
        leaf: [n for n, node in enumerate(problem.nodes) if node.leaf == leaf]
        for leaf in range(len(problem.hypernodes))
    }
    return sum(1 for nodes in leaves.values() if nodes and whole.issuperset(nodes) and fresh.intersection(nodes)), len(
        fresh
    )


Cost = tuple[int, int, int, int]
"""Subgroups, spread, supernodes, nodes."""


def minimal(problem: Problem, g: int) -> list[tuple[tuple[Vector, ...], tuple[int, int]]]:
    """The ways to start gang g: what its pods take from each node, and how far they are torn and spread, the least for
    each."""
    room, gang = Room(problem), problem.gangs[g]
    found: dict[tuple[Vector, ...], tuple[int, int]] = {}
    for option in smallest(growths(problem, g)):
        use, pods = room.use(g, option), option + running(gang)
        cost = torn(problem, gang, pods), spans(problem, {node for _, node in pods})
        found[use] = min(cost, found.get(use, cost))
    return sorted(found.items())


def least_costs(problem: Problem) -> dict[frozenset[int], Cost]:
    """Every set of gangs that can start together (those that are kept apart) -> the least that their places cost."""
    room, ceilings = Room(problem), Ceilings.of(problem)
    nothing = (0,) * len(problem.resources)
    start: _State = ((nothing,) * len(problem.nodes), (nothing,) * len(problem.queues))
    reached: dict[frozenset[int], dict[_State, tuple[int, int]]] = {frozenset(): {start: (0, 0)}}
    for g, gang in enumerate(problem.gangs):
        if is_kept(gang) or not takes(problem, gang.queue):
            continue
        ways = minimal(problem, g)
        for admitted, states in list(reached.items()):
            more: dict[_State, tuple[int, int]] = {}
            for ((use, added), (parts, spread)), (extra, own) in product(states.items(), ways):
                both = tuple(_plus(a, b) for a, b in zip(use, extra, strict=True))
                demand = tuple(sum(column) for column in zip(*extra, strict=True))
                charged = tuple(_plus(vector, demand) if q == gang.queue else vector for q, vector in enumerate(added))
                if room.nodes_hold(both) and room.queues_hold(charged) and ceilings.hold(room.held, charged):
                    cost = parts + own[0], spread + own[1]
                    more[both, charged] = min(cost, more.get((both, charged), cost))
            if more:
                reached[admitted | {g}] = more
    return {
        admitted: min((*near, *opened(problem, room, use)) for (use, _), near in states.items())
        for admitted, states in reached.items()
    }


def _plus(left: Vector, right: Vector) -> Vector:
    return tuple(a + b for a, b in zip(left, right, strict=True))


# ---- what it is worth


@dataclass(frozen=True)
class Measure:
    """base + max over r of held_r / per_r, divided by the weight."""

    per: Sequence[int]
    weight: Fraction
    base: int = 0

    def share(self, held: Sequence[int]) -> Fraction:
        return (
            self.base
            + max((Fraction(have, per) for have, per in zip(held, self.per, strict=True) if per), default=Fraction(0))
            / self.weight
        )


def measures(problem: Problem) -> list[Measure]:
    whole = totals(problem)
    if problem.policy.capacity:
        found = []
        for q, queue in enumerate(problem.queues):
            due = [_due(problem, q, r, wanted) for r, wanted in enumerate(queue.deserved)]
            found.append(Measure(due, Fraction(1)) if any(due) else Measure(whole, Fraction(queue.weight), 1))
        return found
    weights = entitlements(problem) if problem.policy.drf_hierarchy else [queue.weight for queue in problem.queues]
    return [Measure(whole, Fraction(weight).limit_denominator(10**6)) for weight in weights]


def _due(problem: Problem, q: int, r: int, wanted: int | None) -> int:
    most = real(problem, q, r)
    inside = 0 if wanted is None else wanted if most is None else min(wanted, most)
    return max(inside, guaranteed(problem, q, r))


def rivals(problem: Problem) -> list[dict[int, list[int]]]:
    """Groups of queues that are measured against one another, in order: queue -> the queues whose gangs count as its
    own."""
    everything = range(len(problem.queues))
    if not along_the_tree(problem):
        return [{q: [q] for q in everything}]
    parents = [None, *sorted(everything, key=lambda q: (len(ancestors(problem, q)), q))]
    return [
        {
            c: [q for q in everything if c in ancestors(problem, q)]
            for c in everything
            if problem.queues[c].parent == parent
        }
        for parent in parents
    ]


def demand(gang: Gang, resources: int) -> list[int]:
    """Of the pods that do not run, for gangs whose minimum is the sum of their roles'."""
    have = [sum(n for (of, _), n in running(gang).items() if of == t) for t in range(len(gang.roles))]
    return [
        sum(max(0, role.minimum - n) * role.request[r] for n, role in zip(have, gang.roles, strict=True))
        for r in range(resources)
    ]


def rank(problem: Problem, g: int) -> tuple[int, int]:
    """The level at which a gang is decided: its own priority, then its queue's where a plugin looks at it."""
    asks = problem.policy.capacity or problem.policy.proportion
    return problem.gangs[g].priority, problem.queues[problem.gangs[g].queue].priority if asks else 0


def worth(problem: Problem, started: frozenset[int]) -> Value:
    """All objectives before the spread, the highest level first: the sorted shares, group by group; the resources; the
    gangs; in the end age."""
    whole, by = totals(problem), measures(problem)
    held = [list(vector) for vector in Room(problem).held]
    asking = [g for g, gang in enumerate(problem.gangs) if not is_kept(gang) and takes(problem, gang.queue)]
    found: list[tuple[Fraction, ...]] = []
    for level in sorted({rank(problem, g) for g in asking}, reverse=True):
        here = [g for g in asking if rank(problem, g) == level]
        placed = Fraction(0)
        for g in sorted(started & set(here)):
            own = demand(problem.gangs[g], len(whole))
            held[problem.gangs[g].queue] = [
                have + more for have, more in zip(held[problem.gangs[g].queue], own, strict=True)
            ]
            placed += max(
                (Fraction(amount, total) for amount, total in zip(own, whole, strict=True) if total),
                default=Fraction(0),
            )
        everyone = started.issuperset(here)
        found.append((Fraction(everyone),))
        for group in rivals(problem):
            asks = [q for q, inside in group.items() if any(problem.gangs[g].queue in inside for g in here)]
            if len(asks) > 1 and not everyone:
                found.append(tuple(sorted(by[q].share(_below(problem, held, q)) for q in asks)))
            else:
                found.append(())
        found += [(placed,), (Fraction(len(started & set(here))),)]
    return (*found, (Fraction(age_of(problem, started)),))


def _below(problem: Problem, held: Sequence[Sequence[int]], q: int) -> list[int]:
    inside = [d for d in range(len(problem.queues)) if q in ancestors(problem, d)]
    return [sum(held[d][r] for d in inside) for r in range(len(problem.resources))]


def age_of(problem: Problem, started: frozenset[int]) -> int:
    """The sum of ranks: of all gangs that ask, the youngest has 1. With drf one that holds more is younger than one
    that holds less."""
    asking = [g for g, gang in enumerate(problem.gangs) if not is_kept(gang) and takes(problem, gang.queue)]
    order = sorted(asking, key=lambda g: (_holds(problem, g), problem.gangs[g].age, g), reverse=True)
    return sum(number for number, g in enumerate(order, 1) if g in started)


def _holds(problem: Problem, g: int) -> Fraction:
    if not problem.policy.drf:
        return Fraction(0)
    gang = problem.gangs[g]
    mine = [
        sum(n * gang.roles[t].request[r] for (t, _), n in running(gang).items()) for r in range(len(problem.resources))
    ]
    return max(
        (Fraction(amount, total) for amount, total in zip(mine, totals(problem), strict=True) if total),
        default=Fraction(0),
    )


def best(problem: Problem, sets: Iterable[frozenset[int]]) -> tuple[Value, list[frozenset[int]]]:
    """The most that can be had, and who may start for it."""
    values = {started: worth(problem, started) for started in sets}
    most = max(values.values())
    return most, sorted((started for started, value in values.items() if value == most), key=sorted)
