"""Ways to break a valid plan that are wrong by construction.

A mutant names the rule it breaks. Unless the bookkeeping itself is what it breaks, domains and queue sums are made anew
from its placements, so that only the rule in question can notice.

    parts           valid plans by a plain greedy, and the tools that break them
    pods            pods in places, or in numbers, that no valid plan has
    queues          queues that hold what they may not, or wrong figures of what they hold
    bookkeeping     plans that do not report what they do: actions, sums, batches, reasons, and claims of quality
    device_slots    device slots that give what they do not have, or give it to no pod
    pod_rules       pods next to others that they may not be with, or without those that they need
    victims         victims without an eviction right, evicted for no gain, or evicted in part
    eviction_votes  victims that a plugin of the scheduler, or a disruption budget, protects
    time            orders not kept, domains and nodes reserved for others, reservations that cannot come true
"""

from __future__ import annotations

from tests.property.mutants import bookkeeping, device_slots, eviction_votes, pod_rules, pods, queues, time, victims
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, greedy_pods, plan_of_pods

__all__ = ["MUTATORS", "Mutant", "PodsByGang", "greedy_pods", "plan_of_pods"]

MODULES = (pods, queues, bookkeeping, device_slots, victims, eviction_votes, time, pod_rules)
MUTATORS: Mutators = {mutate: rule for room in MODULES for mutate, rule in room.MUTATORS.items()}
"""A way to break a plan -> the rule that it breaks."""
