"""Pods in places, or in numbers, that no valid plan has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.problem import Gang, Problem, Subgroup, Topology
from tests.property.brute import meets_minima_now, running_pods
from tests.property.mutants.parts import (
    Mutant,
    Mutators,
    PodsByGang,
    new_pods,
    pick_one,
    plan_of_pods,
    replace_at,
    with_shifted_pods,
)


def pod_moved_to_a_full_node(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The other node's free amount of what the pod asks for is at most what is there already."""
    for g, (role, node) in pick_one(random, new_pods(world, placed)):
        for other in pick_one(random, [n for n in range(len(world.nodes)) if n != node]):
            request = world.gangs[g].roles[role].request
            for r in pick_one(random, [r for r, amount in enumerate(request) if amount]):
                moved = with_shifted_pods(placed, g, {(role, node): -1, (role, other): 1})
                held = _amount_on_node(world, moved, other, r)
                free = tuple(
                    min(amount, max(0, held - 1)) if k == r else amount
                    for k, amount in enumerate(world.nodes[other].free)
                )
                full = replace(world, nodes=replace_at(world.nodes, other, free=free))
                yield full, plan_of_pods(full, moved)


def _amount_on_node(world: Problem, placed: PodsByGang, node: int, r: int) -> int:
    everyone = {g: placed.get(g, running_pods(gang)) for g, gang in enumerate(world.gangs)}
    return sum(
        pods * world.gangs[g].roles[t].request[r]
        for g, spots in everyone.items()
        for (t, n), pods in spots.items()
        if n == node
    )


def pod_dropped_below_the_minimum(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, spot in pick_one(
        random, [(g, spot) for g, spot in new_pods(world, placed) if not meets_minima_now(world.gangs[g])]
    ):
        role = spot[0]
        pods = sum(n for (t, _), n in placed[g].items() if t == role)
        gang = world.gangs[g]
        raised = replace(
            gang, roles=replace_at(gang.roles, role, minimum=pods, replicas=max(pods, gang.roles[role].replicas))
        )
        stricter = replace(world, gangs=(*world.gangs[:g], raised, *world.gangs[g + 1 :]))
        yield stricter, plan_of_pods(stricter, with_shifted_pods(placed, g, {spot: -1}))


def pod_added_above_the_replicas(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, spot in pick_one(random, [(g, spot) for g, spots in sorted(placed.items()) for spot in sorted(spots)]):
        role = spot[0]
        above = max(0, world.gangs[g].roles[role].replicas - sum(n for (t, _), n in placed[g].items() if t == role)) + 1
        yield world, plan_of_pods(world, with_shifted_pods(placed, g, {spot: above}))


def pod_in_a_closed_node_group(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The node of a new pod turns out to be in a node group that the gang's queue may not use."""
    for g, (_, node) in pick_one(random, new_pods(world, placed)):
        queues = replace_at(world.queues, world.gangs[g].queue, closed_node_groups=(1,))
        nodes = replace_at(world.nodes, node, node_group=1)
        guarded = replace(world, nodes=nodes, queues=queues, node_groups=("", "kept"))
        yield guarded, plan_of_pods(guarded, placed)


def pod_on_a_node_of_another_class(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, (role, node) in pick_one(random, new_pods(world, placed)):
        gang = world.gangs[g]
        node_classes = gang.roles[role].node_classes - {world.nodes[node].node_class}
        pickier = replace(
            world, gangs=replace_at(world.gangs, g, roles=replace_at(gang.roles, role, node_classes=node_classes))
        )
        yield pickier, plan_of_pods(pickier, placed)


def hard_gang_split(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A gang that is in two leaves of tier 1 is now asked to be in one."""
    leaves = {g: {world.nodes[node].leaf for _, node in spots if spots[_, node]} for g, spots in placed.items()}
    split = [
        g
        for g, _ in new_pods(world, placed)
        if len(leaves[g]) > 1 and all(n is not None and world.hypernodes[n].tier == 1 for n in leaves[g])
    ]
    for g in pick_one(random, split):
        harder = replace(world, gangs=replace_at(world.gangs, g, topology=Topology("hard", 1)))
        yield harder, plan_of_pods(harder, placed)


def hard_gang_outside_the_topology(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, (_, node) in pick_one(random, new_pods(world, placed) if world.hypernodes else []):
        outside = replace(
            world,
            nodes=replace_at(world.nodes, node, leaf=None),
            gangs=replace_at(world.gangs, g, topology=Topology("hard", 1)),
        )
        yield outside, plan_of_pods(outside, placed)


def subgroup_left_incomplete(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """One pod more in an existing part; the role has the replicas for it."""
    paired = [(g, spot) for g, spot in new_pods(world, placed) if spot[0] == 0 and world.gangs[g].subgroups]
    for g, spot in pick_one(random, paired):
        gang = world.gangs[g]
        roomier = replace(
            world,
            gangs=replace_at(world.gangs, g, roles=replace_at(gang.roles, 0, replicas=gang.roles[0].replicas + 2)),
        )
        yield roomier, plan_of_pods(roomier, with_shifted_pods(placed, g, {spot: 1}))


def subgroup_split_over_domains(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """All pods of a role that is in two leaves of tier 1 are now asked to be one part, inside one of them."""
    split = []
    for g, (role, _) in new_pods(world, placed):
        leaves = {world.nodes[node].leaf for (t, node), pods in placed[g].items() if t == role and pods}
        if len(leaves) > 1 and all(leaf is not None and world.hypernodes[leaf].tier == 1 for leaf in leaves):
            split.append((g, role))
    for g, role in pick_one(random, split):
        pods = sum(n for (t, _), n in placed[g].items() if t == role)
        whole = Subgroup("whole", (role,), pods, 0, Topology("hard", 1))
        stricter = replace(world, gangs=replace_at(world.gangs, g, subgroups=(whole,)))
        yield stricter, plan_of_pods(stricter, placed)


def running_pod_removed(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g, place in pick_one(random, [(kept, place) for kept in sorted(placed) for place in world.gangs[kept].running]):
        fewer = Counter(placed[g])
        fewer[place.role, place.node] = place.pods - 1
        yield world, plan_of_pods(world, placed | {g: fewer})


def running_pod_moved(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """To another node; that it has room there does not matter."""
    spots = [(g, place) for g in sorted(placed) for place in world.gangs[g].running if len(world.nodes) > 1]
    for g, place in pick_one(random, spots):
        changed = Counter(placed[g])
        changed[place.role, place.node] = running_pods(world.gangs[g])[place.role, place.node] - 1
        changed[place.role, (place.node + 1) % len(world.nodes)] += 1
        yield world, plan_of_pods(world, placed | {g: changed})


def _starting_gangs(world: Problem, placed: PodsByGang) -> list[int]:
    return [g for g in sorted(placed) if not meets_minima_now(world.gangs[g])]


def gang_minimum_missed(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The gang now needs one pod more than it has, and could have it."""
    for g in pick_one(random, _starting_gangs(world, placed)):
        gang, pods = world.gangs[g], sum(placed[g].values())
        larger = [replace(role, replicas=role.replicas + pods + 1) for role in gang.roles]
        stricter = replace(world, gangs=replace_at(world.gangs, g, minimum=pods + 1, roles=tuple(larger)))
        yield stricter, plan_of_pods(stricter, placed)


def subgroup_missing(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """One part more of the subgroup is asked for than there is."""
    for g in pick_one(random, [g for g in _starting_gangs(world, placed) if world.gangs[g].subgroups]):
        gang = world.gangs[g]
        part = gang.subgroups[0]
        pods = sum(n for (role, _), n in placed[g].items() if role in part.roles)
        roles = tuple(
            replace(role, replicas=role.replicas + part.size) if t in part.roles else role
            for t, role in enumerate(gang.roles)
        )
        more: Gang = replace(
            gang, roles=roles, subgroups=(replace(part, minimum=pods // part.size + 1), *gang.subgroups[1:])
        )
        stricter = replace(world, gangs=(*world.gangs[:g], more, *world.gangs[g + 1 :]))
        yield stricter, plan_of_pods(stricter, placed)


MUTATORS: Mutators = {
    pod_moved_to_a_full_node: "capacity",
    pod_dropped_below_the_minimum: "actions",
    pod_added_above_the_replicas: "replicas",
    pod_on_a_node_of_another_class: "eligibility",
    pod_in_a_closed_node_group: "node_groups",
    hard_gang_split: "topology",
    hard_gang_outside_the_topology: "topology",
    subgroup_left_incomplete: "subgroups",
    subgroup_split_over_domains: "subgroups",
    running_pod_removed: "running_pods_stay",
    running_pod_moved: "running_pods_stay",
    gang_minimum_missed: "actions",
    subgroup_missing: "actions",
}
