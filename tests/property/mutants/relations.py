"""Pods beside others that they may not be with, or without those that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.problem import PodRule, Problem
from tests.property.mutants.parts import Mutant, Mutators, Placed, as_plan, edit, new_pods, some


def _bound(world: Problem, g: int, t: int, relation: PodRule, counted: bool) -> Problem:
    """The same with a relation that role t of gang g carries, and that may count it."""
    gang, rho = world.gangs[g], len(world.pod_rules)
    role = gang.roles[t]
    matches = (*role.selecting_rules, rho) if counted else role.selecting_rules
    roles = edit(gang.roles, t, bears=(*role.owned_rules, rho), matches=matches)
    return replace(world, gangs=edit(world.gangs, g, roles=roles), pod_rules=(*world.pod_rules, relation))


def pod_beside_one_that_it_keeps_away(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Another owner's pod on the very node, or a second pod of its own role in the cluster, which is one domain."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in some(random, new_pods(world, placed)):
        foreign = _bound(world, g, role, PodRule("apart", hosts, tuple(int(n == node) for n in hosts)), counted=False)
        yield foreign, as_plan(foreign, placed)
        if sum(pods for (t, _), pods in placed[g].items() if t == role) > 1:
            alike = _bound(world, g, role, PodRule("apart", (0,) * len(hosts), (0,)), counted=True)
            yield alike, as_plan(alike, placed)


def pod_without_its_company(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The pods that it must be beside are nowhere, or on every other node."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in some(random, new_pods(world, placed)):
        elsewhere = random.choice((0, 1))
        lonely = _bound(
            world, g, role, PodRule("together", hosts, tuple(elsewhere * int(n != node) for n in hosts)), counted=False
        )
        yield lonely, as_plan(lonely, placed)


def pod_where_there_are_too_many(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Its node has two counted pods more than the emptiest, or its domain is one of too few."""
    hosts = tuple(range(len(world.nodes)))
    for g, (role, node) in some(random, new_pods(world, placed)):
        few = PodRule("even", hosts, tuple(2 * int(n == node) for n in hosts), (), 1, 1 if len(hosts) > 1 else 2)
        crowded = _bound(world, g, role, few, counted=False)
        yield crowded, as_plan(crowded, placed)
        outside = _bound(world, g, role, PodRule("even", (None,) * len(hosts), ()), counted=True)
        yield outside, as_plan(outside, placed)


MUTATORS: Mutators = {
    pod_beside_one_that_it_keeps_away: "anti_affinity",
    pod_without_its_company: "affinity",
    pod_where_there_are_too_many: "topology_spread",
}
