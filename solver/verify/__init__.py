"""The independent check of a plan against its problem. It shares no code with the model, so a mistake there cannot hide
here.

What a valid plan is, rule by rule, stands in the docstrings of the functions in `RULES`; docs/model.md says the same as
mathematics. Three words are used throughout. *Running* pods are the ones of `Gang.running`. *New* pods are the placed
ones beyond them, counted per (role, node). A gang *grows* when it gets at least one new pod. What runs may already
break a rule (the topology changed, a limit was lowered): that is no fault of the plan, and every rule says what new
pods may still do then.

The problem is taken as valid; `solver.validation.values` sees to that.

    ledger      problem and plan side by side, with the sums that several rules need
    gangs       what is decided of each gang: decisions, actions, running pods, replicas, domains, kinds of nodes, topology, subgroups
    capacity    the room of nodes
    cells       the room of their parts: NUMA cells, devices
    queues      limits, guarantees, shares by weight, what queues are said to hold
    quotas      Volcano's queue plugins, read a second time
    batches     who is decided in which batch, and what its verdicts may say
    reasons     why gangs wait
    victims     evictions: their form, their right, their need
    votes       what the scheduler's plugins, and disruption budgets, say of them
    relations   rules between pods
    time        strict queues, kept domains, maintenance, the reservation
    values      what objectives are said to be worth
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.plan import Plan
from solver.problem import Problem
from solver.verify.batches import batches
from solver.verify.capacity import capacity
from solver.verify.cells import device_slots
from solver.verify.gangs import (
    actions,
    decisions,
    domains,
    eligibility,
    replicas,
    running_pods_stay,
    subgroups,
    topology,
)
from solver.verify.ledger import CheckedPlan, PlanPath, needs
from solver.verify.queues import capability, closed_queues, guarantees, proportion, queue_use, real_capability
from solver.verify.reasons import reasons
from solver.verify.relations import AFFINITY_RULES
from solver.verify.time import TIME_RULES
from solver.verify.values import VALUE_RULES
from solver.verify.victims import VICTIM_RULES

__all__ = ["RULES", "Violation", "needs", "verify"]


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is the name of a function in `RULES`; `where` the path of indices into the plan (or, for a node or queue,
    the problem)."""

    rule: str
    where: PlanPath
    message: str


def verify(problem: Problem, plan: Plan) -> list[Violation]:
    """Every rule that the plan breaks, in the order of `RULES` and of the indices; empty for a valid plan."""
    ledger = CheckedPlan(problem, plan)
    return [Violation(rule.__name__, where, message) for rule in RULES for where, message in rule(ledger)]


RULES = (
    decisions,
    actions,
    running_pods_stay,
    replicas,
    domains,
    eligibility,
    capacity,
    topology,
    subgroups,
    capability,
    closed_queues,
    real_capability,
    proportion,
    guarantees,
    queue_use,
    batches,
    reasons,
    device_slots,
    *VICTIM_RULES,
    *AFFINITY_RULES,
    *TIME_RULES,
    *VALUE_RULES,
)
