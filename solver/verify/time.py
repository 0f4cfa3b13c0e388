"""The verifier's rules about order and time; no code is shared with `solver.semantics` or the reservation.

The words of `solver.verify` hold. Gangs are of one *level* whose priority, being overdue and, with capacity or
proportion, whose queue's priority are the same. A gang *ends by* a time when its end (`ends_in` where it runs, else
`duration`) is known and not later.
"""

from __future__ import annotations

from collections import Counter

from solver.plan import Reservation
from solver.problem import Gang, Problem
from solver.verify import quotas
from solver.verify.checked_plan import CheckedPlan, Findings, PlanPath, vector_sum
from solver.verify.eviction_votes import may_borrow_domains
from solver.verify.queues import guarantee_shortfalls


def strict_order(x: CheckedPlan) -> Findings:
    """In a queue with strict order no gang starts while one waits that has a higher priority, or the same and alone is
    overdue, or is equal in both and older (of two of one age the first in the problem)."""
    for q, queue in enumerate(x.problem.queues):
        if not queue.strict_order:
            continue
        waits = [g for g, d in x.decisions.items() if d.action == "wait" and x.problem.gangs[g].queue == q]
        first = min((_serving_order_key(x.problem, g) for g in waits), default=None)
        for g, decision in sorted(x.decisions.items()) if first is not None else ():
            if decision.action != "start" or x.problem.gangs[g].queue != q:
                continue
            if first is not None and _serving_order_key(x.problem, g) > first:
                message = f"starts before gang {first[-1]}, which waits in the same strict queue"
                yield ("decisions", g, "action"), message


def _serving_order_key(problem: Problem, g: int) -> tuple[int, bool, int, int]:
    gang = problem.gangs[g]
    return -gang.priority, not gang.overdue, gang.age, g


def dedicated_domains(x: CheckedPlan) -> Findings:
    """No new or reserved pod below a hypernode that is dedicated to a queue, unless the gang's queue is that queue or
    below it, or the gang borrows: it starts, and the owner of the domain can evict it (`may_borrow_domains`)."""
    placed: list[tuple[PlanPath, int, set[int]]] = []
    for g, new in enumerate(x.new_pods):
        if new and not _is_borrower(x, g):
            placed.append((("decisions", g, "placements"), g, {node for _, node in new}))
    held = x.plan.reservation
    if held is not None and 0 <= held.gang < len(x.problem.gangs):
        nodes = {place.node for place in held.placements if 0 <= place.node < len(x.problem.nodes)}
        placed.append((("reservation", "placements"), held.gang, nodes))
    for q, queue in enumerate(x.problem.queues):
        for where, g, nodes in placed if queue.dedicated_domains else ():
            if q not in x.queue_path(x.problem.gangs[g].queue):
                for node in sorted(nodes):
                    if not x.hypernodes_above(node).isdisjoint(queue.dedicated_domains):
                        yield where, f"on node {node}, in a domain that is dedicated to queue {q}"


def excluded_nodes(x: CheckedPlan, g: int) -> set[int]:
    """Nodes that need not be open to gang g: in maintenance before it ends, in a domain dedicated to a queue that is
    not above it (even where it may borrow), or reserved for another gang."""
    gang, held = x.problem.gangs[g], x.plan.reservation
    path = x.queue_path(gang.queue)
    others = {h for q, queue in enumerate(x.problem.queues) if q not in path for h in queue.dedicated_domains}
    found = {place.node for place in held.placements} if held is not None and held.gang != g else set()
    for n, node in enumerate(x.problem.nodes):
        in_maintenance = node.maintenance_in is not None and not _ends_by(gang, node.maintenance_in)
        if in_maintenance or (others and not others.isdisjoint(x.hypernodes_above(n))):
            found.add(n)
    return found


def _is_borrower(x: CheckedPlan, g: int) -> bool:
    return g in x.decisions and x.decisions[g].action == "start" and may_borrow_domains(x, g)


def maintenance(x: CheckedPlan) -> Findings:
    """No new pod on a node with maintenance before the gang's expected end, and none reserved there unless the reserved
    gang would end by then."""
    for g, new in enumerate(x.new_pods):
        for _, node in sorted(new):
            closes = x.problem.nodes[node].maintenance_in
            if closes is not None and not _ends_by(x.problem.gangs[g], closes):
                yield ("decisions", g, "placements"), f"gets new pods on node {node}, which closes in {closes} seconds"
    held = x.plan.reservation
    for place in held.placements if held is not None and 0 <= held.gang < len(x.problem.gangs) else ():
        closes = x.problem.nodes[place.node].maintenance_in if 0 <= place.node < len(x.problem.nodes) else None
        if held is not None and closes is not None:
            lasts = x.problem.gangs[held.gang].duration
            if held.starts_in is None or lasts is None or held.starts_in + lasts > closes:
                yield ("reservation", "placements"), f"on node {place.node}, which closes in {closes} seconds"


def reservation(x: CheckedPlan) -> Findings:
    """The reserved gang waits, and it alone has the reservation's start. Its placements are new pods that, with its
    running ones, are a valid gang. `awaited_gangs` are other gangs that hold pods in the plan; `starts_in` is the
    latest of their ends, None when one is unknown.

    When these are gone, and with them all that end by the start, the placements fit: on every node, and in the queues
    as new pods would now. They respect dedicated domains. New pods on a reserved node are of a gang of a higher level
    that starts, or of one that ends by the start. Not checked are pod rules and device slots at that time, which are
    unknown.
    """
    held = x.plan.reservation
    for g, decision in sorted(x.decisions.items()):
        expected = held.starts_in if held is not None and held.gang == g else None
        if decision.starts_in != expected:
            yield ("decisions", g, "starts_in"), f"is {decision.starts_in}, but the reservation says {expected}"
    if held is None:
        return
    where = ("reservation",)
    if held.gang not in x.decisions or x.decisions[held.gang].action != "wait":
        yield (*where, "gang"), f"gang {held.gang} does not wait"
        return
    if any(not x.is_valid_placement(held.gang, place) for place in held.placements):
        yield (*where, "placements"), "no such role or node, or no pods"
        return
    keys = [(place.role, place.node) for place in held.placements]
    if keys != sorted(set(keys)):
        yield (*where, "placements"), "not sorted by (role, node), or a pair occurs twice"
    yield from _gang_findings(x, held)
    yield from _until_findings(x, held)
    yield from _capacity_at_start(x, held)
    yield from _backfill_findings(x, held)


def _expected_end(gang: Gang) -> int | None:
    return gang.ends_in if gang.running else gang.duration


def _ends_by(gang: Gang, time: int | None) -> bool:
    end = _expected_end(gang)
    return end is not None and time is not None and end <= time


def _gang_findings(x: CheckedPlan, held: Reservation) -> Findings:
    gang, pods = x.problem.gangs[held.gang], dict(x.running_pods[held.gang])
    for place in held.placements:
        pods[place.role, place.node] = pods.get((place.role, place.node), 0) + place.pods
        if x.problem.nodes[place.node].node_class not in gang.roles[place.role].node_classes:
            yield ("reservation", "placements"), f"role {place.role} may not use node {place.node}"
    if not x.meets_minima(held.gang, pods):
        yield ("reservation", "placements"), "do not make the gang whole"
    run, whole = x.pods_per_role(held.gang, x.running_pods[held.gang]), x.pods_per_role(held.gang, pods)
    if any(have > max(role.replicas, ran) for have, role, ran in zip(whole, gang.roles, run, strict=True)):
        yield ("reservation", "placements"), "more pods than replicas"
    if gang.topology is not None and x.is_binding(gang.topology):
        homes = {x.domain(node, gang.topology.tier) for _, node in pods}
        if len(homes) != 1 or None in homes:
            yield ("reservation", "placements"), f"not inside one domain of tier {gang.topology.tier} or lower"
    for k, part in enumerate(gang.subgroups):
        inside: Counter[int | None] = Counter()
        for (role, node), number in pods.items():
            if role in part.roles:
                inside[x.domain(node, part.topology.tier) if x.is_binding(part.topology) else 0] += number
        if inside[None] or any(number % part.size for number in inside.values()):
            yield ("reservation", "placements"), f"subgroup {k} has a part that is not whole inside its domain"


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


def _capacity_at_start(x: CheckedPlan, held: Reservation) -> Findings:
    gone = {
        g for g, gang in enumerate(x.problem.gangs) if g in held.awaited_gangs or _ends_by(gang, held.starts_in)
    } - {held.gang}
    yield from _nodes_at_start(x, held, gone)
    yield from _queues_at_start(x, held, gone)


def _nodes_at_start(x: CheckedPlan, held: Reservation, ended_gangs: set[int]) -> Findings:
    roles = x.problem.gangs[held.gang].roles
    for n in sorted({place.node for place in held.placements}):
        for r, name in enumerate(x.problem.resources):
            asked = sum(place.pods * roles[place.role].request[r] for place in held.placements if place.node == n)
            stays = sum(
                pods * x.problem.gangs[g].roles[role].request[r]
                for g, counts in enumerate(x.placed_pods)
                for (role, node), pods in counts.items()
                if node == n and g not in ended_gangs
            )
            if asked and stays + asked > x.problem.nodes[n].free[r]:
                yield ("nodes", n, "free", r), f"{stays} {name} are still held when {asked} are reserved"


def _queues_at_start(x: CheckedPlan, held: Reservation, ended_gangs: set[int]) -> Findings:
    """Capabilities, what guarantees leave of them, proportional shares as they are today, and guarantees, as for gangs
    that start now."""
    stays = x.demand([{} if g in ended_gangs else counts for g, counts in enumerate(x.placed_pods)])
    before = [vector_sum(queue.used, amounts) for queue, amounts in zip(x.problem.queues, stays, strict=True)]
    asked = x.demand(
        [
            Counter({(p.role, p.node): p.pods for p in held.placements}) if g == held.gang else {}
            for g in range(len(x.problem.gangs))
        ]
    )
    home = x.problem.gangs[held.gang].queue
    path = x.queue_path(home)
    after = [vector_sum(amounts, more) for amounts, more in zip(before, asked, strict=True)]
    if home in quotas.non_admitting_queues(x.problem):
        yield ("reservation", "gang"), f"its queue {home} takes nothing new"
    inside = x.with_descendants(after)
    limits: list[tuple[int, int, int | None, int]] = [
        (q, r, limit, inside[q][r]) for q in path for r, limit in enumerate(x.problem.queues[q].capability)
    ]
    for q, r, most, tree in quotas.real_capability(x.problem):
        if q in path:
            limits.append((q, r, most, (inside if tree else after)[q][r]))
    for q, r, limit, amount in limits:
        if limit is not None and asked[home][r] and amount > limit:
            message = f"{limit} {x.problem.resources[r]} leave too little when the reservation falls due"
            yield ("queues", q, "capability", r), message
    for name, share in quotas.proportional_shares(x.problem).get(home, {}).items():
        r = x.problem.resources.index(name)
        if share < x.totals[r] and asked[home][r] and after[home][r] > share + quotas.RESOLUTION:
            message = f"{share:f} {name} deserved are too little when the reservation falls due"
            yield ("queues", home, "deserved", r), message
    for where, r, fault in guarantee_shortfalls(x, before, after):
        if asked[home][r]:
            yield where, f"{fault}, when the reservation falls due"


def _backfill_findings(x: CheckedPlan, held: Reservation) -> Findings:
    reserved = {place.node for place in held.placements}
    for g, new in enumerate(x.new_pods):
        gang = x.problem.gangs[g]
        started = g in x.decisions and x.decisions[g].action == "start"
        higher = _precedence_level(x.problem, g) > _precedence_level(x.problem, held.gang)
        if _ends_by(gang, held.starts_in) or (started and higher):
            continue
        if any(node in reserved for _, node in new):
            yield ("decisions", g, "placements"), f"gets new pods on a node that is reserved for gang {held.gang}"


def _precedence_level(problem: Problem, g: int) -> tuple[int, bool, int]:
    gang, policy = problem.gangs[g], problem.policy
    queue_priority = problem.queues[gang.queue].priority if policy.capacity or policy.proportion else 0
    return gang.priority, gang.overdue, queue_priority


TIME_RULES = (strict_order, dedicated_domains, maintenance, reservation)
