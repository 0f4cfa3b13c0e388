"""What queues may hold, are entitled to and are measured by: the reference of queue semantics, of a world."""

from __future__ import annotations

from dataclasses import replace

from tests.builders.queue_rules import QueueRules, QueueTerms, ShareMeasure
from tests.oracle.documents import World


def asked(world: World) -> dict[str, dict[str, int]]:
    """Queue with jobs -> what they ask for with all replicas."""
    found: dict[str, dict[str, int]] = {}
    for job in world.jobs:
        own = found.setdefault(job.queue, dict.fromkeys(world.totals, 0))
        for r, amount in job.demand(replicas=True).items():
            own[r] += amount
    return found


def queue_rules(world: World) -> QueueRules[str]:
    wants = asked(world)
    queues = {
        name: QueueTerms(queue.parent, queue.weight, queue.guarantee, queue.deserved, queue.capability, wants.get(name))
        for name, queue in world.queues.items()
    }
    plugin = next((each for each in ("capacity", "proportion") if each in world.plugins), "")
    others = any(node.has.keys() - world.totals.keys() - {"pods"} for node in world.nodes)
    return QueueRules(queues, world.totals, plugin, others_remain=others)


def ceilings(world: World, name: str) -> dict[str, int]:
    """What the policy lets a queue hold by itself; its own capability is none of it."""
    rules, found = queue_rules(world), dict[str, int]()
    if world.plugins:
        found = {r: rules.real_capability(name, r) or 0 for r in world.totals if r != "pods"}
    if "proportion" in world.plugins:
        share = _enqueued(world).proportion_shares[name]
        found = {r: min(most, int(share[r])) for r, most in found.items()}
    return found


def _enqueued(world: World) -> QueueRules[str]:
    """The rules where what `enqueue` never lets into its queue has no pods, and is not asked for."""
    rules, wants = queue_rules(world), asked(world)
    names = [r for r in world.totals if r != "pods"]
    for job in world.jobs if world.enqueues else ():
        least = job.demand()
        if any(least.get(r, 0) > (rules.real_capability(job.queue, r) or 0) for r in names):
            for r, amount in job.demand(replicas=True).items():
                wants[job.queue][r] -= amount
    queues = {name: replace(terms, asked=wants.get(name)) for name, terms in rules.queues.items()}
    return replace(rules, queues=queues)


def entitlement(world: World, name: str) -> dict[str, int]:
    """What a queue may hold before it borrows; resources of which nothing is said are left out."""
    rules = _enqueued(world) if "proportion" in world.plugins else queue_rules(world)
    found = {r: rules.entitlement(name, r) for r in world.totals}
    return {r: amount for r, amount in found.items() if amount is not None}


def measure(world: World, name: str) -> ShareMeasure:
    return queue_rules(world).measure(name)
