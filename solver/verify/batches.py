"""The verifier's rules about batches: verdicts, and the objectives' values that can be counted from decisions alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

from solver.plan import Batch, Objective
from solver.problem import Gang, Problem
from solver.verify.checked_plan import CheckedPlan, Findings

GAP_TOLERANCE = 1e-9
PROVEN_GAP = 1e-6
VERDICTS = ("proven", "within gap", "limit reached")
"""From best to worst."""


def batches(x: CheckedPlan) -> Findings:
    """Each gang that starts or waits belongs to exactly one batch, one that is kept or evicted to at most one. A
    batch's verdict is its worst objective's."""
    times = Counter(g for batch in x.plan.batches for g in batch.gangs)
    for g in sorted(set(times) | set(x.decisions)):
        if not 0 <= g < len(x.problem.gangs):
            yield ("batches",), f"gang {g} does not exist"
        elif times[g] > 1 or (not times[g] and g in x.decisions and x.decisions[g].action not in ("keep", "evict")):
            yield ("batches",), f"gang {g} is decided {times[g]} times"
    for b, batch in enumerate(x.plan.batches):
        yield from _verdict_findings(b, batch)


def _verdict_findings(b: int, batch: Batch) -> Findings:
    for o, objective in enumerate(batch.objectives):
        if fault := _objective_fault(objective):
            yield ("batches", b, "objectives", o), fault
    if batch.verdict not in VERDICTS:
        yield ("batches", b, "verdict"), f"{batch.verdict!r} is none of {', '.join(VERDICTS)}"
    elif batch.objectives and all(objective.verdict in VERDICTS for objective in batch.objectives):
        worst = max((objective.verdict for objective in batch.objectives), key=VERDICTS.index)
        if batch.verdict != worst:
            yield ("batches", b, "verdict"), f"is {batch.verdict!r}, but an objective's is {worst!r}"


def _objective_fault(objective: Objective) -> str:
    """Return the fault of an objective; empty if there is none.

    gap = |bound - value| / max(1, |value|); proven only when it is at most `PROVEN_GAP`.
    """
    if objective.verdict not in VERDICTS:
        return f"{objective.verdict!r} is none of {', '.join(VERDICTS)}"
    if not math.isfinite(objective.value):
        return f"value {objective.value} is not a number"
    gap = abs(objective.bound - objective.value) / max(1.0, abs(objective.value))
    if gap != objective.gap and not abs(gap - objective.gap) <= GAP_TOLERANCE * max(1.0, gap):
        return f"gap is {objective.gap!r} instead of {gap!r}"
    if objective.verdict == "proven" and not gap <= PROVEN_GAP:
        return f"a gap of {gap!r} is not proven"
    return ""


NODE_GROUPS = "node groups"
SEPARATIONS = "separations"
MOVES = "moves"
MINIMISED = frozenset(
    {"loss", "whole gangs", "victims", MOVES, "subgroups", "spread", SEPARATIONS, "supernodes", "nodes", NODE_GROUPS}
)
GANGS_OBJECTIVE = re.compile(
    r"gangs\[(?P<priority>-?\d+)(?P<late>, overdue|, promised)?(?:, queues (?P<rank>-?\d+))?\]"
)
"""Name of an objective that counts the gangs of one priority, overdue or not, and of queues of one priority where that
matters."""
ROUNDING = 1e-6


def objective_values(x: CheckedPlan) -> Findings:
    """A bound is on the right side of its value: above it for a maximised goal, below it for a minimised one.

    `gangs[p]` is the number of the batch's gangs of that priority that start; `loss` counts all evicted pods, each with
    the seconds that its gang has run, at least 1; `victims` the gangs that lose any, `whole gangs` those of them of
    which nothing stays; `node groups` the new pods of the batch's gangs that start, each with the rank that its queue
    gives the group of its node, where none of them is elastic: others grow afterwards. `moves` is no less than the
    gangs that start with a pod where the plan in force has none of them, again without elastic ones. `separations` is
    no less than what the batch's gangs that start cost next to one another and next to running pods, without elastic
    ones, and no more than their cost in the whole plan.
    """
    gone = [(g, decision.evicted_pods) for g, decision in sorted(x.decisions.items()) if decision.evicted_pods]
    evicted = {
        "loss": sum(max(1, x.problem.gangs[g].eviction.loss) * place.pods for g, pods in gone for place in pods),
        "whole gangs": sum(not x.remaining_pods[g] for g, _ in gone),
        "victims": len(gone),
    }
    for b, batch in enumerate(x.plan.batches):
        for o, objective in enumerate(batch.objectives):
            where, name = ("batches", b, "objectives", o), objective.name
            value, bound = objective.value, objective.bound
            better = value - bound if name in MINIMISED else bound - value
            if not better >= -ROUNDING * max(1.0, abs(value)):
                yield where, f"the bound {bound} is on the wrong side of the value {value}"
            level = GANGS_OBJECTIVE.fullmatch(name)
            counted = evicted.get(name) if level is None else _count_started(x, batch, level)
            if counted is not None and not abs(value - counted) <= ROUNDING:
                yield where, f"{name} is said to be {value}, and counted to be {counted}"
            if name == NODE_GROUPS and not _is_group_cost(x, batch, value):
                yield where, f"{name} is said to be {value}, and is not what the batch's pods cost"
            if name == SEPARATIONS and not _least_company(x, batch) <= value <= _most_company(x, batch):
                yield where, f"{name} is said to be {value}, and is not what the batch's pods cost next to others"
            if name == MOVES and value < (moved := _count_moved(x, batch)):
                yield where, f"{name} is said to be {value}, and {moved} gangs move"


def _is_group_cost(x: CheckedPlan, batch: Batch, value: float) -> bool:
    """Return whether this is what the batch's new pods cost in node groups, or no more than that where gangs are
    elastic."""
    counted, is_exact = 0, True
    for g in batch.gangs:
        if g not in x.decisions or x.decisions[g].action != "start":
            continue
        gang = x.problem.gangs[g]
        ranks = x.problem.queues[gang.queue].node_group_ranks
        pods = x.new_pods[g].items() if ranks else ()
        counted += sum(ranks[x.problem.nodes[node].node_group] * number for (_, node), number in pods)
        is_exact = is_exact and not _is_elastic(gang)
    return abs(value - counted) <= ROUNDING if is_exact else value <= counted + ROUNDING


def _least_company(x: CheckedPlan, batch: Batch) -> int:
    """Return the least cost of separation wishes: of the gangs that start in the batch with as many pods as they need,
    next to one another and next to running pods."""
    started = {g for g, decision in x.decisions.items() if decision.action == "start"}
    sure = {g: _new_nodes(x, g) for g in started.intersection(batch.gangs) if not _is_elastic(x.problem.gangs[g])}
    return _company(x, sure, sure)


def _most_company(x: CheckedPlan, batch: Batch) -> int:
    """Return the same of all that the batch starts, next to all that runs or gets pods."""
    everyone = {g: _new_nodes(x, g) for g in x.decisions}
    return _company(x, {g: nodes for g, nodes in everyone.items() if g in batch.gangs}, everyone)


def _new_nodes(x: CheckedPlan, g: int) -> set[int]:
    return {node for (_, node), pods in x.new_pods[g].items() if pods}


def _company(x: CheckedPlan, placed: Mapping[int, set[int]], others: Mapping[int, set[int]]) -> int:
    """Return the cost of the wishes of gangs that get pods on these nodes."""
    cost, gangs = 0, x.problem.gangs
    for g, nodes in placed.items():
        for wish in gangs[g].separation_wishes:
            there = {p.node for k in wish.gangs for p in gangs[k].running}.union(
                *(others.get(k, ()) for k in wish.gangs)
            )
            taken = {_above(x.problem, node, wish.tier) for node in there} | wish.present
            shared = {_above(x.problem, node, wish.tier) for node in nodes} & taken
            cost += wish.weight * len(shared - {None})
    return cost


def _above(problem: Problem, node: int, tier: int) -> int | None:
    """Return the hypernode of exactly this tier above the node."""
    h = problem.nodes[node].leaf
    while h is not None and problem.hypernodes[h].tier != tier:
        h = problem.hypernodes[h].parent
    return h


def _is_elastic(gang: Gang) -> bool:
    return max(gang.minimum, sum(role.minimum for role in gang.roles)) < sum(role.replicas for role in gang.roles)


def _count_moved(x: CheckedPlan, batch: Batch) -> int:
    """Return how many gangs of the batch start with a pod outside their former places; not elastic ones, which may grow
    there."""
    moved = 0
    for g in batch.gangs:
        if g not in x.decisions or x.decisions[g].action != "start" or not x.problem.gangs[g].former:
            continue
        gang, left = x.problem.gangs[g], Counter[tuple[int, int]]()
        for place in gang.former:
            left[place.role, place.node] += place.pods
        for place in gang.running:
            left[place.role, place.node] -= place.pods
        moved += not _is_elastic(gang) and any(pods > left[spot] for spot, pods in x.new_pods[g].items())
    return moved


def _count_started(x: CheckedPlan, batch: Batch, level: re.Match[str]) -> int:
    """Return how many gangs of the batch and of this level start."""
    wanted, rank = (int(level["priority"]), level["late"]), level["rank"]
    decided = [g for g in batch.gangs if g in x.decisions]
    started = [x.problem.gangs[g] for g in decided if x.decisions[g].action == "start"]
    if rank is not None:
        started = [gang for gang in started if x.problem.queues[gang.queue].priority == int(rank)]
    late = {(False, False): None, (True, False): ", overdue"}
    times = [(gang.priority, gang.times) for gang in started]
    return sum((priority, late.get((of.overdue, of.promised), ", promised")) == wanted for priority, of in times)
