"""Victims that hold cells against brute force: every choice of victims, what of each cell is sure to come back, and
every way to deal it out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from solver.problem import DeviceSlot, EvictionTerms, Gang, Node, Placement, Problem, Queue, Role, SlotHold, SlotRequest
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.property.brute import RoleOnNode, _has_slot_assignment, new_pod_sets, running_pods
from tests.property.brute_evictions import cost, losses, paid

CELL = 4


@st.composite
def occupied(draw: st.DrawFn) -> Problem:
    """One or two nodes of two devices, nearly full with at most 3 running gangs whose devices are known now and then,
    and one or two that wait."""
    number = draw(st.integers(1, 2))
    left = [[CELL, CELL] for _ in range(number)]
    gangs = [draw(_running(g, left)) for g in range(draw(st.integers(1, 3)))]
    sharers = [[draw(st.integers(0, min(1, have))) for have in cells] for cells in left]  # of somebody else
    free = [
        [have - taken for have, taken in zip(cells, others, strict=True)]
        for cells, others in zip(left, sharers, strict=True)
    ]
    nodes = tuple(
        Node(
            f"n{n}",
            0,
            None,
            (2 * CELL,),
            (2 * CELL - sum(sharers[n]),),
            tuple(DeviceSlot(0, (CELL,), (have,)) for have in free[n]),
        )
        for n in range(number)
    )
    waiting = [draw(_waiting(i)) for i in range(draw(st.sampled_from((1, 1, 2))))]
    queue = Queue("q", None, 1, 0, (None,), (None,), (None,), (0,))
    return Problem(
        ("gpu",),
        nodes,
        (),
        (queue,),
        (*(gang for gang in gangs if gang.running), *waiting),
        preempt_enabled=True,
        slot_groups=("device",),
    )


@st.composite
def _running(draw: st.DrawFn, g: int, left: list[list[int]]) -> Gang:
    share = draw(st.sampled_from((1, 2, 2, 3, 4)))
    spots: Counter[int] = Counter()
    held: Counter[tuple[int, int]] = Counter()
    for _ in range(draw(st.integers(1, 3))):
        room = [(n, c) for n, cells in enumerate(left) for c, have in enumerate(cells) if have >= share]
        if room:
            n, c = draw(st.sampled_from(room))
            left[n][c] -= share
            spots[n] += 1
            held[n, c] += 1
    pods = sum(spots.values())
    known = {at: draw(st.sampled_from((number, number, number, number - 1))) for at, number in sorted(held.items())}
    return Gang(
        f"g{g}",
        0,
        0,
        g,
        draw(st.integers(1, max(pods, 1))),
        (Role("r", max(pods, 1), 0, (share,), frozenset({0}), slot_requests=(SlotRequest(0, 1, (share,)),)),),
        running=tuple(Placement(0, n, number) for n, number in sorted(spots.items())),
        eviction=EvictionTerms(evictable=True, loss=draw(st.sampled_from((1, 2, 5)))),
        slot_holds=tuple(SlotHold(0, n, c, number) for (n, c), number in known.items() if number),
    )


@st.composite
def _waiting(draw: st.DrawFn, i: int) -> Gang:
    pods, share, number = (
        draw(st.sampled_from((1, 1, 2))),
        draw(st.sampled_from((2, 3, 4, 4))),
        draw(st.sampled_from((1, 1, 2))),
    )
    role = Role("r", pods, pods, (number * share,), frozenset({0}), slot_requests=(SlotRequest(0, number, (share,)),))
    return Gang(f"w{i}", 0, 1, 10 + i, pods, (role,))


def fits(world: Problem, j: int, gone: dict[int, Counter[RoleOnNode]]) -> bool:
    """Whether the pods of gang j find nodes and devices once these are gone, whichever pods of a spot they are."""
    free = [[cell.free[0] for cell in node.slots] for node in world.nodes]
    room = [node.free[0] for node in world.nodes]
    for v, gang in enumerate(world.gangs):
        for p in gang.running:
            room[p.node] -= (p.pods - gone.get(v, Counter())[p.role, p.node]) * gang.roles[p.role].request[0]
        for hold in gang.slot_holds:
            stay = running_pods(gang)[hold.role, hold.node] - gone.get(v, Counter())[hold.role, hold.node]
            free[hold.node][hold.slot] += (hold.pods - min(hold.pods, stay)) * gang.roles[hold.role].slot_requests[
                0
            ].share[0]
    role = world.gangs[j].roles[0]
    for option in new_pod_sets(world, j):
        here = {node: pods for (_, node), pods in option.items()}
        if all(
            pods * role.request[0] <= room[n]
            and _has_slot_assignment([[have] for have in free[n]], world.nodes[n], role.slot_requests * pods)
            for n, pods in here.items()
        ):
            return True
    return False


@settings(max_examples=75)
@given(occupied())
def test_a_gang_that_asks_for_devices_starts_at_the_least_loss_that_any_choice_of_victims_is_sure_to_have(
    world: Problem,
) -> None:
    first = next(g for g, gang in enumerate(world.gangs) if not gang.running)
    world = replace(world, gangs=world.gangs[: first + 1])
    plan = solve(world)
    assert verify(world, plan) == []
    choices = product(*(list(losses(world, v)) for v in range(first)))
    every = [{v: pods for v, pods in enumerate(choice) if pods} for choice in choices]
    best = min((cost(world, gone) for gone in every if fits(world, first, gone)), default=None)
    assert (plan.decisions[first].action, paid(plan, world)) == (("wait", (0, 0)) if best is None else ("start", best))
    assert {o.verdict for batch in plan.batches for o in batch.objectives if o.name in ("loss", "whole gangs")} <= {
        "proven"
    }


@settings(max_examples=35)
@given(occupied())
def test_with_several_that_ask_for_devices_every_plan_is_valid(world: Problem) -> None:
    assert verify(world, solve(world)) == []
