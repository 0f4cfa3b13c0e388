"""A share that its queue's waiting gangs cannot use goes on to others, held against shares counted anew over all worlds
that the plan leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.plan import Plan
from solver.problem import ClusterEntry, Gang, Node, Placement, Policy, Problem, Queue, Role
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import with_fields
from tests.property.brute_queues import proportional_shares
from tests.property.plan_events import rare_events
from tests.property.test_entitled_growth import size_of
from tests.property.test_exact import started

POLICIES = (*(Policy(proportion=True),) * 2, Policy(proportion=True, order="priorities-first"))


@st.composite
def shared_worlds(draw: st.DrawFn) -> Problem:
    """One GPU node or two, two or three queues by weight; gangs of one pod, some running, most not there yet."""
    sizes = draw(st.sampled_from(((12,), (16,), (8, 8), (8, 6))))
    number = draw(st.integers(2, 3))
    limits = [draw(st.sampled_from((None, None, None, 4))) for _ in range(2 * number)]
    queues = tuple(
        Queue(f"q{q}", None, draw(st.integers(1, 2)), 0, (g and g // 2,), (None,), (most,), (0,))
        for q, (g, most) in enumerate(zip(limits[:number], limits[number:], strict=True))
    )
    left, gangs = list(sizes), list[Gang]()
    for g in range(draw(st.integers(4, 6))):
        size, node = draw(st.integers(1, 7)), draw(st.integers(0, len(sizes) - 1))
        runs = draw(st.integers(0, 4)) == 0 and size <= left[node]
        left[node] -= size if runs else 0
        there = runs or draw(st.integers(0, 4)) == 0
        role, place = Role("w", 1, 1, (size,), frozenset({0})), (Placement(0, node, 1),) if runs else ()
        home, priority = draw(st.integers(0, number - 1)), draw(st.sampled_from((0, 10)))
        gangs.append(
            Gang(f"g{g}", home, priority, g, 1, (role,), running=place, entry=ClusterEntry(may_be_held=not there))
        )
    nodes = tuple(Node(f"n{n}", 0, None, (size,), (size,)) for n, size in enumerate(sizes))
    return Problem(("gpu",), nodes, (), queues, tuple(gangs), draw(st.sampled_from(POLICIES)))


def breaks_a_share(world: Problem, chosen: Collection[int], held: Collection[int]) -> bool:
    """Whether Volcano, which does not know of the held gangs, would refuse one of those that start."""
    shares = proportional_shares(replace(world, gangs=tuple(g for j, g in enumerate(world.gangs) if j not in held)))
    holding = Counter[int]()
    for j, gang in enumerate(world.gangs):
        holding[gang.queue] += size_of(gang) if gang.running or j in chosen else 0
    return any(holding[world.gangs[j].queue] > shares[world.gangs[j].queue][0] for j in chosen)


def room_left(world: Problem, made: Plan) -> list[int]:
    free = [node.free[0] for node in world.nodes]
    for decision in made.decisions:
        for place in decision.placements:
            free[place.node] -= size_of(world.gangs[decision.gang]) * place.pods
    return free


def test_gangs_started_beyond_shares_take_from_no_other_and_leave_none_that_fits() -> None:
    seen = Counter[str]()

    @settings(max_examples=150)
    @given(shared_worlds())
    def flows(world: Problem) -> None:
        made = solve(world)
        assert verify(world, made) == []
        mine, held = started(made), {d.gang for d in made.decisions if d.held}
        plain = solve(replace(world, gangs=tuple(with_fields(gang, may_be_held=False) for gang in world.gangs)))
        assert started(plain) <= mine
        assert not breaks_a_share(world, mine, held)
        for j in held:
            fits = max(room_left(world, made)) >= size_of(world.gangs[j])
            assert not fits or is_refused(world, mine | {j}, held - {j})
        seen["more"] += started(plain) < mine
        seen["held"] += bool(held)
        seen["room is left"] += any(max(room_left(world, made)) >= size_of(world.gangs[j]) for j in held)

    def is_refused(world: Problem, chosen: Collection[int], held: Collection[int]) -> bool:
        """By a share, or by the real capability: what a queue may hold next to what others are guaranteed."""
        guaranteed = sum(queue.guarantee[0] or 0 for queue in world.queues)
        total, holding = sum(node.capacity[0] for node in world.nodes), Counter[int]()
        for j, gang in enumerate(world.gangs):
            holding[gang.queue] += size_of(gang) if gang.running or j in chosen else 0
        reserved = sum(max(queue.guarantee[0] or 0, holding[q]) for q, queue in enumerate(world.queues))
        most = [total - guaranteed + (queue.guarantee[0] or 0) for queue in world.queues]
        over = any(holding[q] > min(most[q], queue.capability[0] or most[q]) for q, queue in enumerate(world.queues))
        return over or reserved > total or breaks_a_share(world, chosen, held)

    flows()
    assert rare_events(seen, more=2, held=24, room_is_left=8) == {}
