"""The verifier's rule about the values of objectives: counts again what can be counted from the decisions alone."""

from __future__ import annotations

import re

from solver.plan import Batch
from solver.verify.checked_plan import CheckedPlan, Findings

MINIMISED = frozenset({"loss", "whole gangs", "victims", "subgroups", "spread", "supernodes", "nodes"})
GANGS_OBJECTIVE = re.compile(r"gangs\[(?P<priority>-?\d+)(?P<overdue>, overdue)?(?:, queues (?P<rank>-?\d+))?\]")
"""Name of an objective that counts the gangs of one priority, overdue or not, and of queues of one priority where that
matters."""
ROUNDING = 1e-6


def objective_values(x: CheckedPlan) -> Findings:
    """A bound is on the right side of its value: above it for what is maximised, below it for what is minimised.

    `gangs[p]` is the number of the batch's gangs of that priority that start; `loss` counts all evicted pods, each with
    the seconds that its gang has run, at least 1; `victims` the gangs that lose any, `whole gangs` those of them of
    which nothing stays.
    """
    gone = [(g, decision.evicted_pods) for g, decision in sorted(x.decisions.items()) if decision.evicted_pods]
    evicted = {
        "loss": sum(max(1, x.problem.gangs[g].loss) * place.pods for g, pods in gone for place in pods),
        "whole gangs": sum(not x.remaining_pods[g] for g, _ in gone),
        "victims": len(gone),
    }
    for b, batch in enumerate(x.plan.batches):
        for o, objective in enumerate(batch.objectives):
            where, name, value, bound = (
                ("batches", b, "objectives", o),
                objective.name,
                objective.value,
                objective.bound,
            )
            better = value - bound if name in MINIMISED else bound - value
            if not better >= -ROUNDING * max(1.0, abs(value)):
                yield where, f"the bound {bound} is on the wrong side of the value {value}"
            level = GANGS_OBJECTIVE.fullmatch(name)
            counted = evicted.get(name) if level is None else _count_started(x, batch, level)
            if counted is not None and not abs(value - counted) <= ROUNDING:
                yield where, f"{name} is said to be {value}, and counted to be {counted}"


def _count_started(x: CheckedPlan, batch: Batch, level: re.Match[str]) -> int:
    """How many gangs of the batch and of this level start."""
    wanted, rank = (int(level["priority"]), bool(level["overdue"])), level["rank"]
    count = 0
    for g in batch.gangs:
        if g in x.decisions and x.decisions[g].action == "start":
            gang = x.problem.gangs[g]
            ranked = rank is None or x.problem.queues[gang.queue].priority == int(rank)
            count += ranked and (gang.priority, gang.overdue) == wanted
    return count
