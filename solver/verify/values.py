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
    victims = [(g, x.problem.gangs[g], d.evicted_pods) for g, d in sorted(x.decisions.items()) if d.evicted_pods]
    evicted = {
        "loss": sum(max(1, gang.loss) * place.pods for _, gang, pods in victims for place in pods),
        "whole gangs": sum(1 for g, _, _ in victims if not x.remaining_pods[g]),
        "victims": len(victims),
    }
    for b, batch in enumerate(x.plan.batches):
        counted = evicted | dict(_started_counts(x, batch))
        for o, objective in enumerate(batch.objectives):
            where = ("batches", b, "objectives", o)
            better = objective.bound - objective.value
            better = -better if objective.name in MINIMISED else better
            if not better >= -ROUNDING * max(1.0, abs(objective.value)):
                yield where, f"the bound {objective.bound} is on the wrong side of the value {objective.value}"
            if objective.name in counted and not abs(objective.value - counted[objective.name]) <= ROUNDING:
                yield (
                    where,
                    f"{objective.name} is said to be {objective.value}, and counted to be {counted[objective.name]}",
                )


def _started_counts(x: CheckedPlan, batch: Batch) -> Iterator[tuple[str, int]]:
    """(objective that counts gangs, the number that it should be)."""
    gangs = [x.problem.gangs[g] for g in batch.gangs if g in x.decisions and x.decisions[g].action == "start"]
    for objective in batch.objectives:
        if level := GANGS_OBJECTIVE.fullmatch(objective.name):
            mine = [g for g in gangs if g.priority == int(level["priority"]) and g.overdue == bool(level["overdue"])]
            if level["rank"] is not None:
                mine = [g for g in mine if x.problem.queues[g.queue].priority == int(level["rank"])]
            yield objective.name, len(mine)


VALUE_RULES = (objective_values,)
