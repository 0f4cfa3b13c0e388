"""Lending kept domains: it changes nothing for anybody but those who borrow, and what was lent is there again when its owner asks for it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import solve
from solver.closing import kept_nodes
from solver.plan import Plan
from solver.problem import Gang, Placement, Problem, Role
from solver.verify import verify
from tests.property.brute import is_kept
from tests.property.strategies import problems


@st.composite
def keeping(draw: st.DrawFn) -> Problem:
    """The usual small worlds without limits of queues, in which one or two queues keep domains and most gangs may be evicted."""
    world = draw(problems(running="whole gangs", elastic=False).filter(lambda world: bool(world.hypernodes) and len(world.queues) > 1))
    nothing = (None,) * len(world.resources)
    keepers = draw(st.lists(st.sampled_from(range(len(world.queues))), min_size=1, max_size=2, unique=True))
    lowest = [h for h in range(len(world.hypernodes)) if all(node.parent != h for node in world.hypernodes)]
    domains = draw(st.permutations(lowest))
    chosen = {q: (domains[i],) for i, q in enumerate(keepers) if i < len(domains)}
    queues = tuple(
        replace(queue, guarantee=nothing, capability=nothing, kept=chosen.get(q, ()), reclaimable=draw(st.integers(0, 5)) > 0)
        for q, queue in enumerate(world.queues)
    )
    gangs = tuple(replace(gang, evictable=draw(st.integers(0, 3)) > 0, loss=draw(st.sampled_from((0, 5)))) for gang in world.gangs)
    return replace(world, queues=queues, gangs=gangs, reclaim=draw(st.integers(0, 5)) > 0)


def unlent(world: Problem) -> Problem:
    """The same in which nobody who waits may borrow; who runs may still be evicted."""
    return replace(world, gangs=tuple(gang if is_kept(gang) else replace(gang, evictable=False) for gang in world.gangs))


@settings(max_examples=200)
@given(keeping())
def test_lending_changes_nothing_for_those_who_do_not_borrow(world: Problem) -> None:
    plan, without = solve(world), solve(unlent(world))
    assert verify(world, plan) == []
    for mine, other in zip(plan.decisions, without.decisions, strict=True):
        if other.action != "wait":
            assert (mine.action, mine.placements, mine.evicted) == (other.action, other.placements, other.evicted)
        else:
            assert mine.action in ("wait", "start")


def lent_pods(world: Problem, plan: Plan) -> list[tuple[int, int, Placement]]:
    """(keeper, borrower, its pods on one node of a domain that is kept for others)."""
    found = []
    for q, nodes in kept_nodes(world).items():
        for decision in plan.decisions:
            if decision.action == "start" and q not in _upward(world, world.gangs[decision.gang].queue):
                found += [(q, decision.gang, place) for place in decision.placements if place.node in nodes]
    return found


def _upward(world: Problem, q: int | None) -> list[int]:
    return [] if q is None else [q, *_upward(world, world.queues[q].parent)]


@settings(max_examples=200)
@given(keeping())
def test_what_was_lent_is_back_in_the_plan_in_which_its_owner_asks_for_it(world: Problem) -> None:
    plan = solve(world)
    for q, g, place in lent_pods(world, plan):
        role = world.gangs[g].roles[place.role]
        asks = Role("r", place.pods, place.pods, role.request, frozenset({world.nodes[place.node].kind}))
        owner = Gang("owner", q, -9, 99, place.pods, (asks,))
        running = tuple(
            replace(gang, running=d.placements) for gang, d in zip(world.gangs, plan.decisions, strict=True) if d.action in ("start", "keep")
        )
        after = replace(world, gangs=(*running, owner))
        found = solve(after)
        assert verify(after, found) == []
        assert found.decisions[-1].action == "start"
