"""The independent check of a plan against its problem. It shares no code with the models, so a mistake there shows
here.

The docstrings of `RULES` are the definition of a valid plan; docs/develop/model.md has the mathematics. *Running* pods
are those of `Gang.running`, *new* pods the placed ones beyond them, counted per (role, node). A gang *grows* when it
gets a new pod. Running pods may already break a rule (the topology changed, a limit was lowered). That is not a fault
of the plan, and every rule states the limits for new pods then.

The problem is taken as valid; `solver.validation.values` sees to that.

    checked_plan    problem and plan side by side, with the sums that several rules need
    gangs           decisions, actions, running pods, replicas, domains, nodes open to a gang, topology, subgroups
    capacity        capacity of nodes and their device slots
    queues          limits, guarantees, proportional shares, usage of queues in the plan
    quotas          Volcano's queue plugins, implemented a second time
    batches         which gangs each batch decides, its verdicts, the objectives' values and bounds
    reasons         facts and repairs
    evictions       victims: form, rights, limits
    eviction_votes  what the scheduler's plugins and disruption budgets allow
    plain_search    room found node by node: nobody waits next to it undecided, no victim that is not needed
    pod_rules       affinity, anti-affinity, separation, topology spread, node groups' quotas
    time            strict queues, dedicated domains, maintenance, the reservation
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.plan import Plan
from solver.problem import Problem
from solver.verify.batches import batches, objective_values
from solver.verify.capacity import capacity, device_slots
from solver.verify.checked_plan import CheckedPlan, PlanPath, needs
from solver.verify.evictions import EVICTION_RULES
from solver.verify.gangs import GANG_RULES
from solver.verify.plain_search import idle_room
from solver.verify.pod_rules import POD_RULES
from solver.verify.queues import QUEUE_RULES
from solver.verify.reasons import reasons
from solver.verify.time import TIME_RULES

__all__ = ["RULES", "Violation", "needs", "verify"]


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is the name of a function in `RULES`; `where` the path of indices into the plan (or, for a node or queue,
    the problem)."""

    rule: str
    where: PlanPath
    message: str


def verify(problem: Problem, plan: Plan) -> list[Violation]:
    """Return every rule that the plan breaks, in the order of `RULES` and of the indices; empty for a valid plan."""
    x = CheckedPlan(problem, plan)
    return [Violation(rule.__name__, where, message) for rule in RULES for where, message in rule(x)]


RULES = (
    *GANG_RULES,
    capacity,
    *QUEUE_RULES,
    batches,
    reasons,
    idle_room,
    device_slots,
    *EVICTION_RULES,
    *POD_RULES,
    *TIME_RULES,
    objective_values,
)
