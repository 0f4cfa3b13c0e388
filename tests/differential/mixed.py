"""What must hold of mixed worlds (`mixtures`), where several resources are short at once: what Volcano does is legal
here and worth no more, and what is planned leaves it nothing to start.

The goals are those of `tests.property.optimum`, which shares no code with the solver; what is legal the verifier says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from solver.plan import Decision
from solver.problem import Gang, Placement, Problem
from solver.semantics.eviction_rights import may_preempt, may_reclaim
from solver.verify.capacity import capacity
from solver.verify.checked_plan import CheckedPlan
from solver.verify.gangs import eligibility, node_groups, replicas, subgroups, topology
from solver.verify.queues import capability, guarantees, proportion, real_capability
from tests.builders.plans import solve_without_repairs
from tests.differential.bed import Bed, Outcome, Plan
from tests.differential.planned import Planned, compile_world, job_name
from tests.differential.world import Where, World
from tests.property.brute import meets_minima_now, running_pods
from tests.property.optimum import asking_gangs, objective_values

RULES = (eligibility, node_groups, replicas, topology, subgroups, capacity, capability, real_capability, proportion)
PLAIN = ("allocate", "backfill")


def check_mixed(bed: Bed, world: World) -> list[str]:
    """Let Volcano run it, and gangplan plan it."""
    planned = compile_world(world)
    outcome = bed.run(world)
    illegal = *illegal_evictions(world, outcome, planned), *illegal_starts(world, outcome, planned)
    return [*illegal, *worse(outcome, planned)]


def check_bound(bed: Bed, world: World) -> list[str]:
    """Let Volcano bind what gangplan plans, through gates, and then whatever else it can."""
    planned = compile_world(world)
    plan = Plan(planned.running, planned.evicted)
    outcome = bed.run(replace(world, actions=_plain(world)), plan, then_open=True)
    return _differences(world, planned.running, outcome)


def _plain(world: World) -> tuple[str, ...]:
    return tuple(action for action in world.actions if action in ("enqueue", *PLAIN))


def _differences(world: World, planned: Mapping[Where, int], outcome: Outcome) -> list[str]:
    """What is not bound, and what starts next to it. With a hierarchy Volcano takes what is guaranteed to others right
    below root."""
    assert outcome.before_open is not None
    missing, more = Counter(planned), Counter(outcome.running)
    missing.subtract(outcome.before_open)
    more.subtract(outcome.before_open)
    if world.hierarchical and any(queue.guarantee for queue in world.queues):
        more.clear()
    return [
        *(f"{pods} pods of {where} planned and not bound" for where, pods in sorted(missing.items()) if pods),
        *(f"{pods} pods of {where} start next to the plan" for where, pods in sorted(more.items()) if pods > 0),
    ]


# ---- what Volcano does is legal


def illegal_evictions(world: World, outcome: Outcome, planned: Planned) -> list[str]:
    """Pods that Volcano evicted and that no waiting gang may evict by gangplan's rights."""
    problem, found = planned.problem, list[str]()
    index = {job_name(problem, j): j for j in range(len(problem.gangs))}
    for name, task, node in sorted(outcome.evicted):
        v = index[name]
        others = [j for j in index.values() if j != v]
        is_legal = any(may_preempt(problem, j, v) or may_reclaim(problem, j, v) for j in others)
        if not is_legal and not (problem.gangs[v].eviction.evictable and _may_fall_through(world, problem, v, others)):
            found.append(f"Volcano evicted {name}, which nobody may evict")
        elif _protected(problem, v, task, node):
            found.append(f"Volcano evicted protected pods {task} of {name}")
    return found


def _may_fall_through(world: World, problem: Problem, v: int, others: Iterable[int]) -> bool:
    """Whether the plugins of the second tier may decide on v: they do where that of priorities, in the first one, names
    nobody (docs/reliability/volcano-differences.md)."""
    in_queue = any(problem.gangs[j].queue == problem.gangs[v].queue for j in others)
    return problem.preempt_enabled and not world.one_tier and in_queue


def _protected(problem: Problem, v: int, task: str, node: str) -> bool:
    gang = problem.gangs[v]
    return any(gang.roles[p.role].name == task and problem.nodes[p.node].name == node for p in gang.eviction.protected)


def illegal_starts(world: World, outcome: Outcome, planned: Planned) -> list[str]:
    """Rules of the verifier that Volcano's outcome breaks."""
    if outcome.evicted:
        return []
    checked = CheckedPlan(planned.problem, replace(planned.plan, decisions=_decisions(planned.problem, outcome)))
    rules = (*RULES, guarantees) if any(name in world.plugins for name in ("capacity", "proportion")) else RULES
    return [f"Volcano breaks {rule.__name__}: {where} {said}" for rule in rules for where, said in rule(checked)]


def _decisions(problem: Problem, outcome: Outcome) -> tuple[Decision, ...]:
    """Volcano's outcome as a plan; what it bound of gangs that are still below their minima is left out."""
    found = []
    for j, gang in enumerate(problem.gangs):
        pods, before = _placements(problem, j, outcome.running), meets_minima_now(gang)
        starts = not before and meets_minima_now(replace(gang, running=pods))
        action = "keep" if before else "start" if starts else "wait"
        found.append(Decision(j, action, pods if before or starts else gang.running, ()))  # type: ignore[arg-type]
    return tuple(found)


def _placements(problem: Problem, j: int, running: Mapping[Where, int]) -> tuple[Placement, ...]:
    gang = problem.gangs[j]
    roles = {role.name: t for t, role in enumerate(gang.roles)}
    nodes = {node.name: n for n, node in enumerate(problem.nodes)}
    mine = [(task, node, pods) for (name, task, node), pods in running.items() if name == job_name(problem, j)]
    return tuple(sorted((Placement(roles[t], nodes[n], k) for t, n, k in mine), key=lambda p: (p.role, p.node)))


# ---- Volcano's outcome is never worth more


def worse(outcome: Outcome, planned: Planned) -> list[str]:
    """Whether Volcano's outcome, measured by gangplan's own goals, is better than the plan: where nobody was evicted,
    nobody is overtaken, and each gang's minimum is the sum of its roles'."""
    problem = planned.problem
    if outcome.evicted or planned.evicted or not outcome.at_rest or any(map(_has_open_mix, problem.gangs)):
        return []
    theirs = frozenset(d.gang for d in _decisions(problem, outcome) if d.action == "start")
    ours = frozenset(d.gang for d in planned.plan.decisions if d.action == "start")
    if theirs == ours or objective_values(problem, theirs) <= objective_values(problem, ours):
        return []
    if (problem.policy.proportion and not _starts_alone(problem, theirs)) or _is_overtaken(problem, theirs):
        return []
    names = [[job_name(problem, j) for j in sorted(each)] for each in (theirs, ours)]
    return [f"Volcano's outcome is better: {names[0]} instead of {names[1]} start"]


def _has_open_mix(gang: Gang) -> bool:
    return gang.minimum != sum(role.minimum for role in gang.roles)


def _starts_alone(problem: Problem, gangs: frozenset[int]) -> bool:
    """Whether these gangs start where no other waits."""
    kept = [j for j, gang in enumerate(problem.gangs) if j in gangs or running_pods(gang)]
    alone = replace(problem, gangs=tuple(problem.gangs[j] for j in kept), preempt_enabled=False, reclaim_enabled=False)
    decisions = solve_without_repairs(alone).decisions
    return all(decisions[at].action == "start" for at, j in enumerate(kept) if j in gangs)


def _is_overtaken(problem: Problem, started: frozenset[int]) -> bool:
    for j in set(asking_gangs(problem)) - started:
        gang = problem.gangs[j]
        own = {other for other in started if problem.gangs[other].queue == gang.queue}
        lower = {other for other in own if problem.gangs[other].priority < gang.priority}
        if lower and _starts_alone(problem, started - lower | {j}):
            return True
    return False
