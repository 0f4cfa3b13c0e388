"""A share that its queue's waiting gangs cannot use goes on to others; every number is worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from solver.plan import Plan
from solver.problem import Policy, Problem
from solver.verify import verify
from tests.builders.plans import verified_plan
from tests.builders.problems import (
    GangSpec,
    NodeSpec,
    QueueSpec,
    gang,
    nodes,
    problem,
    queue,
    role,
    running_pods,
    with_fields,
)


def shared(*things: list[NodeSpec] | QueueSpec | GangSpec, there: Collection[str] = ()) -> Problem:
    """Proportion decides; all gangs may be held but those that are `there` or run."""
    world = problem(*things, policy=Policy(proportion=True))
    gangs = tuple(with_fields(g, may_be_held=not g.running and g.name not in there) for g in world.gangs)
    return replace(world, gangs=gangs)


def gangs(of: str, number: int, gpu: int) -> list[GangSpec]:
    return [gang(f"{of}{n}", role(1, gpu=gpu), queue=of) for n in range(number)]


def gpus_by_queue(world: Problem, plan: Plan) -> dict[str, int]:
    return {world.queues[use.queue].name: use.allocated[0] + use.admitted[0] for use in plan.queues}


def held_gangs(world: Problem, plan: Plan) -> list[str]:
    return [world.gangs[d.gang].name for d in plan.decisions if d.held]


def test_a_gang_that_never_fits_its_share_leaves_it_to_others_unless_it_is_there_already() -> None:
    """12 GPUs, shares of 6 and 6: the gang of 8 fits neither, b's six gangs of 2 take all once nothing asks for a's."""
    large = gang("large", role(1, gpu=8), queue="a")
    world = shared(nodes(1, gpu=12), queue("a"), queue("b"), large, *gangs("b", 6, 2))
    plan = verified_plan(world)
    assert (gpus_by_queue(world, plan), held_gangs(world, plan)) == ({"a": 0, "b": 12}, ["large"])
    known = shared(nodes(1, gpu=12), queue("a"), queue("b"), large, *gangs("b", 6, 2), there=["large"])
    plan = verified_plan(known)
    assert (gpus_by_queue(known, plan), held_gangs(known, plan)) == ({"a": 0, "b": 6}, ["b3", "b4", "b5"])


def test_what_is_left_goes_to_the_lowest_share_first() -> None:
    """18 GPUs, shares of 6: a's gang of 10 leaves 6 to b and c, which hold 6 and take one gang of 3 each."""
    world = shared(nodes(1, gpu=18), *map(queue, "abc"), *gangs("a", 1, 10), *gangs("b", 6, 3), *gangs("c", 6, 3))
    assert gpus_by_queue(world, verified_plan(world)) == {"a": 0, "b": 9, "c": 9}


def test_a_gang_that_fits_its_share_keeps_it_though_no_node_has_room() -> None:
    """Two nodes of 6, in use by b up to 2 on each: a's gang of 5 lacks a node, not a share, and b gets no more."""
    runs = [gang(f"run{n}", role(1, gpu=4), queue="b", running=(running_pods(0, n, 1),)) for n in range(2)]
    world = shared(nodes(2, gpu=6), queue("a"), queue("b"), *runs, *gangs("a", 1, 5), *gangs("b", 1, 2))
    plan = verified_plan(world)
    assert (gpus_by_queue(world, plan), held_gangs(world, plan)) == ({"a": 0, "b": 8}, ["b0"])


def test_the_verifier_counts_held_gangs_from_the_plan() -> None:
    world = shared(nodes(1, gpu=12), queue("a"), queue("b"), *gangs("a", 1, 8), *gangs("b", 6, 2))
    plan = verified_plan(world)
    nothing_held = replace(plan, decisions=tuple(replace(d, held=False) for d in plan.decisions))
    assert Counter(v.rule for v in verify(world, nothing_held)) == {"proportion": 1}


def test_a_gang_is_held_only_where_what_starts_keeps_its_share() -> None:
    """Without what c's and e's large gangs ask for, the last round gives c 3.9999 of the 4 GPUs that it starts."""
    places = {"a": (4, 4, 2), "b": (2,), "c": (2, 2), "d": (1,), "e": (1, 1, 1), "f": (0,)}
    machines = [
        machine
        for number, sizes in enumerate(places.values())
        for size in sizes
        for machine in nodes(1, node_class=number, gpu=size, card=0 if size else 16)
    ]
    asked = {"a": ((1, 1, 2), (3, 2, 1)), "b": ((4, 1, 1),), "c": ((2, 2, 1), (1, 1, 2), (2, 2, 2))}
    asked |= {"d": ((2, 2, 1), (1, 1, 1), (1, 1, 1)), "e": ((4, 4, 1), (2, 2, 1), (2, 2, 1))}
    waiting = [
        gang(f"{of}{n}", role(pods, minimum=least, node_classes={ord(of) - ord("a")}, gpu=size), queue=of)
        for of, sizes in asked.items()
        for n, (pods, least, size) in enumerate(sizes)
    ]
    other = gang("f0", role(1, node_classes={5}, card=16), queue="f")
    verified_plan(shared(machines, *map(queue, places), *waiting, other))
