"""The verifier's rule about reasons to wait: they point at what exists, and never is not said of what plainly fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from solver.plan import Fact
from solver.problem import Gang, Problem, Vector
from solver.verify import quotas
from solver.verify.ledger import Findings, Ledger, add, needs


def reasons(x: Ledger) -> Findings:
    """A waiting gang has at least one fact, any other neither facts nor repairs; what they point at exists; no gang that fits the empty
    cluster in a way that is easily seen is said to fit never."""
    for g, decision in sorted(x.decisions.items()):
        if decision.action == "wait" and not decision.facts:
            yield ("decisions", g, "facts"), "waits without a reason"
        if decision.action != "wait" and (decision.facts or decision.repairs):
            yield ("decisions", g, "facts"), "is admitted, yet has reasons to wait or repairs"
        for f, fact in enumerate(decision.facts):
            if not _points_somewhere(x.problem, g, fact):
                yield ("decisions", g, "facts", f), "points at a role, subgroup, queue, resource, hypernode, node or gang that does not exist"
        for p, repair in enumerate(decision.repairs):
            if not (_within(repair.queue, x.problem.queues) and _within(repair.resource, x.problem.resources)):
                yield ("decisions", g, "repairs", p), "points at a queue or resource that does not exist"
        never = [f for f, fact in enumerate(decision.facts) if fact.never]
        if never and _fits_empty_cluster(x, g):
            yield ("decisions", g, "facts", never[0]), "says never, but the gang fits the empty cluster"


def _within(index: int | None, items: Sequence[object]) -> bool:
    return index is None or 0 <= index < len(items)


def _points_somewhere(problem: Problem, gang: int, fact: Fact) -> bool:
    return (
        _within(fact.role, problem.gangs[gang].roles)
        and _within(fact.queue, problem.queues)
        and _within(fact.resource, problem.resources)
        and _within(fact.hypernode, problem.hypernodes)
        and _within(fact.relation, problem.relations)
        and all(_within(other, problem.gangs) for other in fact.gangs)
        and all(_within(other, problem.queues) for other in fact.queues)
        and all(_within(other, problem.nodes) for other in fact.nodes)
        and _within(fact.subgroup, problem.gangs[gang].subgroups)
    )


def _fits_empty_cluster(x: Ledger, g: int) -> bool:
    """A sufficient test only: the minima fit inside one domain with no node shared by two roles, within all queues' limits.

    False for gangs whose minima are not simply the roles' (subgroups, or a minimum above the roles' sum), for those in relations and for pods
    with portions of cells.
    """
    gang = x.problem.gangs[g]
    if any(role.bears or role.matches or role.portions for role in gang.roles):
        return False
    if gang.subgroups or gang.minimum > sum(role.minimum for role in gang.roles):
        return False
    demand = [0] * len(x.problem.resources)
    for role in gang.roles:
        add(demand, role.request, role.minimum)
    return _within_limits(x, gang.queue, tuple(demand)) and any(_fits_nodes(x, gang, nodes) for nodes in x.choices(gang.topology))


def _fits_nodes(x: Ledger, gang: Gang, nodes: Iterable[int]) -> bool:
    left = iter(nodes)
    for role in gang.roles:
        missing = role.minimum
        while missing > 0:
            n = next(left, None)
            if n is None:
                return False
            node = x.problem.nodes[n]
            if node.kind in role.kinds:
                missing -= min((have // ask for have, ask in zip(node.capacity, role.request, strict=True) if ask), default=missing)
    return True


def _within_limits(x: Ledger, queue: int, demand: Vector) -> bool:
    """Whether `demand` in one queue keeps every capability and guarantee when no queue holds anything else."""
    problem, nothing = x.problem, (0,) * len(demand)
    before = needs(problem, [nothing] * len(problem.queues))
    after = needs(problem, [demand if q == queue else nothing for q in range(len(problem.queues))])
    roots = [q for q, spec in enumerate(problem.queues) if spec.parent is None]
    for r in range(len(demand)):
        if sum(after[q][r] for q in roots) > max(x.totals[r], sum(before[q][r] for q in roots)):
            return False
        limits = [(spec.capability[r], before[q][r], after[q][r]) for q, spec in enumerate(problem.queues)]
        if any(limit is not None and need > max(limit, idle) for limit, idle, need in limits):
            return False
    path, above = [], x.problem.queues[queue].parent
    while above is not None:
        path.append(above)
        above = problem.queues[above].parent
    if any(q == queue or (tree and q in path) for q, r, most, tree in quotas.real_capability(problem) if demand[r] > most):
        return False
    limits_of = [problem.queues[q].capability for q in (queue, *path)]
    return all(limit is None or amount <= limit for limits in limits_of for limit, amount in zip(limits, demand, strict=True))
