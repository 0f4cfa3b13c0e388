"""Pods next to others that they may not be with, or without those that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.problem import GroupQuota, PodRule, Problem
from tests.builders.strategies import with_quota
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, new_pods, pick_one, plan_of_pods, replace_at


def _with_pod_rule(world: Problem, g: int, t: int, pod_rule: PodRule, is_selected: bool) -> Problem:
    """The same with a relation that role t of gang g carries, and that may count it."""
    gang, rho = world.gangs[g], len(world.pod_rules)
    role = gang.roles[t]
    matches = (*role.selecting_rules, rho) if is_selected else role.selecting_rules
    roles = replace_at(gang.roles, t, owned_rules=(*role.owned_rules, rho), selecting_rules=matches)
    return replace(world, gangs=replace_at(world.gangs, g, roles=roles), pod_rules=(*world.pod_rules, pod_rule))


def pod_against_its_anti_affinity(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Another owner's pod on the very node, or a second pod of its own role in the cluster, which is one domain."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in pick_one(random, new_pods(world, placed)):
        foreign = _with_pod_rule(
            world, g, role, PodRule("anti-affinity", hosts, tuple(int(n == node) for n in hosts)), is_selected=False
        )
        yield foreign, plan_of_pods(foreign, placed)
        if sum(pods for (t, _), pods in placed[g].items() if t == role) > 1:
            alike = _with_pod_rule(world, g, role, PodRule("anti-affinity", (0,) * len(hosts), (0,)), is_selected=True)
            yield alike, plan_of_pods(alike, placed)


def pod_beside_those_that_it_is_separated_from(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A pod of nobody on the very node; no domain at all; or a pod of another gang, new or running, in the cluster,
    which is one domain."""
    nodes = len(world.nodes)
    for g, (role, node) in pick_one(random, new_pods(world, placed)):
        present = tuple(int(n == node) for n in range(nodes))
        foreign = _with_pod_rule(world, g, role, PodRule("separation", tuple(range(nodes)), present), is_selected=False)
        yield foreign, plan_of_pods(foreign, placed)
        nowhere = _with_pod_rule(world, g, role, PodRule("separation", (None,) * nodes, ()), is_selected=False)
        yield nowhere, plan_of_pods(nowhere, placed)
        for i in sorted(i for i, pods in placed.items() if i != g and +pods)[:1]:
            lonely = _with_pod_rule(world, g, role, PodRule("separation", (0,) * nodes, (0,)), is_selected=False)
            rho = len(world.pod_rules)
            roles = (replace(r, selecting_rules=(*r.selecting_rules, rho)) for r in lonely.gangs[i].roles)
            lonely = replace(lonely, gangs=replace_at(lonely.gangs, i, roles=tuple(roles)))
            yield lonely, plan_of_pods(lonely, placed)


def pods_beyond_a_quota(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Its queue may hold less in the pod's node group than the pod requests, or than it holds with it."""
    groups = world.node_groups or ("(none)",)
    for g, (role, node) in pick_one(random, new_pods(world, placed)):
        wanted = [r for r, amount in enumerate(world.gangs[g].roles[role].request) if amount]
        for r in wanted[:1]:
            amount, present = world.gangs[g].roles[role].request[r], random.choice((0, 1))
            limit = GroupQuota(world.gangs[g].queue, world.nodes[node].node_group, r, amount - 1 + present)
            limited = with_quota(replace(world, node_groups=groups), limit, (present,))
            yield limited, plan_of_pods(limited, placed)


def pod_without_its_affinity(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """The pods that it must be next to are nowhere, or on every other node."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in pick_one(random, new_pods(world, placed)):
        elsewhere = random.choice((0, 1))
        lonely = _with_pod_rule(
            world,
            g,
            role,
            PodRule("affinity", hosts, tuple(elsewhere * int(n != node) for n in hosts)),
            is_selected=False,
        )
        yield lonely, plan_of_pods(lonely, placed)


def pod_beyond_the_max_skew(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Its node has two counted pods more than the emptiest, or its domain is one of too few."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in pick_one(random, new_pods(world, placed)):
        few = PodRule("spread", hosts, tuple(2 * int(n == node) for n in hosts), (), 1, 1 if len(hosts) > 1 else 2)
        crowded = _with_pod_rule(world, g, role, few, is_selected=False)
        yield crowded, plan_of_pods(crowded, placed)
        outside = _with_pod_rule(world, g, role, PodRule("spread", (None,) * len(hosts), ()), is_selected=True)
        yield outside, plan_of_pods(outside, placed)


MUTATORS: Mutators = {
    pod_against_its_anti_affinity: "anti_affinity",
    pod_beside_those_that_it_is_separated_from: "separation",
    pods_beyond_a_quota: "quota",
    pod_without_its_affinity: "affinity",
    pod_beyond_the_max_skew: "topology_spread",
}
