"""A plan in force on random worlds: whatever happens to a node or to one gang, the others keep their places, and no
gang loses its start for that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.plan import Plan
from solver.problem import Gang, Problem
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.evictions import contested
from tests.builders.plans import solve_without_repairs
from tests.builders.problems import with_fields
from tests.builders.strategies import (
    contended_problems,
    problems,
    problems_under_policies,
    problems_with_pod_rules,
    problems_with_slots,
)
from tests.property.plan_events import rare_events

CLOSED = 9
"""A node class that no role may use."""
WORLDS = st.one_of(
    problems(),
    problems(running="anything"),
    contended_problems(),
    problems_under_policies(contended_problems()),
    problems_with_pod_rules(),
    problems_with_slots(),
    contested(),
)


def in_force(world: Problem, plan: Plan) -> Problem:
    """The world whose plan in force is this one."""
    placed = (d.placements if d.action in ("start", "keep") else () for d in plan.decisions)
    return replace(world, gangs=tuple(replace(gang, former=at) for gang, at in zip(world.gangs, placed, strict=True)))


def without_node(world: Problem, n: int) -> Problem:
    nodes = (replace(node, node_class=CLOSED) if i == n else node for i, node in enumerate(world.nodes))
    return replace(world, nodes=tuple(nodes))


def with_begun(draw: st.DrawFn, world: Problem, j: int) -> Problem:
    """The world in which some of the places of gang j are given, as the compiler says it to the solver."""
    gang, given_pods = world.gangs[j], []
    left = draw(st.integers(1, sum(p.pods for p in gang.former)))
    for p in gang.former:
        if pods := min(left, p.pods):
            given_pods.append(replace(p, pods=pods))
            left -= pods
    begun = with_fields(gang, running=tuple(given_pods), overdue=True, promised=True)
    return replace(world, gangs=tuple(begun if i == j else other for i, other in enumerate(world.gangs)))


@st.composite
def second_looks(draw: st.DrawFn) -> tuple[Problem, set[int], str]:
    """(a world with a plan in force, the gangs that what has happened concerns, what that is)"""
    world = draw(WORLDS)
    plan = solve_without_repairs(world)
    again, starts = in_force(world, plan), [d.gang for d in plan.decisions if d.action == "start"]
    event = draw(st.sampled_from(("nothing", "a node is lost", "a gang has begun")))
    if event == "a node is lost":
        n = draw(st.integers(0, len(world.nodes) - 1))
        concerned = {j for j in starts if any(p.node == n for p in again.gangs[j].former)}
        return without_node(again, n), concerned, event
    unbegun = [j for j in starts if not world.gangs[j].running]
    if event == "nothing" or not unbegun:
        return again, set(), "nothing"
    return with_begun(draw, again, draw(st.sampled_from(unbegun))), set(), event


def started(plan: Plan) -> set[int]:
    return {d.gang for d in plan.decisions if d.action in ("start", "keep")}


def is_elastic(gang: Gang) -> bool:
    return max(gang.minimum, sum(role.minimum for role in gang.roles)) < sum(role.replicas for role in gang.roles)


def has_moved(gang: Gang, plan: Plan, j: int) -> bool:
    """Whether it starts with a pod at none of its former places. Elastic gangs may, where they grow further."""
    allowed = Counter({(p.role, p.node): p.pods for p in gang.former})
    is_beyond = any(p.pods > allowed[p.role, p.node] for p in plan.decisions[j].placements)
    return plan.decisions[j].action == "start" and bool(gang.former) and not is_elastic(gang) and is_beyond


def loss(world: Problem, plan: Plan) -> int:
    return sum(max(1, world.gangs[d.gang].eviction.loss) * p.pods for d in plan.decisions for p in d.evicted_pods)


def test_gangs_that_nothing_concerns_stay_and_no_start_is_lost() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=60)
    @given(second_looks())
    def hunt(look: tuple[Problem, set[int], str]) -> None:
        world, concerned, event = look
        plain_world = replace(world, gangs=tuple(replace(gang, former=()) for gang in world.gangs))
        plan, plain = solve_without_repairs(world), solve_without_repairs(plain_world)
        assert verify(world, plan) == []
        assert started(plain) <= started(plan)
        assert loss(world, plan) <= loss(world, plain) or started(plain) < started(plan)
        assert solve_without_repairs(world).decisions == plan.decisions
        goals = [goal for batch in plan.batches for goal in batch.objectives if goal.name == "moves"]
        unconcerned = [j for j in started(plan) - concerned if has_moved(world.gangs[j], plan, j)]
        seen[event] += bool(goals)
        seen["somebody moves"] += any(goal.value for goal in goals)
        seen["nobody moves"] += bool(goals) and not any(goal.value for goal in goals)
        seen["proven"] += bool(goals) and all(goal.verdict == "proven" for goal in goals)
        seen["others move"] += bool(unconcerned)
        if unconcerned:
            assert concerned or not goals or loss(world, plan), "nothing was to be moved for"

    hunt()
    assert seen["others move"] <= 3, seen
    assert rare_events(seen, nothing=4, a_node_is_lost=2, a_gang_has_begun=2, nobody_moves=8, proven=8) == {}
