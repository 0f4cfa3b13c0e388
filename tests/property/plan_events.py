"""What happens in a plan, counted over the worlds of a property test, so that no test can thin out to worlds in which
its case never occurs."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings

from solver.plan import Plan
from solver.problem import Problem
from tests.builders.depth import least


def plan_events(world: Problem, plan: Plan) -> set[str]:
    """One word for each thing that is found somewhere in the plan."""
    starts = [d for d in plan.decisions if d.action == "start"]
    waits = [d for d in plan.decisions if d.action == "wait"]
    found = {objective.name.split("[")[0] for batch in plan.batches for objective in batch.objectives}
    found |= {fact.code for d in waits for fact in d.facts} | {repair.code for d in waits for repair in d.repairs}
    said = {
        "starts": bool(starts),
        "two start": len(starts) > 1,
        "waits": bool(waits),
        "starts and waits": bool(starts and waits),
        "never": any(fact.never for d in waits for fact in d.facts),
        "queues contend": len({world.gangs[d.gang].queue for d in starts + waits}) > 1,
        "evicts": any(d.evicted_pods for d in plan.decisions),
        "reserves": plan.reservation is not None,
        "reserves in time": plan.reservation is not None and plan.reservation.starts_in is not None,
        "related": any(role.owned_rules or role.selecting_rules for d in starts for role in world.gangs[d.gang].roles),
        "cells": any(d.slot_uses for d in plan.decisions),
    }
    return found | {name for name, so in said.items() if so}


def rare_events(counts: Counter[str], **least_counts: int) -> dict[str, int]:
    """The events seen less often than they must be, their words joined by underscores. least_counts: in a deep run.
    Random examples (`scripts/hunt`) vary and are not counted."""
    if settings.get_current_profile_name() == "random":
        return {}
    return {
        name: counts[name.replace("_", " ")]
        for name, number in least_counts.items()
        if counts[name.replace("_", " ")] < least(number)
    }
