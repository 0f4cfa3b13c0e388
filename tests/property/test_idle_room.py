"""No gang waits next to room for its minimum: elastic and rigid gangs of several queues, in both orders, against every
placement tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.facts import Undecided
from solver.plan import Plan
from solver.problem import Policy, Problem
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import gang, nodes, problem, queue, role
from tests.property.plan_events import rare_events

POLICIES = (Policy(), Policy(drf=True), Policy(capacity=True), Policy(capacity=True))
ORDERS = ("queues-first", "queues-first", "queues-first", "priorities-first")


@st.composite
def crowded_worlds(draw: st.DrawFn) -> Problem:
    """Gangs of one role on one or two nodes of 6 to 8 GPUs; what the queues ask for is more than there is."""
    deserved = draw(st.lists(st.sampled_from((0, 1, 3, 4, 6)), min_size=2, max_size=3))
    queues = [
        queue(f"q{q}", weight=draw(st.integers(1, 3)), priority=draw(st.sampled_from((0, 0, 1))), deserved={"gpu": d})
        for q, d in enumerate(deserved)
    ]
    gangs = []
    for g in range(draw(st.integers(3, 6))):
        least = draw(st.sampled_from((1, 1, 2, 3)))
        most = least + draw(st.sampled_from((0, 1, 2, 4)))
        spec = role(most, minimum=least, gpu=draw(st.sampled_from((1, 1, 2, 3))))
        home, priority = draw(st.integers(0, len(queues) - 1)), draw(st.sampled_from((0, 0, 10)))
        gangs.append(gang(f"g{g}", spec, queue=f"q{home}", priority=priority))
    policy = replace(draw(st.sampled_from(POLICIES)), order=draw(st.sampled_from(ORDERS)))
    machines = nodes(draw(st.integers(1, 2)), gpu=draw(st.integers(6, 8)))
    made = problem(machines, *queues, *gangs, policy=policy)
    return replace(made, reclaim_enabled=draw(st.booleans()))


def free_devices(world: Problem, made: Plan) -> list[int]:
    free = [node.free[0] for node in world.nodes]
    for decision in made.decisions:
        for place in decision.placements:
            free[place.node] -= place.pods * world.gangs[decision.gang].roles[place.role].request[0]
    return free


def waiting_beside_room(world: Problem, made: Plan) -> list[int]:
    """Gangs that wait although what is free holds their minimum; no queue has a limit here."""
    free = free_devices(world, made)
    found = []
    for decision in made.decisions:
        (spec,) = world.gangs[decision.gang].roles
        if decision.action == "wait" and sum(left // spec.request[0] for left in free) >= spec.minimum:
            found.append(decision.gang)
    return found


def test_no_gang_waits_beside_room_for_its_minimum() -> None:
    seen = Counter[str]()

    @settings(max_examples=150)
    @given(crowded_worlds())
    def all_that_fits_starts(world: Problem) -> None:
        made = solve(world)
        assert verify(world, made) == []
        assert waiting_beside_room(world, made) == []
        assert not any(Undecided() in decision.facts for decision in made.decisions)
        sizes = {d.gang: sum(place.pods for place in d.placements) for d in made.decisions if d.action == "start"}
        seen["waits"] += len(sizes) < len(world.gangs)
        seen["grows"] += any(pods > world.gangs[g].roles[0].minimum for g, pods in sizes.items())
        seen["a GPU stays free"] += len(sizes) < len(world.gangs) and sum(free_devices(world, made)) > 0

    all_that_fits_starts()
    assert rare_events(seen, **{"waits": 60, "grows": 40, "a GPU stays free": 15}) == {}
