"""Cells of nodes that give what they do not have, or give it to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.plan import Plan, SlotUse
from solver.problem import DeviceSlot, Gang, Placement, Problem, Role, SlotHold, SlotRequest
from solver.verify import verify
from tests.property.brute import running_pods
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, new_pods, pick_one, plan_of_pods, replace_at
from tests.property.mutants.victims import plan_with_eviction, victim_pairs, with_eviction_right


def _with_slots(world: Problem, placed: PodsByGang, random: Random, number: int) -> Iterator[tuple[Problem, Plan, int]]:
    """A role with new pods now takes all of one resource from `number` cells; each of its nodes has two cells that just
    hold them."""
    spots = [
        (g, t, r)
        for g, (t, _) in new_pods(world, placed)
        for r, amount in enumerate(world.gangs[g].roles[t].request)
        if amount
    ]
    for g, t, r in pick_one(random, spots):
        share = tuple(amount if k == r else 0 for k, amount in enumerate(world.gangs[g].roles[t].request))
        new = {spot: pods - running_pods(world.gangs[g])[spot] for spot, pods in sorted(placed[g].items())}
        here = {node: pods for (role, node), pods in new.items() if role == t and pods > 0}
        full = [tuple(pods * amount for amount in share) for pods in (here.get(n, 0) for n in range(len(world.nodes)))]
        nodes = tuple(replace(node, slots=(DeviceSlot(0, full[n], full[n]),) * 2) for n, node in enumerate(world.nodes))
        gang = world.gangs[g]
        pickier = replace(gang, roles=replace_at(gang.roles, t, slot_requests=(SlotRequest(0, number, share),)))
        other = replace(
            world, nodes=nodes, gangs=(*world.gangs[:g], pickier, *world.gangs[g + 1 :]), slot_groups=("device",)
        )
        made = plan_of_pods(other, placed)
        uses = tuple(SlotUse(t, node, c, pods) for node, pods in sorted(here.items()) for c in range(number))
        yield other, replace(made, decisions=replace_at(made.decisions, g, slot_uses=uses)), g


def slot_overfilled(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for other, made, g in _with_slots(world, placed, random, random.choice((1, 2))):
        assert not {violation.rule for violation in verify(other, made)} & {"device_slots"}
        use = random.choice(made.decisions[g].slot_uses)
        cell = other.nodes[use.node].slots[use.slot]
        less = tuple(max(0, amount - 1) for amount in cell.free)
        nodes = replace_at(other.nodes, use.node, slots=replace_at(other.nodes[use.node].slots, use.slot, free=less))
        yield replace(other, nodes=nodes), made


def slots_of_a_pod_not_all_different(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """One cell, made large enough, gives what two should."""
    for other, made, g in _with_slots(world, placed, random, 2):
        roomy = tuple(
            2 * amount for amount in (max(use.pods for use in made.decisions[g].slot_uses) * 8,) * len(world.resources)
        )
        nodes = tuple(replace(node, slots=(DeviceSlot(0, roomy, roomy),) * 2) for node in other.nodes)
        uses = tuple(replace(use, pods=2 * use.pods) for use in made.decisions[g].slot_uses if use.slot == 0)
        yield replace(other, nodes=nodes), replace(made, decisions=replace_at(made.decisions, g, slot_uses=uses))


def slot_of_a_pod_forgotten(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for other, made, g in _with_slots(world, placed, random, random.choice((1, 2))):
        first, *rest = made.decisions[g].slot_uses
        fewer = (
            (replace(first, pods=first.pods - 1), *rest) if first.pods > 1 and random.random() < 0.5 else tuple(rest)
        )
        yield other, replace(made, decisions=replace_at(made.decisions, g, slot_uses=fewer))


def slot_given_to_nobody(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for other, made, g in _with_slots(world, placed, random, 1):
        use = made.decisions[g].slot_uses[-1]
        wrong = random.choice(
            (replace(use, slot=2), replace(use, role=use.role + 1), replace(use, node=len(world.nodes)))
        )
        cells = (*made.decisions[g].slot_uses, wrong)
        yield other, replace(made, decisions=replace_at(made.decisions, g, slot_uses=cells))


def slot_uses_unsorted(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for other, made, g in _with_slots(world, placed, random, 2):
        yield other, replace(made, decisions=replace_at(made.decisions, g, slot_uses=made.decisions[g].slot_uses[::-1]))


def slot_that_nobody_releases(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """New pods take from the one cell of a node what a victim there holds of it; but the victim stays, or loses all but
    one pod of several, or nobody knows that it has the cell."""
    for g, j, gone in victim_pairs(world, placed, random):
        here = [
            (p, t, pods - running_pods(world.gangs[j])[t, n])
            for p in gone
            for (t, n), pods in sorted(placed[j].items())
            if n == p.node
        ]
        for p, t, pods in pick_one(random, [(p, t, pods) for p, t, pods in here if pods > 0]):
            other, uses = _with_slot_holds(with_eviction_right(world, g, j), placed, (g, p), (j, t), pods)
            stays = plan_of_pods(other, placed)
            goes = plan_with_eviction(other, stays, g, j, gone)
            stays, goes = (
                replace(made, decisions=replace_at(made.decisions, j, slot_uses=uses)) for made in (stays, goes)
            )
            assert not {violation.rule for violation in verify(other, goes)} & {"device_slots"}
            holder = other.gangs[g]
            left = tuple(q if q != p else replace(q, pods=q.pods - 1) for q in gone if q != p or p.pods > 1)
            unsure = replace(
                other,
                gangs=replace_at(
                    other.gangs, g, slot_holds=(replace(holder.slot_holds[0], pods=1),) if p.pods > 1 else ()
                ),
            )
            yield random.choice(
                (
                    (other, stays),
                    (replace(other, gangs=replace_at(other.gangs, g, slot_holds=())), goes),
                    (unsure, replace(goes, decisions=replace_at(goes.decisions, g, evicted_pods=left))),
                )
            )


def _with_slot_holds(
    world: Problem, placed: PodsByGang, victim: tuple[int, Placement], preemptor: tuple[int, int], pods: int
) -> tuple[Problem, tuple[SlotUse, ...]]:
    """Each node is one cell. Where the victim runs nothing of it is free, and each of its pods there holds all that the
    winner's new pods need."""
    (g, p), (j, t) = victim, preemptor
    new = {
        n: number - running_pods(world.gangs[j])[t, n] for (role, n), number in sorted(placed[j].items()) if role == t
    }
    new = {n: number for n, number in new.items() if number > 0}
    width = len(world.resources)

    def amount(number: int) -> tuple[int, ...]:
        return (number, *(0,) * (width - 1))

    def asking(gangs: tuple[Gang, ...], at: int, role: int, share: int) -> tuple[Gang, ...]:
        roles: tuple[Role, ...] = replace_at(gangs[at].roles, role, slot_requests=(SlotRequest(0, 1, amount(share)),))
        changed: tuple[Gang, ...] = replace_at(gangs, at, roles=roles)
        return changed

    gangs = replace_at(
        asking(asking(world.gangs, j, t, 1), g, p.role, pods), g, slot_holds=(SlotHold(p.role, p.node, 0, p.pods),)
    )
    cells = [
        DeviceSlot(0, amount(p.pods * pods + new.get(n, 0)), amount(0 if n == p.node else new.get(n, 0)))
        for n in range(len(world.nodes))
    ]
    nodes = tuple(replace(node, slots=(cell,)) for node, cell in zip(world.nodes, cells, strict=True))
    uses = tuple(SlotUse(t, n, 0, number) for n, number in sorted(new.items()))
    return replace(world, nodes=nodes, gangs=gangs, slot_groups=("device",)), uses


MUTATORS: Mutators = {
    slot_that_nobody_releases: "device_slots",
    slot_overfilled: "device_slots",
    slots_of_a_pod_not_all_different: "device_slots",
    slot_of_a_pod_forgotten: "device_slots",
    slot_given_to_nobody: "device_slots",
    slot_uses_unsorted: "device_slots",
}
