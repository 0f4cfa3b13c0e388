"""The verifier's rule about reasons to wait: they refer to existing objects, their numbers make sense, and no obviously
fitting gang is reported as never fitting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

import solver.repairs as repairs
from solver.facts import Fact, Shortage, SubgroupShortage
from solver.problem import Gang, Problem, Queue, Vector
from solver.repairs import Repair
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, add_vector, at, fitting_pods, has_plain_minima, needs

_BAD_INDEX = "points at a role, subgroup, queue, resource, hypernode, node or gang that does not exist"


def reasons(x: CheckedPlan) -> Findings:
    """A waiting gang has at least one fact, any other neither facts nor repairs; their indices exist; no fact has as
    much available as requested, and no repair changes nothing. No gang is reported as never fitting that obviously fits
    the empty cluster, or for which the plan holds room.

    That the facts are the smallest set that suffices, and that each repair suffices, is checked by property tests: it
    takes as long as finding them.
    """
    for g, decision in sorted(x.decisions.items()):
        where = at(g, "facts")
        if decision.action == "wait" and not decision.facts:
            yield where, "waits without a reason"
        if decision.action != "wait" and (decision.facts or decision.repairs):
            yield where, "is admitted, yet has reasons to wait or repairs"
        for f, fact in enumerate(decision.facts):
            if not _has_valid_indices(x.problem, g, fact):
                yield (*where, f), _BAD_INDEX
            if isinstance(fact, Shortage | SubgroupShortage) and _is_enough(fact.available, fact.asked):
                yield (*where, f), f"{fact.available} are said to be too few for {fact.asked}"
        for r, repair in enumerate(decision.repairs):
            yield from (((*at(g, "repairs"), r), problem) for problem in _repair_problems(x, g, repair))
        never = [f for f, fact in enumerate(decision.facts) if fact.never]
        if never and x.plan.reservation is not None and x.plan.reservation.gang == g:
            yield (*where, never[0]), "says never, but the plan holds room in which it is to start"
        elif never and _fits_empty_cluster(x, g):
            yield (*where, never[0]), "says never, but the gang fits the empty cluster"


def _repair_problems(x: CheckedPlan, g: int, repair: Repair) -> Iterator[str]:
    for change in (repair, *repair.also):
        if not _has_valid_indices(x.problem, g, change):
            yield _BAD_INDEX
        elif not _is_effective(x, g, change):
            yield f"{change.code} as it is said changes nothing"


def _is_enough(available: int | None, asked: int) -> bool:
    return available is not None and available >= asked


def _has_valid_indices(problem: Problem, g: int, statement: Fact | Repair) -> bool:
    """Return whether each index field, by its name, holds indices of existing items."""
    gang = problem.gangs[g]
    sizes = {
        "role": len(gang.roles),
        "subgroup": len(gang.subgroups),
        "queue": len(problem.queues),
        "resource": len(problem.resources),
        "hypernode": len(problem.hypernodes),
        "pod_rule": len(problem.pod_rules),
        "gang": len(problem.gangs),
        "node": len(problem.nodes),
        "node_group": len(problem.node_groups),
    }
    for field in fields(statement):
        size, value = sizes.get(field.name.removesuffix("s")), getattr(statement, field.name)
        indices = value if isinstance(value, tuple) else (value,)
        if size is not None and any(i is not None and not 0 <= i < size for i in indices):
            return False
    return True


def _is_effective(x: CheckedPlan, g: int, repair: Repair) -> bool:
    """Return whether the repair, where its meaning is plain, changes something: more capability, fewer pods, a higher
    tier, the end of gangs that hold something. Where a gang is changed twice, each change is compared with the
    declaration."""
    gang, nodes = x.problem.gangs[g], x.problem.nodes
    match repair:
        case repairs.MoreCapability() | repairs.MoreNodes() | repairs.FewerDedicatedDomains():
            return repair.amount > 0
        case repairs.HigherTier() | repairs.SoftTopology():
            topology = gang.topology if repair.subgroup is None else gang.subgroups[repair.subgroup].topology
            if topology is None:
                return False
            return repair.tier > topology.tier if isinstance(repair, repairs.HigherTier) else topology.mode == "hard"
        case repairs.SoftSeparation():
            owned = (rho for role in gang.roles for rho in role.owned_rules)
            return any(x.problem.pod_rules[rho].rule_kind == "separation" for rho in owned)
        case repairs.FewerPods() | repairs.SmallerSubgroups() | repairs.SmallerPods():
            return 0 < repair.amount < repair.current_amount
        case repairs.MoreNodeClasses():
            node = nodes[repair.node]
            other = node.returning is None and node.node_class not in gang.roles[repair.role].node_classes
            return other and not x.is_closed(g, repair.node)
        case repairs.HigherPriority():
            return repair.amount > gang.priority
        case repairs.EndOfGangs():
            ended = repair.gangs
            return bool(ended) and g not in ended and all(x.placed_pods[other] for other in ended)
        case repairs.Restart():
            return bool(x.running_pods[g])
        case repairs.ReturnOfNodes():
            return bool(repair.nodes) and all(nodes[n].returning is not None for n in repair.nodes)
    return _is_effective_on_queue(x.problem.queues, repair)


def _is_effective_on_queue(queues: Sequence[Queue], repair: Repair) -> bool:
    match repair:
        case repairs.SmallerGuarantee():
            return 0 < repair.amount <= (queues[repair.queue].guarantee[repair.resource] or 0)
        case repairs.MoreDeserved():
            return repair.amount > (queues[repair.queue].deserved[repair.resource] or 0)
        case repairs.MoreWeight():
            return repair.amount > queues[repair.queue].weight
        case repairs.OpenQueue():
            return not queues[repair.queue].open
        case repairs.HigherGroupLimit():
            return repair.amount > repair.current_amount
        case repairs.OpenNodeGroups():
            return bool(repair.node_groups) and {*repair.node_groups} <= {*queues[repair.queue].closed_node_groups}
    return True


def _fits_empty_cluster(x: CheckedPlan, g: int) -> bool:
    """Return a sufficient test only, of gangs with plain minima: they fit inside one domain with no node shared by two
    roles, within all queues' limits."""
    gang = x.problem.gangs[g]
    if not has_plain_minima(gang):
        return False
    demand = [0] * len(x.problem.resources)
    for role in gang.roles:
        add_vector(demand, role.request, role.minimum)
    if not _fits_queue_limits(x, gang.queue, tuple(demand)):
        return False
    domains = x.domain_node_sets(gang.topology)
    return any(_fits_nodes(x, gang, [n for n in nodes if not x.is_closed(g, n)]) for nodes in domains)


def _fits_nodes(x: CheckedPlan, gang: Gang, nodes: Iterable[int]) -> bool:
    left = iter(nodes)
    for role in gang.roles:
        missing = role.minimum
        while missing > 0:
            n = next(left, None)
            if n is None:
                return False
            node = x.problem.nodes[n]
            if node.node_class in role.node_classes:
                missing -= fitting_pods(node.capacity, role.request, missing)
    return True


def _fits_queue_limits(x: CheckedPlan, queue: int, demand: Vector) -> bool:
    """Return whether `demand` in one queue keeps every capability and guarantee when no queue holds anything else."""
    queues, nothing = x.problem.queues, (0,) * len(demand)
    before = needs(x.problem, [nothing] * len(queues))
    after = needs(x.problem, [demand if q == queue else nothing for q in range(len(queues))])
    roots = [q for q, spec in enumerate(queues) if spec.parent is None]
    for r in range(len(demand)):
        if sum(after[q][r] for q in roots) > max(x.totals[r], sum(before[q][r] for q in roots)):
            return False
        limits = [(spec.capability[r], before[q][r], after[q][r]) for q, spec in enumerate(queues)]
        if any(limit is not None and need > max(limit, idle) for limit, idle, need in limits):
            return False
    path = x.queue_path(queue)
    for q, r, most, tree in quotas.real_capability(x.problem):
        if demand[r] > most and (q == queue or (tree and q in path)):
            return False
    allowed = [queues[q].capability for q in path]
    return all(most is None or need <= most for limits in allowed for most, need in zip(limits, demand, strict=True))
