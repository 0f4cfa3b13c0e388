"""Evictions against brute force on tiny problems: every way to shrink or stop what runs, tried one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from solver.problem import Policy, Problem
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.evictions import NONE, contested, crowded, limited_queue, open_mix, waiting_gang
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import with_fields
from tests.property.brute import meets_minima_now
from tests.property.brute_evictions import least_loss, paid
from tests.property.plan_events import plan_events, rare_events

POLICIES = (
    Policy(),
    Policy(),
    Policy(capacity=True),
    Policy(capacity=True, capacity_hierarchy=True),
    Policy(proportion=True, drf=True),
)


@settings(max_examples=45)
@given(st.one_of(crowded(), open_mix()))
def test_a_single_waiting_gang_starts_at_the_least_loss_that_any_choice_of_victims_has(world: Problem) -> None:
    """And of all choices that lose as little, with the fewest gangs that go whole."""
    plan = solve(world)
    assert verify(world, plan) == []
    assume([g for g, gang in enumerate(world.gangs) if not meets_minima_now(gang)] == [len(world.gangs) - 1])
    best = least_loss(world, len(world.gangs) - 1)
    assert (plan.decisions[-1].action, paid(plan, world)) == (("wait", (0, 0)) if best is None else ("start", best))


@st.composite
def _two(draw: st.DrawFn) -> Problem:
    """As `crowded` or `contested`, with one more gang that waits, under every policy; now and then each queue has a
    parent that is asked as well."""
    world = draw(st.one_of(crowded(), contested(), contested()))
    homes = sorted({gang.queue for gang in world.gangs})
    second = replace(draw(waiting_gang(homes, bool(world.hypernodes))), name="second", priority=draw(st.integers(0, 2)))
    world = replace(world, gangs=(*world.gangs, second), policy=draw(st.sampled_from(POLICIES)))
    if not world.policy.capacity_hierarchy:
        return world
    first = len(world.queues)
    parents = tuple(replace(draw(limited_queue(first + q, None)), guarantee=NONE, capability=NONE) for q in range(2))
    queues = tuple(
        replace(q, parent=draw(st.integers(first, first + 1)) if q.parent is None else q.parent) for q in world.queues
    )
    return replace(
        world, queues=(*queues, *parents), policy=replace(world.policy, ancestor_reclaim_levels=draw(st.integers(0, 2)))
    )


def test_with_several_waiting_gangs_no_eviction_is_in_vain() -> None:
    seen = Counter[str]()

    @settings(max_examples=50)
    @given(_two())
    def nobody(world: Problem) -> None:
        plan = solve(world)
        assert verify(world, plan) == []
        seen.update(plan_events(world, plan))

    nobody()
    assert rare_events(seen, evicts=18, two_start=8, starts_and_waits=18) == {}


@settings(max_examples=45)
@given(crowded())
def test_with_evictions_switched_off_the_plan_is_the_one_without_them(world: Problem) -> None:
    off = replace(world, preempt_enabled=False, reclaim_enabled=False)
    plain = replace(off, gangs=tuple(with_fields(gang, evictable=False, loss=0) for gang in world.gangs))
    assert solve(off).decisions == solve(plain).decisions
