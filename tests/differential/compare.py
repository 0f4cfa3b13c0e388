"""What must hold of a world's outcome on the real Volcano and of gangplan's plan for it.

Each function answers with what does not hold, in words. Known differences: docs/reliability/volcano-differences.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

from solver.semantics.eviction_rights import may_preempt, may_reclaim
from tests.differential.bed import Bed, Outcome, Plan
from tests.differential.planned import Planned, compile_world, job_name
from tests.differential.score import Judge, fits
from tests.differential.world import Where, World


def check_world(bed: Bed, world: World) -> list[str]:
    """Let Volcano run it, and gangplan plan it."""
    return disagreements(world, bed.run(world), compile_world(world))


def check_plan(bed: Bed, world: World) -> list[str]:
    """Let Volcano bind what gangplan plans, through gates."""
    planned = compile_world(world)
    return unbound(world, planned, bed.run(world, Plan(planned.running, planned.evicted)))


def disagreements(world: World, outcome: Outcome, planned: Planned) -> list[str]:
    """All that should not be."""
    return [
        *borrowing_before_entitlement(world, planned.running),
        *borrowing_before_growth(world, planned),
        *illegal_evictions(outcome, planned),
        *worse_than(world, outcome, planned),
    ]


def running_at_first(world: World) -> dict[Where, int]:
    return {(job.name, task, node): pods for job in world.jobs for task, node, pods in job.running}


# ---- (1) no gang waits that fits its queue's entitlement, for the sake of a queue above its own


def borrowing_before_entitlement(world: World, running: Mapping[Where, int]) -> list[str]:
    """Gangs that wait although entitlements cover them, and that would fit without gangs that no entitlement covers."""
    at_first = running_at_first(world)
    judge = Judge(world, {where: pods for where, pods in running.items() if where in at_first})
    started = judge.started(running)
    found = []
    for name in sorted(judge.gangs.keys() - started):
        others = sorted(other for other in started if judge.may_yield(other, judge.gangs[name]))
        ways = [frozenset(gone) for n in range(len(others) + 1) for gone in combinations(others, n)]
        gone = next((gone for gone in ways if _may_start_instead(judge, running, name, started, gone)), None)
        if gone is None:
            taken = (frozenset({victim}) for victim in _reclaimable(judge, name, started))
            gone = next((gone for gone in taken if _may_start_instead(judge, running, name, started, gone)), None)
        if gone is not None:
            found.append(f"{name} waits within its queue's entitlement instead of {sorted(gone) or 'nobody'}")
    return found


def borrowing_before_growth(world: World, planned: Planned) -> list[str]:
    """Gangs that start although no entitlement covers them, instead of pods above the minimum that another queue's
    entitlement covers; not those that evict, or could do so instead. Not looked at where nothing reclaims and queues
    differ in priority: then room may be for what a queue of a higher one borrows."""
    at_first = running_at_first(world)
    judge = Judge(world, {where: pods for where, pods in planned.running.items() if where in at_first})
    started, problem = judge.started(planned.running), planned.problem
    if not judge.reclaims and len({queue.priority for queue in world.queues}) > 1:
        return []
    index = {job_name(problem, j): j for j in range(len(problem.gangs))}
    evicting = {j for decision in planned.plan.decisions for j in decision.evicted_for}
    found = []
    for name in sorted(started):
        others = (v for other, v in index.items() if other != name and world.job(other).running)
        if index[name] in evicting or any(may_preempt(problem, index[name], v) for v in others):
            continue
        if judge.best_claim(started) == judge.best_claim(started - {name}):
            grown = judge.entitled_growth_instead(planned.running, name)
            found += [f"{name} borrows instead of entitled growth of {grown}"] if grown else []
    return found


def _evicted(world: World, running: Mapping[Where, int]) -> Counter[Where]:
    """The pods that ran at first and are gone."""
    return Counter(running_at_first(world)) - Counter(running)


def _reclaimable(judge: Judge, name: str, started: frozenset[str]) -> list[str]:
    """The gangs that run, of queues above their own entitlement, from which this one may take everything."""
    world = judge.world
    if not judge.reclaims or world.protects_gangs:
        return []
    held = Counter(judge.held)
    for other in started:
        held[judge.gangs[other].queue] += judge.gangs[other].amount
    evictable = [job for job in world.jobs if job.running and job.evictable]
    lenders = {
        queue
        for queue in {job.queue for job in evictable} - {world.job(name).queue}
        if world.queue(queue).reclaimable and held[queue] > (judge.due.of[queue] or 0)
    }
    return [job.name for job in evictable if job.queue in lenders]


def _may_start_instead(
    judge: Judge, running: Mapping[Where, int], name: str, started: frozenset[str], gone: frozenset[str]
) -> bool:
    """Whether the gang could start without those that are gone, and its queue claim more of what it is entitled to."""
    left = Counter({where: pods for where, pods in running.items() if where[0] not in gone})
    if gone & started:
        left.update(_evicted(judge.world, running))  # they went for gangs of their own queue, which lend nothing
    kept = {where: pods for where, pods in judge.kept.items() if where[0] not in gone}
    queue = judge.gangs[name].queue
    return (
        Judge(judge.world, kept).is_allowed(started - gone | {name})
        and not (judge.due.uses_proportion and Judge(judge.world, kept).exceeds(queue, started - gone | {name}))
        and fits(judge.world, left, [name])
        and judge.claims_more(started - gone | {name}, started, queue)
    )


# ---- (2) all that Volcano evicts is legal


def illegal_evictions(outcome: Outcome, planned: Planned) -> list[str]:
    """Jobs that lost pods on Volcano and that no waiting gang may evict by gangplan's rights."""
    problem = planned.problem
    index = {job_name(problem, j): j for j in range(len(problem.gangs))}
    losers = sorted({index[name] for name, _, _ in outcome.evicted})
    return [
        f"Volcano evicted {job_name(problem, v)}, which nobody may evict"
        for v in losers
        if not any(may_preempt(problem, j, v) or may_reclaim(problem, j, v) for j in index.values() if j != v)
    ]


# ---- (4) Volcano's outcome is never worth more


def worse_than(world: World, outcome: Outcome, planned: Planned) -> list[str]:
    """Whether Volcano's outcome, measured by gangplan's own goals, is better than the plan. Outcomes that gangplan must
    not plan do not count, nor do evictions: who goes for whom is decided gang by gang, not in these goals. Nor does
    what is above a share of proportion: a job that `enqueue` keeps waiting asks for nothing, but behind gates it is let
    in, and asks. Nor does what is lent where the plan has more growth within entitlements, which comes first."""
    if outcome.evicted or planned.evicted or not outcome.at_rest:
        return []
    judge = Judge(world, running_at_first(world))
    theirs, ours = judge.started(outcome.running), judge.started(planned.running)
    if theirs == ours or not judge.is_allowed(theirs) or judge.overtaken(outcome.running):
        return []
    if judge.due.uses_proportion and not judge.is_covered(theirs):
        return []
    if judge.entitled_growth(planned.running) > judge.entitled_growth(outcome.running):
        return []
    if judge.score(theirs) <= judge.score(ours):
        return []
    return [f"Volcano's outcome is better: {sorted(theirs)} instead of {sorted(ours)} start"]


# ---- (3) a plan is bound as planned


def unbound(world: World, planned: Planned, outcome: Outcome) -> list[str]:
    """Pods that Volcano bound elsewhere or not at all."""
    missing = Counter(planned.running)
    missing.subtract(outcome.running)
    return [
        f"{pods} pods of {task} of {name} {'missing' if pods > 0 else 'too many'} on {node}"
        for (name, task, node), pods in sorted(missing.items())
        if pods
    ]
