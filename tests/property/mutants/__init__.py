"""Ways to break a valid plan that are wrong by construction.

A mutant names the rule it breaks. Unless the bookkeeping itself is what it breaks, domains and queue sums are made anew
from its placements, so that only the rule in question can notice.

    parts        valid plans by a plain greedy, and the tools that break them
    pods         pods in places, or in numbers, that no valid plan has
    queues       queues that hold what they may not, or are said to hold what they do not
    bookkeeping  plans that do not say what they do: actions, sums, batches, reasons, and claims about what they are worth
    cells        cells of nodes that give what they do not have, or give it to nobody
    relations    pods beside others that they may not be with, or without those that they need
    victims      victims that nobody had a right to, or that went for nothing, or not whole
    votes        victims that a plugin of the scheduler, or a disruption budget, protects
    time         orders not kept, domains and nodes that others hold, reservations that promise what cannot be
"""

from __future__ import annotations

from tests.property.mutants import bookkeeping, cells, pods, queues, relations, time, victims, votes
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, greedy_pods, plan_of_pods

__all__ = ["MUTATORS", "Mutant", "PodsByGang", "greedy_pods", "plan_of_pods"]

MODULES = (pods, queues, bookkeeping, cells, victims, votes, time, relations)
MUTATORS: Mutators = {mutate: rule for room in MODULES for mutate, rule in room.MUTATORS.items()}
"""A way to break a plan -> the rule that it breaks."""
