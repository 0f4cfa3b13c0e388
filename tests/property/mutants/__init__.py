"""Valid plans by a plain greedy, and ways to break them that are wrong by construction.

A mutant names the rule it breaks. Unless the bookkeeping itself is what it breaks, domains and queue sums are made anew from its
placements, so that only the rule in question can notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from solver.plan import CellUse, Fact, Objective, Plan, Reservation
from solver.problem import Cell, Gang, Placement, Policy, Portion, Problem, Queue, Relation, Role, Subgroup, Topology
from solver.verify import verify
from tests.property.brute import Room, Spot, emptied, feasible_sets, growths, is_kept, running
from tests.unit.solver.builders import plan, queue_uses

Placed = dict[int, Counter[Spot]]
"""The admitted gangs' pods."""

Mutant = tuple[Problem, Plan]


def greedy(world: Problem) -> Placed:
    """Every gang in turn, with the first of its possible placements that leaves all nodes and queues whole."""
    room = Room(world)
    use = list(room.nothing)
    added = [(0,) * len(world.resources)] * len(world.queues)
    placed: Placed = {}
    for g, gang in enumerate(world.gangs):
        for option in growths(world, g):
            mine = room.use(g, option)
            both = [_plus(a, b) for a, b in zip(use, mine, strict=True)]
            charged = list(added)
            for extra in mine:
                charged[gang.queue] = _plus(charged[gang.queue], extra[: len(world.resources)])
            if room.nodes_hold(both) and room.queues_hold(charged):
                use, added = both, charged
                placed[g] = running(gang) + option
                break
    return placed


def _plus(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def as_plan(world: Problem, placed: Placed) -> Plan:
    return plan(world, {g: [(role, node, pods) for (role, node), pods in spots.items() if pods] for g, spots in placed.items()})


def _new(world: Problem, placed: Placed) -> list[tuple[int, Spot]]:
    """(gang, spot) with new pods."""
    return [(g, spot) for g, spots in sorted(placed.items()) for spot in sorted(spots) if spots[spot] > running(world.gangs[g])[spot]]


def _with(placed: Placed, g: int, change: dict[Spot, int]) -> Placed:
    changed = {other: Counter(spots) for other, spots in placed.items()}
    for spot, pods in change.items():
        changed[g][spot] += pods
    return changed


def _some(random: Random, items: list[Any]) -> Iterator[Any]:
    """One of them, or none where there is none."""
    if items:
        yield random.choice(items)


def _edit(item: Any, index: int, **changes: object) -> Any:
    return (*item[:index], replace(item[index], **changes), *item[index + 1 :])


def pod_moved_to_a_full_node(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The other node's free amount of what the pod asks for is at most what is there already."""
    for g, (role, node) in _some(random, _new(world, placed)):
        for other in _some(random, [n for n in range(len(world.nodes)) if n != node]):
            request = world.gangs[g].roles[role].request
            for r in _some(random, [r for r, amount in enumerate(request) if amount]):
                moved = _with(placed, g, {(role, node): -1, (role, other): 1})
                held = _amount(world, moved, other, r)
                free = tuple(min(amount, max(0, held - 1)) if k == r else amount for k, amount in enumerate(world.nodes[other].free))
                full = replace(world, nodes=_edit(world.nodes, other, free=free))
                yield full, as_plan(full, moved)


def _amount(world: Problem, placed: Placed, node: int, r: int) -> int:
    everyone = {g: placed.get(g, running(gang)) for g, gang in enumerate(world.gangs)}
    return sum(pods * world.gangs[g].roles[t].request[r] for g, spots in everyone.items() for (t, n), pods in spots.items() if n == node)


def pod_dropped_below_the_minimum(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, spot in _some(random, [(g, spot) for g, spot in _new(world, placed) if not is_kept(world.gangs[g])]):
        role = spot[0]
        pods = sum(n for (t, _), n in placed[g].items() if t == role)
        gang = world.gangs[g]
        raised = replace(gang, roles=_edit(gang.roles, role, minimum=pods, replicas=max(pods, gang.roles[role].replicas)))
        stricter = replace(world, gangs=(*world.gangs[:g], raised, *world.gangs[g + 1 :]))
        yield stricter, as_plan(stricter, _with(placed, g, {spot: -1}))


def pod_added_above_the_replicas(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, spot in _some(random, [(g, spot) for g, spots in sorted(placed.items()) for spot in sorted(spots)]):
        role = spot[0]
        above = max(0, world.gangs[g].roles[role].replicas - sum(n for (t, _), n in placed[g].items() if t == role)) + 1
        yield world, as_plan(world, _with(placed, g, {spot: above}))


def pod_on_a_node_of_another_kind(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, (role, node) in _some(random, _new(world, placed)):
        gang = world.gangs[g]
        kinds = gang.roles[role].kinds - {world.nodes[node].kind}
        pickier = replace(world, gangs=_edit(world.gangs, g, roles=_edit(gang.roles, role, kinds=kinds)))
        yield pickier, as_plan(pickier, placed)


def hard_gang_split(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """A gang that is in two leaves of tier 1 is now asked to be in one."""
    leaves = {g: {world.nodes[node].leaf for _, node in spots if spots[_, node]} for g, spots in placed.items()}
    split = [g for g, _ in _new(world, placed) if len(leaves[g]) > 1 and all(n is not None and world.hypernodes[n].tier == 1 for n in leaves[g])]
    for g in _some(random, split):
        harder = replace(world, gangs=_edit(world.gangs, g, topology=Topology("hard", 1)))
        yield harder, as_plan(harder, placed)


def hard_gang_outside_the_topology(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, (_, node) in _some(random, _new(world, placed) if world.hypernodes else []):
        outside = replace(world, nodes=_edit(world.nodes, node, leaf=None), gangs=_edit(world.gangs, g, topology=Topology("hard", 1)))
        yield outside, as_plan(outside, placed)


def part_left_incomplete(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """One pod more in an existing part; the role has the replicas for it."""
    paired = [(g, spot) for g, spot in _new(world, placed) if spot[0] == 0 and world.gangs[g].subgroups]
    for g, spot in _some(random, paired):
        gang = world.gangs[g]
        roomier = replace(world, gangs=_edit(world.gangs, g, roles=_edit(gang.roles, 0, replicas=gang.roles[0].replicas + 2)))
        yield roomier, as_plan(roomier, _with(placed, g, {spot: 1}))


def part_split_over_domains(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """All pods of a role that is in two leaves of tier 1 are now asked to be one part, inside one of them."""
    split = []
    for g, (role, _) in _new(world, placed):
        leaves = {world.nodes[node].leaf for (t, node), pods in placed[g].items() if t == role and pods}
        if len(leaves) > 1 and all(leaf is not None and world.hypernodes[leaf].tier == 1 for leaf in leaves):
            split.append((g, role))
    for g, role in _some(random, split):
        pods = sum(n for (t, _), n in placed[g].items() if t == role)
        whole = Subgroup("whole", (role,), pods, 0, Topology("hard", 1))
        stricter = replace(world, gangs=_edit(world.gangs, g, subgroups=(whole,)))
        yield stricter, as_plan(stricter, placed)


def capability_lowered(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """To one less than the queue or one above it comes to hold."""
    made = as_plan(world, placed)
    grown = [(use.queue, r) for use in made.queues for r, amount in enumerate(use.admitted) if amount]
    for q, r in _some(random, grown):
        held = made.queues[q].allocated[r] + made.queues[q].admitted[r]
        limits = tuple(held - 1 if k == r else limit for k, limit in enumerate(world.queues[q].capability))
        tighter = replace(world, queues=_edit(world.queues, q, capability=limits))
        yield tighter, as_plan(tighter, placed)


def guarantee_of_another_taken(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """A new queue is guaranteed more than the others, none of which is guaranteed anything, leave."""
    made = as_plan(world, placed)
    grown = [r for r in range(len(world.resources)) if any(use.admitted[r] for use in made.queues)]
    for r in _some(random, [r for r in grown if not any(queue.guarantee[r] for queue in world.queues)]):
        total = sum(node.free[r] for node in world.nodes) + sum(queue.used[r] for queue in world.queues)
        roots = [use for use in made.queues if world.queues[use.queue].parent is None]
        left = total - sum(use.allocated[r] + use.admitted[r] for use in roots)
        unset, zero = (None,) * len(world.resources), (0,) * len(world.resources)
        guarantee = tuple(max(0, left) + 1 if k == r else None for k in range(len(world.resources)))
        richer = replace(world, queues=(*world.queues, Queue("rich", None, 1, 0, guarantee, unset, unset, zero)))
        yield richer, as_plan(richer, placed)


def queue_closed(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The queue of a gang with new pods, or one above it."""
    for g, _ in _some(random, _new(world, placed)):
        q, above = world.gangs[g].queue, world.queues[world.gangs[g].queue].parent
        shut = replace(world, queues=_edit(world.queues, q if above is None else random.choice((q, above)), open=False))
        yield shut, as_plan(shut, placed)


def guarantee_counted_twice(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Flat capacity knows no tree: what a queue and its parent are guaranteed counts twice, for everybody else."""
    made = as_plan(world, placed)
    grown = [(g, r) for g, (role, _) in _new(world, placed) for r, amount in enumerate(world.gangs[g].roles[role].request) if amount]
    for g, r in _some(random, [(g, r) for g, r in grown if not any(queue.guarantee[r] for queue in world.queues)]):
        total = sum(node.free[r] for node in world.nodes) + sum(queue.used[r] for queue in world.queues)
        left = total - sum(use.allocated[r] + use.admitted[r] for use in made.queues if world.queues[use.queue].parent is None)
        whole = sum(node.capacity[r] for node in world.nodes)
        mine = sum(use.allocated[r] + use.admitted[r] for use in made.queues if use.queue == world.gangs[g].queue)
        if left <= 0 or whole - 2 * left >= mine:
            continue
        unset, zero = (None,) * len(world.resources), (0,) * len(world.resources)
        guarantee = tuple(left if k == r else None for k in range(len(world.resources)))
        pair = (
            Queue("rich", None, 1, 0, guarantee, unset, unset, zero),
            Queue("heir", len(world.queues), 1, 0, guarantee, unset, unset, zero),
        )
        flat = replace(world, queues=(*world.queues, *pair), policy=Policy(capacity=True))
        yield flat, as_plan(flat, placed)


def share_by_weight_exceeded(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """A rival appears that is so heavy, and asks for so much, that next to nothing is left for everybody else."""
    grown = [(g, r) for g, (role, _) in _new(world, placed) for r, amount in enumerate(world.gangs[g].roles[role].request) if amount]
    for _, r in _some(random, [(g, r) for g, r in grown if not any(queue.guarantee[r] for queue in world.queues)]):
        unset, zero = (None,) * len(world.resources), (0,) * len(world.resources)
        whole = sum(node.capacity[r] for node in world.nodes)
        request = tuple(int(k == r) for k in range(len(world.resources)))
        rival = Gang("rival", len(world.queues), 0, 99, 2 * whole + 1, (Role("r", 2 * whole + 1, 2 * whole + 1, request, frozenset({0})),))
        heavy = Queue("heavy", None, 1000, 0, unset, unset, unset, zero)
        crowded = replace(world, queues=(*world.queues, heavy), gangs=(*world.gangs, rival), policy=Policy(proportion=True))
        yield crowded, as_plan(crowded, placed)


def running_pod_removed(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, place in _some(random, [(kept, place) for kept in sorted(placed) for place in world.gangs[kept].running]):
        fewer = Counter(placed[g])
        fewer[place.role, place.node] = place.pods - 1
        yield world, as_plan(world, placed | {g: fewer})


def waiting_with_new_pods(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    for g, _ in _some(random, _new(world, placed)):
        yield world, replace(made, decisions=_edit(made.decisions, g, action="wait", facts=(Fact("GW000"),)))


def kept_and_started_confused(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    for g in _some(random, sorted(placed)):
        action = "start" if made.decisions[g].action == "keep" else "keep"
        yield world, replace(made, decisions=_edit(made.decisions, g, action=action))


def placements_unsorted(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    for g in _some(random, [g for g in sorted(placed) if len(made.decisions[g].placements) > 1]):
        yield world, replace(made, decisions=_edit(made.decisions, g, placements=made.decisions[g].placements[::-1]))


def placement_not_merged(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    spots = [(g, k) for g in sorted(placed) for k, place in enumerate(made.decisions[g].placements) if place.pods > 1]
    for g, k in _some(random, spots):
        places = made.decisions[g].placements
        halves = (replace(places[k], pods=1), replace(places[k], pods=places[k].pods - 1))
        yield world, replace(made, decisions=_edit(made.decisions, g, placements=(*places[:k], *halves, *places[k + 1 :])))


def placement_of_no_pods(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    for g in _some(random, [g for g in range(len(world.gangs)) if world.gangs[g].roles]):
        places = made.decisions[g].placements
        nowhere = Placement(len(world.gangs[g].roles) - 1, random.choice((-1, len(world.nodes))), 1)
        empty = Placement(len(world.gangs[g].roles), 0, 0)
        yield world, replace(made, decisions=_edit(made.decisions, g, placements=(*places, random.choice((nowhere, empty)))))


def decision_lost_or_swapped(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    decisions = list(as_plan(world, placed).decisions)
    if len(decisions) > 1 and random.random() < 0.5:
        decisions.reverse()
    else:
        decisions.pop(random.randrange(len(decisions)))
    yield world, replace(as_plan(world, placed), decisions=tuple(decisions))


def domain_wrong(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    for g in _some(random, list(range(len(world.gangs)))):
        here = made.decisions[g].domains
        other = random.choice([(*here, *here), here[1:], here[::-1], (*here, len(world.hypernodes))])
        if other != here:
            yield world, replace(made, decisions=_edit(made.decisions, g, domains=other))


def queue_sum_wrong(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    for q in _some(random, list(range(len(world.queues)))):
        use = made.queues[q]
        wrong = {"share": use.share + 0.01, "allocated": (use.allocated[0] + 1, *use.allocated[1:]), "admitted": (*use.admitted[:-1], -1)}
        field = random.choice(sorted(wrong))
        yield world, replace(made, queues=_edit(made.queues, q, **{field: wrong[field]}))


def gang_in_no_or_two_batches(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    for g in _some(random, [decision.gang for decision in made.decisions if decision.action != "keep"]):
        (batch,) = made.batches
        without = tuple(other for other in batch.gangs if other != g)
        gangs = random.choice((without, (*batch.gangs, g)))
        yield world, replace(made, batches=(replace(batch, gangs=gangs),))


def verdict_wrong(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    (batch,) = made.batches
    wrong = (
        Objective("placed", 4.0, 5.0, 0.25, "proven"),
        Objective("placed", 4.0, 5.0, 0.2, "within gap"),
        Objective("placed", 4.0, 5.0, 0.25, "within gap"),
        Objective("placed", float("nan"), 5.0, 0.25, "proven"),
    )
    yield world, replace(made, batches=(replace(batch, objectives=(*batch.objectives, random.choice(wrong))),))


def reason_missing_or_idle(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    made = as_plan(world, placed)
    g = random.randrange(len(world.gangs))
    facts = (Fact("GW000"),) if g in placed else ()
    yield world, replace(made, decisions=_edit(made.decisions, g, facts=facts))


def never_said_of_one_that_fits_plainly(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """A gang of one pod that brute force can place on the empty cluster."""
    made = as_plan(world, placed)
    simple = [g for g, gang in enumerate(world.gangs) if gang.minimum == 1 and not gang.subgroups and g not in placed]
    for g in _some(random, [g for g in simple if frozenset({0}) in feasible_sets(emptied(world, g))]):
        yield world, replace(made, decisions=_edit(made.decisions, g, facts=(Fact("GW000", never=True),)))


def _celled(world: Problem, placed: Placed, random: Random, number: int) -> Iterator[tuple[Problem, Plan, int]]:
    """A role with new pods now takes all of one resource from `number` cells; each of its nodes has two cells that just hold them."""
    spots = [(g, t, r) for g, (t, _) in _new(world, placed) for r, amount in enumerate(world.gangs[g].roles[t].request) if amount]
    for g, t, r in _some(random, spots):
        share = tuple(amount if k == r else 0 for k, amount in enumerate(world.gangs[g].roles[t].request))
        new = {spot: pods - running(world.gangs[g])[spot] for spot, pods in sorted(placed[g].items())}
        here = {node: pods for (role, node), pods in new.items() if role == t and pods > 0}
        full = [tuple(pods * amount for amount in share) for pods in (here.get(n, 0) for n in range(len(world.nodes)))]
        nodes = tuple(replace(node, cells=(Cell(0, full[n], full[n]),) * 2) for n, node in enumerate(world.nodes))
        gang = world.gangs[g]
        pickier = replace(gang, roles=_edit(gang.roles, t, portions=(Portion(0, number, share),)))
        other = replace(world, nodes=nodes, gangs=(*world.gangs[:g], pickier, *world.gangs[g + 1 :]), divisions=("device",))
        made = as_plan(other, placed)
        uses = tuple(CellUse(t, node, c, pods) for node, pods in sorted(here.items()) for c in range(number))
        yield other, replace(made, decisions=_edit(made.decisions, g, cells=uses)), g


def cell_filled_beyond_its_room(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, random.choice((1, 2))):
        assert not {violation.rule for violation in verify(other, made)} & {"cells"}
        use = random.choice(made.decisions[g].cells)
        cell = other.nodes[use.node].cells[use.cell]
        less = tuple(max(0, amount - 1) for amount in cell.free)
        nodes = _edit(other.nodes, use.node, cells=_edit(other.nodes[use.node].cells, use.cell, free=less))
        yield replace(other, nodes=nodes), made


def cells_of_a_pod_not_all_different(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """One cell, made large enough, gives what two should."""
    for other, made, g in _celled(world, placed, random, 2):
        roomy = tuple(2 * amount for amount in (max(use.pods for use in made.decisions[g].cells) * 8,) * len(world.resources))
        nodes = tuple(replace(node, cells=(Cell(0, roomy, roomy),) * 2) for node in other.nodes)
        uses = tuple(replace(use, pods=2 * use.pods) for use in made.decisions[g].cells if use.cell == 0)
        yield replace(other, nodes=nodes), replace(made, decisions=_edit(made.decisions, g, cells=uses))


def cell_of_a_pod_forgotten(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, random.choice((1, 2))):
        first, *rest = made.decisions[g].cells
        fewer = (replace(first, pods=first.pods - 1), *rest) if first.pods > 1 and random.random() < 0.5 else tuple(rest)
        yield other, replace(made, decisions=_edit(made.decisions, g, cells=fewer))


def cell_given_to_nobody(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, 1):
        use = made.decisions[g].cells[-1]
        wrong = random.choice((replace(use, cell=2), replace(use, role=use.role + 1), replace(use, node=len(world.nodes))))
        cells = (*made.decisions[g].cells, wrong)
        yield other, replace(made, decisions=_edit(made.decisions, g, cells=cells))


def cell_uses_unsorted(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for other, made, g in _celled(world, placed, random, 2):
        yield other, replace(made, decisions=_edit(made.decisions, g, cells=made.decisions[g].cells[::-1]))


def _bound(world: Problem, g: int, t: int, relation: Relation, counted: bool) -> Problem:
    """The same with a relation that role t of gang g carries, and that may count it."""
    gang, rho = world.gangs[g], len(world.relations)
    role = gang.roles[t]
    matches = (*role.matches, rho) if counted else role.matches
    roles = _edit(gang.roles, t, bears=(*role.bears, rho), matches=matches)
    return replace(world, gangs=_edit(world.gangs, g, roles=roles), relations=(*world.relations, relation))


def pod_beside_one_that_it_keeps_away(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Another owner's pod on the very node, or a second pod of its own role in the cluster, which is one domain."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in _some(random, _new(world, placed)):
        foreign = _bound(world, g, role, Relation("apart", hosts, tuple(int(n == node) for n in hosts)), counted=False)
        yield foreign, as_plan(foreign, placed)
        if sum(pods for (t, _), pods in placed[g].items() if t == role) > 1:
            alike = _bound(world, g, role, Relation("apart", (0,) * len(hosts), (0,)), counted=True)
            yield alike, as_plan(alike, placed)


def pod_without_its_company(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The pods that it must be beside are nowhere, or on every other node."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in _some(random, _new(world, placed)):
        elsewhere = random.choice((0, 1))
        lonely = _bound(world, g, role, Relation("together", hosts, tuple(elsewhere * int(n != node) for n in hosts)), counted=False)
        yield lonely, as_plan(lonely, placed)


def pod_where_there_are_too_many(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Its node has two counted pods more than the emptiest, or its domain is one of too few."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in _some(random, _new(world, placed)):
        few = Relation("even", hosts, tuple(2 * int(n == node) for n in hosts), (), 1, 1 if len(hosts) > 1 else 2)
        crowded = _bound(world, g, role, few, counted=False)
        yield crowded, as_plan(crowded, placed)
        outside = _bound(world, g, role, Relation("even", (None,) * len(hosts), ()), counted=True)
        yield outside, as_plan(outside, placed)


def _evicting(world: Problem, made: Plan, g: int, j: int, evicted: Iterable[Placement], **changes: object) -> Plan:
    """The plan with gang g gone for gang j."""
    decisions = _edit(
        made.decisions, g, action="evict", placements=(), domains=(), evicted=tuple(evicted), evicted_for=(j,), **changes
    )  # fmt: skip
    return replace(made, decisions=decisions, queues=queue_uses(world, decisions))


def _victims(world: Problem, placed: Placed, random: Random) -> Iterator[tuple[int, int, tuple[Placement, ...]]]:
    """(a gang that is kept, one that starts, what the first one runs)."""
    kept = [g for g in sorted(placed) if is_kept(world.gangs[g])]
    starting = [g for g in sorted(placed) if not is_kept(world.gangs[g])]
    for g, j in _some(random, [(g, j) for g in kept for j in starting]):
        yield g, j, tuple(Placement(role, node, pods) for (role, node), pods in sorted(running(world.gangs[g]).items()))


def _lenient(world: Problem, g: int, j: int) -> Problem:
    """The same without quotas, and with gang g open to eviction for gang j."""
    nothing = (None,) * len(world.resources)
    gangs = _edit(world.gangs, g, evictable=True, priority=world.gangs[j].priority - 1)
    queues = tuple(replace(queue, guarantee=nothing, deserved=nothing, capability=nothing) for queue in world.queues)
    return replace(world, gangs=gangs, queues=queues, preempt=True, reclaim=True)


def _across(world: Problem, g: int, j: int, deserved: int) -> Problem:
    """The same with the victim in a queue of its own, that deserves this much of everything."""
    whole, nothing = (deserved,) * len(world.resources), (None,) * len(world.resources)
    other = Queue("other", None, 1, 0, nothing, whole, nothing, (0,) * len(world.resources))
    lenient = _lenient(world, g, j)
    return replace(lenient, queues=(*lenient.queues, other), gangs=_edit(lenient.gangs, g, queue=len(lenient.queues)))


def evicted_without_a_right(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in _victims(world, placed, random):
        yield replace(world, preempt=True, reclaim=True), _evicting(world, as_plan(world, placed), g, j, pods)


def evicted_for_nothing(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The plan was valid with the victim still there."""
    for g, j, pods in _victims(world, placed, random):
        yield _lenient(world, g, j), _evicting(world, as_plan(world, placed), g, j, pods)


def evicted_but_for_a_pod(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in _victims(world, placed, random):
        left = (*pods[:-1], *((replace(pods[-1], pods=pods[-1].pods - 1),) if pods[-1].pods > 1 else ()))
        yield _lenient(world, g, j), _evicting(world, as_plan(world, placed), g, j, left)


def evicted_from_a_queue_that_deserves_it(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in _victims(world, placed, random):
        other = _across(world, g, j, 1_000)
        yield other, _evicting(other, as_plan(other, placed), g, j, pods)


def evicted_for_a_queue_that_deserves_nothing(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in _victims(world, placed, random):
        other = _across(world, g, j, 0)
        yield other, _evicting(other, as_plan(other, placed), g, j, pods)


def started_out_of_turn(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The queue becomes strict, and whoever waits in it older than one who starts."""
    waiting = [g for g in range(len(world.gangs)) if g not in placed]
    starting = [g for g in sorted(placed) if not is_kept(world.gangs[g])]
    for g, j in _some(random, [(g, j) for g in waiting for j in starting if world.gangs[g].queue == world.gangs[j].queue]):
        late = replace(world.gangs[j], age=99, priority=world.gangs[g].priority, overdue=random.choice((False, world.gangs[g].overdue)))
        queues = _edit(world.queues, late.queue, strict=True)
        strict = replace(world, queues=queues, gangs=(*world.gangs[:j], late, *world.gangs[j + 1 :]))
        yield strict, as_plan(strict, placed)


def pod_in_a_kept_domain(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The domain of a new pod turns out to be kept for a queue that has no gangs."""
    nothing, zero = (None,) * len(world.resources), (0,) * len(world.resources)
    spots = [(g, world.nodes[node].leaf) for g, (_, node) in _new(world, placed)]
    for _, leaf in _some(random, [(g, leaf) for g, leaf in spots if leaf is not None]):
        owner = Queue("owner", None, 1, 0, nothing, nothing, nothing, zero, kept=(leaf,))
        guarded = replace(world, queues=(*world.queues, owner))
        yield guarded, as_plan(guarded, placed)


def pod_on_a_node_that_closes(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Before the gang is to end, or whenever it does if nobody knows."""
    for g, (_, node) in _some(random, _new(world, placed)):
        ends = random.choice((None, 101))
        gangs = _edit(world.gangs, g, duration=ends, ends=ends if world.gangs[g].running else None)
        closing = replace(world, gangs=gangs, nodes=_edit(world.nodes, node, closes_in=random.choice((0, 100))))
        yield closing, as_plan(closing, placed)


def _reserved(world: Problem, placed: Placed, random: Random) -> Iterator[tuple[Problem, Placed, Reservation]]:
    """A gang that starts waits instead, with its pods reserved until another one, which is to end in 100 seconds, is gone."""
    starting = [g for g in sorted(placed) if not is_kept(world.gangs[g]) and not world.gangs[g].running]
    for g, v in _some(random, [(g, v) for g in starting for v in sorted(placed) if v != g and any(placed[v].values())]):
        pods = tuple(Placement(role, node, n) for (role, node), n in sorted(placed[g].items()) if n)
        if not pods:
            continue
        field = "ends" if world.gangs[v].running else "duration"
        timed = replace(world, gangs=_edit(world.gangs, v, **{field: 100}))
        yield timed, {other: spots for other, spots in placed.items() if other != g}, Reservation(g, 100, pods, (v,))


def _held(world: Problem, placed: Placed, held: Reservation) -> Plan:
    made = as_plan(world, placed)
    return replace(made, decisions=_edit(made.decisions, held.gang, starts_in=held.starts_in), reservation=held)


def reservation_wrong(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Its time, who it waits for, its pods, or what the decisions say of it."""
    for timed, rest, held in _reserved(world, placed, random):
        if verify(timed, _held(timed, rest, held)):
            continue
        first = held.placements[0]
        wrong = random.choice(
            (
                replace(held, starts_in=99),
                replace(held, starts_in=None),
                replace(held, until=()),
                replace(held, until=(*held.until, held.gang)),
                replace(held, placements=()),
                replace(held, placements=(replace(first, pods=first.pods + 99), *held.placements[1:])),
                replace(held, placements=(replace(first, node=len(world.nodes)), *held.placements[1:])),
            )
        )
        yield timed, _held(timed, rest, wrong)
        yield timed, replace(_held(timed, rest, held), reservation=None)


def reserved_node_taken(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Another gang's new pod is on a reserved node, and nobody knows when that gang ends."""
    for timed, rest, held in _reserved(world, placed, random):
        nodes = {place.node for place in held.placements}
        for g, _ in _some(random, [(g, spot) for g, spot in _new(timed, rest) if spot[1] in nodes and g not in held.until]):
            gangs = _edit(timed.gangs, g, duration=None, ends=None, priority=timed.gangs[held.gang].priority)
            later = replace(timed, gangs=gangs)
            yield later, _held(later, rest, held)


MUTATORS: dict[Callable[[Problem, Placed, Random], Iterator[Mutant]], str] = {
    pod_moved_to_a_full_node: "capacity",
    pod_dropped_below_the_minimum: "actions",
    pod_added_above_the_replicas: "replicas",
    pod_on_a_node_of_another_kind: "eligibility",
    hard_gang_split: "topology",
    hard_gang_outside_the_topology: "topology",
    part_left_incomplete: "subgroups",
    part_split_over_domains: "subgroups",
    capability_lowered: "capability",
    guarantee_of_another_taken: "guarantees",
    queue_closed: "closed",
    guarantee_counted_twice: "real_capability",
    share_by_weight_exceeded: "proportion",
    running_pod_removed: "running_stay",
    waiting_with_new_pods: "actions",
    kept_and_started_confused: "actions",
    placements_unsorted: "decisions",
    placement_not_merged: "decisions",
    placement_of_no_pods: "decisions",
    decision_lost_or_swapped: "decisions",
    domain_wrong: "domains",
    queue_sum_wrong: "queue_use",
    gang_in_no_or_two_batches: "batches",
    verdict_wrong: "batches",
    reason_missing_or_idle: "reasons",
    never_said_of_one_that_fits_plainly: "reasons",
    cell_filled_beyond_its_room: "cells",
    cells_of_a_pod_not_all_different: "cells",
    cell_of_a_pod_forgotten: "cells",
    cell_given_to_nobody: "cells",
    cell_uses_unsorted: "cells",
    evicted_without_a_right: "legality",
    evicted_for_nothing: "need",
    evicted_but_for_a_pod: "evictions",
    evicted_from_a_queue_that_deserves_it: "reclaimed",
    evicted_for_a_queue_that_deserves_nothing: "entitlement",
    started_out_of_turn: "strict_order",
    pod_in_a_kept_domain: "kept_domains",
    pod_on_a_node_that_closes: "maintenance",
    reservation_wrong: "reservation",
    reserved_node_taken: "reservation",
    pod_beside_one_that_it_keeps_away: "apart",
    pod_without_its_company: "together",
    pod_where_there_are_too_many: "even",
}
"""A way to break a plan -> the rule that it breaks."""
