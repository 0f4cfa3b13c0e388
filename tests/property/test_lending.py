"""Lending kept domains: it changes nothing for anybody but those who borrow, and what was lent is there again when its
owner asks for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.plan import Plan
from solver.problem import EvictionTerms, Gang, Node, Placement, Problem, Queue, Role, Topology
from solver.semantics.exclusions import dedicated_nodes
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import with_fields
from tests.builders.strategies import HYPERNODE_TREES, problems
from tests.property.brute import meets_minima_now
from tests.property.plan_events import rare_events


@st.composite
def keeping(draw: st.DrawFn) -> Problem:
    """The usual small worlds without limits of queues, in which one or two queues keep domains and most gangs may be
    evicted."""
    world = draw(
        problems(running="whole gangs", elastic=False).filter(
            lambda world: bool(world.hypernodes) and len(world.queues) > 1
        )
    )
    nothing = (None,) * len(world.resources)
    keepers = draw(st.lists(st.sampled_from(range(len(world.queues))), min_size=1, max_size=2, unique=True))
    lowest = [h for h in range(len(world.hypernodes)) if all(node.parent != h for node in world.hypernodes)]
    domains = draw(st.permutations(lowest))
    chosen = {q: (domains[i],) for i, q in enumerate(keepers) if i < len(domains)}
    queues = tuple(
        replace(
            queue,
            guarantee=nothing,
            capability=nothing,
            dedicated_domains=chosen.get(q, ()),
            reclaimable=draw(st.integers(0, 5)) > 0,
        )
        for q, queue in enumerate(world.queues)
    )
    gangs = tuple(
        with_fields(gang, evictable=draw(st.integers(0, 3)) > 0, loss=draw(st.sampled_from((0, 5))))
        for gang in world.gangs
    )
    return replace(world, queues=queues, gangs=gangs, reclaim_enabled=draw(st.integers(0, 5)) > 0)


@st.composite
def short(draw: st.DrawFn) -> Problem:
    """Two supernodes, the first kept for a queue that mostly asks for nothing; the gangs of others ask for more than
    the second one has."""
    nodes = tuple(Node(f"n{n}", 0, n % 2, (4, 4), (4, 4)) for n in range(draw(st.sampled_from((2, 3, 4)))))
    parents = draw(st.sampled_from(((None, None), (None, None, None), (None, 0, None))))
    nothing = (None, None)
    queues = tuple(
        Queue(f"q{q}", parent, 1, 0, nothing, nothing, nothing, (0, 0), dedicated_domains=() if q else (0,))
        for q, parent in enumerate(parents)
    )
    gangs = []
    for g in range(draw(st.sampled_from((3, 2, 4)))):
        pods, gpu = draw(st.sampled_from((1, 2))), draw(st.sampled_from((4, 2, 3)))
        home = draw(
            st.sampled_from(
                (*range(1, len(queues)), *range(1, len(queues)), draw(st.sampled_from((len(queues) - 1, 0))))
            )
        )
        topology = draw(st.sampled_from((None, None, Topology("hard", 1))))
        role = Role("r", pods, pods, (draw(st.integers(0, 1)), gpu), frozenset({0}))
        evictable, loss = draw(st.sampled_from((True, True, True, True, False))), draw(st.sampled_from((0, 5)))
        gangs.append(
            Gang(
                f"g{g}",
                home,
                draw(st.sampled_from((0, 0, 10))),
                g,
                pods,
                (role,),
                topology,
                eviction=EvictionTerms(evictable=evictable, loss=loss),
            )
        )
    return Problem(
        ("cpu", "gpu"),
        nodes,
        HYPERNODE_TREES[draw(st.sampled_from((1, 2)))],
        queues,
        tuple(gangs),
        reclaim_enabled=True,
    )


def unlent(world: Problem) -> Problem:
    """The same in which nobody who waits may borrow; who runs may still be evicted."""
    return replace(
        world,
        gangs=tuple(gang if meets_minima_now(gang) else with_fields(gang, evictable=False) for gang in world.gangs),
    )


@settings(max_examples=20)
@given(st.one_of(keeping(), short()))
def test_lending_changes_nothing_for_gangs_that_do_not_borrow(world: Problem) -> None:
    plan, without = solve(world), solve(unlent(world))
    assert verify(world, plan) == []
    for mine, other in zip(plan.decisions, without.decisions, strict=True):
        if other.action != "wait":
            assert (mine.action, mine.placements, mine.evicted_pods) == (
                other.action,
                other.placements,
                other.evicted_pods,
            )
        else:
            assert mine.action in ("wait", "start")


def lent_pods(world: Problem, plan: Plan) -> list[tuple[int, int, Placement]]:
    """(keeper, borrower, its pods on one node of a domain that is kept for others)."""
    found = []
    for q, nodes in dedicated_nodes(world).items():
        for decision in plan.decisions:
            if decision.action == "start" and q not in _upward(world, world.gangs[decision.gang].queue):
                found += [(q, decision.gang, place) for place in decision.placements if place.node in nodes]
    return found


def _upward(world: Problem, q: int | None) -> list[int]:
    return [] if q is None else [q, *_upward(world, world.queues[q].parent)]


def test_a_lent_domain_is_returned_in_the_plan_in_which_its_owner_asks_for_it() -> None:
    seen = Counter[str]()

    @settings(max_examples=35)
    @given(st.one_of(keeping(), short()))
    def back(world: Problem) -> None:
        plan = solve(world)
        lent = lent_pods(world, plan)
        seen["lends"] += bool(lent)
        for q, g, place in lent:
            after = claimed(world, plan, q, g, place)
            found = solve(after)
            assert verify(after, found) == []
            assert found.decisions[-1].action == "start"

    back()
    assert rare_events(seen, lends=10) == {}


def claimed(world: Problem, plan: Plan, q: int, g: int, place: Placement) -> Problem:
    """The world after the plan, in which a gang of queue q asks for what gang g has on one node."""
    role = world.gangs[g].roles[place.role]
    asks = Role("r", place.pods, place.pods, role.request, frozenset({world.nodes[place.node].node_class}))
    owner = Gang("owner", q, -9, 99, place.pods, (asks,))
    running = tuple(
        replace(gang, running=d.placements)
        for gang, d in zip(world.gangs, plan.decisions, strict=True)
        if d.action in ("start", "keep")
    )
    return replace(world, gangs=(*running, owner))
