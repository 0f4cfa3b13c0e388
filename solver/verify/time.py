"""The verifier's rules about order and time; no code is shared with `solver.semantics` or the reservation.

The words of `solver.verify` hold. Gangs are of one *level* whose priority, being overdue and, with capacity or
proportion, whose queue's priority are the same. A gang *ends by* a time when its end (`ends_in` where it runs, else
`duration`) is known and not later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from solver.plan import Reservation
from solver.problem import Gang, Problem
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, PlanPath, PodCounts, add_vector, at, is_sorted, vector_sum
from solver.verify.eviction_votes import may_borrow_domains
from solver.verify.gangs import subgroup_faults, topology_fault
from solver.verify.queues import guarantee_shortfalls

RESERVED = "reservation", "placements"


def strict_order(x: CheckedPlan) -> Findings:
    """In a queue with strict order no gang starts while one waits that has a higher priority, or the same and alone is
    overdue, or is equal in both and older (of two of one age the first in the problem)."""
    for q in [q for q, queue in enumerate(x.problem.queues) if queue.strict_order]:
        mine = {g: d.action for g, d in sorted(x.decisions.items()) if x.problem.gangs[g].queue == q}
        waiting = [_serving_order_key(x.problem, g) for g, action in mine.items() if action == "wait"]
        for g, action in mine.items() if waiting else ():
            if action == "start" and _serving_order_key(x.problem, g) > min(waiting):
                yield at(g, "action"), f"starts before gang {min(waiting)[-1]}, which waits in the same strict queue"


def _serving_order_key(problem: Problem, g: int) -> tuple[int, bool, bool, int, int]:
    gang = problem.gangs[g]
    return -gang.priority, not gang.times.promised, not gang.times.overdue, gang.age, g


def dedicated_domains(x: CheckedPlan) -> Findings:
    """No new or reserved pod below a hypernode that is dedicated to a queue, unless the gang's queue is that queue or
    below it, or the gang borrows: it starts, and the owner of the domain can evict it (`may_borrow_domains`)."""
    placed: list[tuple[PlanPath, int, set[int]]] = []
    for g, new in enumerate(x.new_pods):
        if new and not (g in x.decisions and x.decisions[g].action == "start" and may_borrow_domains(x, g)):
            placed.append((at(g), g, {node for _, node in new}))
    held = x.plan.reservation
    if held is not None and 0 <= held.gang < len(x.problem.gangs):
        nodes = {place.node for place in held.placements if 0 <= place.node < len(x.problem.nodes)}
        placed.append((RESERVED, held.gang, nodes))
    for q, queue in enumerate(x.problem.queues):
        for where, g, nodes in placed if queue.dedicated_domains else ():
            for node in () if q in x.queue_path(x.problem.gangs[g].queue) else sorted(nodes):
                if not x.hypernodes_above(node).isdisjoint(queue.dedicated_domains):
                    yield where, f"on node {node}, in a domain that is dedicated to queue {q}"


def excluded_nodes(x: CheckedPlan, g: int) -> set[int]:
    """Return nodes that need not be open to gang g: in maintenance before it ends, in a domain dedicated to a queue
    that is not above it (even where it may borrow), in a node group closed to its queue, or reserved for another
    gang."""
    gang, held = x.problem.gangs[g], x.plan.reservation
    path = x.queue_path(gang.queue)
    outside = (queue for q, queue in enumerate(x.problem.queues) if q not in path)
    others = {h for queue in outside for h in queue.dedicated_domains}
    found = {place.node for place in held.placements} if held is not None and held.gang != g else set()
    for n, node in enumerate(x.problem.nodes):
        in_maintenance = node.maintenance_in is not None and not _ends_by(gang, node.maintenance_in)
        if in_maintenance or x.is_closed(g, n) or (others and not others.isdisjoint(x.hypernodes_above(n))):
            found.add(n)
    return found


def maintenance(x: CheckedPlan) -> Findings:
    """No new pod on a node with maintenance before the gang's expected end, and none reserved there unless the reserved
    gang would end by then."""
    for g, new in enumerate(x.new_pods):
        for _, node in sorted(new):
            closes = x.problem.nodes[node].maintenance_in
            if closes is not None and not _ends_by(x.problem.gangs[g], closes):
                yield at(g), f"gets new pods on node {node}, which closes in {closes} seconds"
    held = x.plan.reservation
    if held is None or not 0 <= held.gang < len(x.problem.gangs):
        return
    lasts = x.problem.gangs[held.gang].times.duration
    end = None if held.starts_in is None or lasts is None else held.starts_in + lasts
    for place in held.placements:
        closes = x.problem.nodes[place.node].maintenance_in if 0 <= place.node < len(x.problem.nodes) else None
        if closes is not None and (end is None or end > closes):
            yield RESERVED, f"on node {place.node}, which closes in {closes} seconds"


def reservation(x: CheckedPlan) -> Findings:
    """The reserved gang waits, and it alone has the reservation's start. Its placements are new pods that, with its
    running ones, are a valid gang. `awaited_gangs` are other gangs that hold pods in the plan; `starts_in` is the
    latest of their ends, None when one is unknown.

    Without these gangs and all that end by the start, the placements fit: on every node, and in the queues
    as new pods would now. They respect dedicated domains. New pods on a reserved node are of a gang of a higher level,
    which starts or grows, or of one that ends by the start. Not checked are pod rules and device slots at that time,
    which are unknown.
    """
    held = x.plan.reservation
    for g, decision in sorted(x.decisions.items()):
        expected = held.starts_in if held is not None and held.gang == g else None
        if decision.starts_in != expected:
            yield at(g, "starts_in"), f"is {decision.starts_in}, but the reservation says {expected}"
    if held is None:
        return
    if held.gang not in x.decisions or x.decisions[held.gang].action != "wait":
        yield ("reservation", "gang"), f"gang {held.gang} does not wait"
        return
    if any(not x.is_valid_placement(held.gang, place) for place in held.placements):
        yield RESERVED, "no such role or node, or no pods"
        return
    if not is_sorted(held.placements):
        yield RESERVED, "not sorted by (role, node), or a pair occurs twice"
    yield from _gang_findings(x, held)
    yield from _until_findings(x, held)
    ended = {g for g, gang in enumerate(x.problem.gangs) if _ends_by(gang, held.starts_in)}.union(held.awaited_gangs)
    stays = [{} if g in ended - {held.gang} else counts for g, counts in enumerate(x.placed_pods)]
    yield from _nodes_at_start(x, held, stays)
    yield from _queues_at_start(x, held, stays)
    yield from _backfill_findings(x, held)


def _expected_end(gang: Gang) -> int | None:
    return gang.times.ends_in if gang.running else gang.times.duration


def _ends_by(gang: Gang, time: int | None) -> bool:
    end = _expected_end(gang)
    return end is not None and time is not None and end <= time


def _gang_findings(x: CheckedPlan, held: Reservation) -> Findings:
    gang, pods = x.problem.gangs[held.gang], Counter(x.running_pods[held.gang])
    for place in held.placements:
        pods[place.role, place.node] += place.pods
        excluded = x.problem.nodes[place.node].node_class not in gang.roles[place.role].node_classes
        if excluded or x.is_closed(held.gang, place.node):
            yield RESERVED, f"role {place.role} may not use node {place.node}"
    if not x.meets_minima(held.gang, pods):
        yield RESERVED, "do not make the gang whole"
    run, whole = x.pods_per_role(held.gang, x.running_pods[held.gang]), x.pods_per_role(held.gang, pods)
    if any(have > max(role.replicas, ran) for have, role, ran in zip(whole, gang.roles, run, strict=True)):
        yield RESERVED, "more pods than replicas"
    if fault := topology_fault(x, gang, pods):
        yield RESERVED, fault
    for fault in subgroup_faults(x, gang, pods):
        yield RESERVED, fault


def _until_findings(x: CheckedPlan, held: Reservation) -> Findings:
    where = ("reservation", "awaited_gangs")
    if list(held.awaited_gangs) != sorted(set(held.awaited_gangs)) or not held.awaited_gangs:
        yield where, "nobody, not sorted, or one occurs twice"
    if any(g == held.gang or not 0 <= g < len(x.problem.gangs) or not x.placed_pods[g] for g in held.awaited_gangs):
        yield where, "a gang that holds nothing, or the reserved one itself"
        return
    ends = [_expected_end(x.problem.gangs[g]) for g in held.awaited_gangs]
    known = [end for end in ends if end is not None]
    latest = max(known, default=None) if len(known) == len(ends) else None
    if held.starts_in != latest:
        yield ("reservation", "starts_in"), f"is {held.starts_in}, but those that it waits for end in {latest}"


def _nodes_at_start(x: CheckedPlan, held: Reservation, stays: Sequence[PodCounts]) -> Findings:
    """stays: the pods of each gang that are still there at the start."""
    width = len(x.problem.resources)
    asked = {n: [0] * width for n in sorted({place.node for place in held.placements})}
    occupied = {n: [0] * width for n in asked}
    for place in held.placements:
        add_vector(asked[place.node], x.problem.gangs[held.gang].roles[place.role].request, place.pods)
    for gang, counts in zip(x.problem.gangs, stays, strict=True):
        for (role, node), pods in counts.items():
            if node in asked:
                add_vector(occupied[node], gang.roles[role].request, pods)
    for n in asked:
        for r, (need, taken) in enumerate(zip(asked[n], occupied[n], strict=True)):
            if need and taken + need > x.problem.nodes[n].free[r]:
                fault = f"{taken} {x.problem.resources[r]} are still held when {need} are reserved"
                yield ("nodes", n, "free", r), fault


def _queues_at_start(x: CheckedPlan, held: Reservation, stays: Sequence[PodCounts]) -> Findings:
    """Capabilities, what guarantees leave of them, proportional shares as they are today, and guarantees, as for gangs
    that start now."""
    queues, home = x.problem.queues, x.problem.gangs[held.gang].queue
    asked = x.gang_demand(held.gang, Counter({(p.role, p.node): p.pods for p in held.placements}))
    before = [vector_sum(queue.used, amounts) for queue, amounts in zip(queues, x.demand(stays), strict=True)]
    after = [vector_sum(amounts, asked, q == home) for q, amounts in enumerate(before)]
    if home in quotas.non_admitting_queues(x.problem):
        yield ("reservation", "gang"), f"its queue {home} takes nothing new"
    inside, path = x.with_descendants(after), x.queue_path(home)
    for field, q, r, most, tree in x.queue_limits:
        counts = asked[r] and (q in path if tree else q == home)
        if counts and (inside if tree else after)[q][r] > most:
            fault = f"{most:f} {x.problem.resources[r]} leave too little when the reservation falls due"
            yield ("queues", q, field, r), fault
    for where, r, fault in guarantee_shortfalls(x, before, after):
        if asked[r]:
            yield where, f"{fault}, when the reservation falls due"


def _backfill_findings(x: CheckedPlan, held: Reservation) -> Findings:
    reserved = {place.node for place in held.placements}
    for g, new in enumerate(x.new_pods):
        allowed = _ends_by(x.problem.gangs[g], held.starts_in) or g in held.gangs_before
        if not allowed and any(node in reserved for _, node in new):
            yield at(g), f"gets new pods on a node that is reserved for gang {held.gang}"
    for g in held.gangs_before:
        mine, theirs = _precedence_level(x.problem, held.gang), _precedence_level(x.problem, g)
        other_queue = x.problem.gangs[g].queue != x.problem.gangs[held.gang].queue
        allowed = other_queue or theirs >= mine if x.problem.policy.queues_first else theirs > mine
        if not allowed:
            yield ("reservation", "gangs_before"), f"gang {g} is not of a higher level than gang {held.gang}"


def _precedence_level(problem: Problem, g: int) -> tuple[int, bool, bool, int]:
    gang, policy = problem.gangs[g], problem.policy
    queue_priority = problem.queues[gang.queue].priority if policy.capacity or policy.proportion else 0
    return gang.priority, gang.times.promised, gang.times.overdue, queue_priority


TIME_RULES = (strict_order, dedicated_domains, maintenance, reservation)
