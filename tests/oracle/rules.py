"""What queues may hold, deserve and are measured by, after Volcano's plugins capacity and proportion; in fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tests.builders.proportion import Wish, proportion_shares
from tests.oracle.documents import Queue, World


def asked(world: World) -> dict[str, dict[str, int]]:
    """Queue with jobs -> what they ask for with all replicas."""
    found: dict[str, dict[str, int]] = {}
    for job in world.jobs:
        own = found.setdefault(job.queue, dict.fromkeys(world.totals, 0))
        for r, amount in job.demand(replicas=True).items():
            own[r] += amount
    return found


def real_capability(world: World, queue: Queue, r: str) -> int:
    """What the guarantees of others leave of a queue's capability."""
    guaranteed = sum(each.guarantee.get(r, 0) for each in world.queues.values())
    left = max(0, world.totals[r] - guaranteed) + queue.guarantee.get(r, 0)
    return min(left, queue.capability.get(r, left))


def ceilings(world: World, name: str) -> dict[str, int]:
    """What the policy lets a queue hold by itself; its own capability is none of it."""
    queue, found = world.queues[name], dict[str, int]()
    if world.plugins:
        found = {r: real_capability(world, queue, r) for r in world.totals if r != "pods"}
    if "proportion" in world.plugins:
        share = water_filled(world)[name]
        found = {r: min(most, share[r]) for r, most in found.items()}
    return found


def water_filled(world: World) -> dict[str, dict[str, int]]:
    """Proportion's shares of the queues with jobs, in whole units, pods aside. What `enqueue` never lets into its queue
    has no pods, and is not asked for."""
    names = [r for r in world.totals if r != "pods"]
    wants, wishes = asked(world), dict[str, Wish]()
    for job in world.jobs if world.enqueues else ():
        queue, least = world.queues[job.queue], job.demand()
        if any(least.get(r, 0) > real_capability(world, queue, r) for r in names):
            for r, amount in job.demand(replicas=True).items():
                wants[job.queue][r] -= amount
    for name, own in wants.items():
        queue = world.queues[name]
        limit = [real_capability(world, queue, r) for r in names]
        guarantee = [queue.guarantee.get(r, 0) for r in names]
        wishes[name] = Wish(queue.weight, [own[r] for r in names], limit, guarantee)
    others = any(node.has.keys() - {*names, "pods"} for node in world.nodes)
    shares = proportion_shares(names, [world.totals[r] for r in names], wishes, others_remain=others)
    return {q: {r: int(amount) for r, amount in zip(names, own, strict=True)} for q, own in shares.items()}


def deserved(world: World, queue: Queue) -> dict[str, int]:
    """What a queue deserves by name with capacity."""
    found = {}
    for r in world.totals:
        if r in queue.deserved or r in queue.guarantee:
            most = min(queue.deserved.get(r, 0), real_capability(world, queue, r))
            found[r] = max(most, queue.guarantee.get(r, 0))
    return found


def entitlement(world: World, name: str) -> dict[str, int]:
    """What a queue may hold before it borrows; resources of which nothing is said are left out."""
    queue = world.queues[name]
    if "capacity" in world.plugins:
        due = deserved(world, queue)
        if any(amount for r, amount in due.items() if r != "pods"):
            found = {r: int(_scale(world, r) * amount) for r, amount in due.items()}
        else:
            found = dict.fromkeys(world.totals, 0)
    elif "proportion" in world.plugins:
        found = water_filled(world)[name]
    else:
        share = fair_shares(world)[name]
        found = {r: int(share * total) for r, total in world.totals.items()}
    return {r: max(amount, queue.guarantee.get(r, 0)) for r, amount in found.items()}


def _scale(world: World, r: str) -> Fraction:
    """The most t <= 1 for which sum_q min(asked_q, t * deserved_q) is no more than there is of r."""
    due = {q: deserved(world, world.queues[q]).get(r, 0) for q in asked(world)}
    wants = {q: amounts[r] for q, amounts in asked(world).items()}
    low, left = Fraction(0), Fraction(world.totals[r])
    corners = sorted({Fraction(1), *(min(Fraction(1), Fraction(wants[q], d)) for q, d in due.items() if d)})
    for corner in corners:
        rate = sum(d for q, d in due.items() if wants[q] > low * d)
        if rate * (corner - low) > left:
            return low + left / rate
        low, left = corner, left - rate * (corner - low)
    return Fraction(1)


def fair_shares(world: World) -> dict[str, Fraction]:
    """Queue with jobs -> its dominant share were jobs divisible and nodes one pool: all grow by weight, in the
    proportions of what they ask for, until they have it or something that they need is used up."""
    totals = {r: total for r, total in world.totals.items() if total}
    parts = {q: {r: Fraction(amounts[r], totals[r]) for r in totals} for q, amounts in asked(world).items()}
    top = {q: max(of.values(), default=Fraction(0)) for q, of in parts.items()}
    level, left = dict.fromkeys(parts, Fraction(0)), dict.fromkeys(totals, Fraction(1))
    growing = {q for q, share in top.items() if share}
    while growing:
        speed = {q: Fraction(world.queues[q].weight) for q in growing}
        drain = {r: sum(speed[q] * parts[q][r] / top[q] for q in growing) for r in totals}
        step = min(
            *((top[q] - level[q]) / speed[q] for q in growing), *(left[r] / rate for r, rate in drain.items() if rate)
        )
        level |= {q: level[q] + step * speed[q] for q in growing}
        left = {r: left[r] - step * drain[r] for r in totals}
        empty = {r for r, amount in left.items() if not amount}
        growing = {q for q in growing if level[q] < top[q] and not any(parts[q][r] for r in empty)}
    return level


@dataclass(frozen=True)
class Measure:
    """A queue's share: base + the most over the resources of held / per / weight."""

    per: Mapping[str, int]
    weight: int
    base: int


def measure(world: World, name: str) -> Measure:
    queue = world.queues[name]
    if "capacity" not in world.plugins:
        return Measure(world.totals, queue.weight, 0)
    due = deserved(world, queue)
    if any(amount for r, amount in due.items() if r != "pods"):
        return Measure(due, 1, 0)
    return Measure(world.totals, queue.weight, 1)
