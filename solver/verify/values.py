"""The verifier's rule about the values of objectives: counts again what can be counted from the decisions alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    gone = [
        (x.problem.gangs[g], decision.evicted_pods)
        for g, decision in sorted(x.decisions.items())
        if decision.evicted_pods
    ]
    evicted = {
        "loss": sum(max(1, gang.loss) * place.pods for gang, pods in gone for place in pods),
        "whole gangs": sum(
            1 for g, decision in x.decisions.items() if decision.evicted_pods and not x.remaining_pods[g]
        ),
        "victims": len(gone),
    }
    for b, batch in enumerate(x.plan.batches):
        counted = evicted | dict(_started_counts(x, batch))
        for o, objective in enumerate(batch.objectives):
            where = ("batches", b, "objectives", o)
            better = (
                objective.bound - objective.value
                if objective.name not in MINIMISED
                else objective.value - objective.bound
            )
            if not better >= -ROUNDING * max(1.0, abs(objective.value)):
                yield where, f"the bound {objective.bound} is on the wrong side of the value {objective.value}"
            if objective.name in counted and not abs(objective.value - counted[objective.name]) <= ROUNDING:
                yield (
                    where,
                    f"{objective.name} is said to be {objective.value}, and counted to be {counted[objective.name]}",
                )


def _started_counts(x: CheckedPlan, batch: Batch) -> Iterator[tuple[str, int]]:
    """(name, the number of gangs that it should be)."""
    gangs = [x.problem.gangs[g] for g in batch.gangs if g in x.decisions and x.decisions[g].action == "start"]
    for objective in batch.objectives:
        level = GANGS_OBJECTIVE.fullmatch(objective.name)
        if level is not None:
            mine = [
                gang
                for gang in gangs
                if gang.priority == int(level["priority"]) and gang.overdue == bool(level["overdue"])
            ]
            yield (
                objective.name,
                sum(
                    1
                    for gang in mine
                    if level["rank"] is None or x.problem.queues[gang.queue].priority == int(level["rank"])
                ),
            )


VALUE_RULES = (objective_values,)
