"""Growth within a queue's entitlement comes before what other queues borrow, counted anew from plans in worlds where it
does not matter on which node a pod lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.plan import Plan
from solver.problem import Gang, Policy, Problem
from solver.semantics.entitlements import entitled_amounts
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import gang, nodes, problem, queue, role, running_pods
from tests.property.plan_events import rare_events

SIZE = 12
POLICIES = (*(Policy(capacity=True),) * 3, Policy(), Policy(drf=True))


@st.composite
def elastic_worlds(draw: st.DrawFn) -> Problem:
    """Rigid and elastic gangs of two or three queues on one node; some run with their minimum."""
    number = draw(st.integers(2, 3))
    queues = [
        queue(f"q{q}", weight=draw(st.integers(1, 2)), priority=draw(st.sampled_from((0, 0, 1))), deserved={"gpu": d})
        for q, d in enumerate(draw(st.sampled_from(((6, 6), (8, 2), (4, 2), (6, 2, 2), (4, 4, 4))))[:number])
    ]
    gangs = []
    for g in range(draw(st.integers(3, 6))):
        home, size = draw(st.integers(0, len(queues) - 1)), draw(st.sampled_from((1, 1, 2, 3, 5)))
        most = draw(st.integers(2, 6)) if draw(st.booleans()) else 1
        runs = most > 1 and draw(st.booleans())
        gangs.append(
            gang(
                f"g{g}",
                role(most, minimum=1, gpu=size),
                queue=f"q{home}",
                priority=draw(st.sampled_from((0, 0, 10))),
                running=(running_pods(0, 0, 1),) if runs and g < 2 else (),
            )
        )
    made = problem(nodes(1, gpu=SIZE), *queues, *gangs, policy=draw(st.sampled_from(POLICIES)))
    return replace(made, reclaim_enabled=draw(st.booleans()))


def pods_of(made: Plan) -> dict[int, int]:
    return {d.gang: sum(place.pods for place in d.placements) for d in made.decisions if d.action != "wait"}


def size_of(spec: Gang) -> int:
    return spec.roles[0].request[0]


def entitled_devices(world: Problem) -> list[int]:
    """Queue -> the devices that it is entitled to."""
    return [SIZE if amounts[0] is None else amounts[0] for amounts in entitled_amounts(world)]


def served_later(world: Problem, q: int, other: int) -> bool:
    """Whether what the other queue borrows is served after what this one is entitled to."""
    is_compared = world.policy.capacity and not world.reclaim_enabled
    return not is_compared or world.queues[other].priority <= world.queues[q].priority


def lent_units(world: Problem, made: Plan) -> dict[int, int]:
    """Queue -> what it would give back: its gangs that start beyond its entitlement, the last ones of the queue, and
    the last unit of growth that takes it beyond."""
    pods, entitled = pods_of(made), entitled_devices(world)
    starts = {d.gang for d in made.decisions if d.action == "start"}
    least, held, last, found = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    for g in sorted(pods, key=lambda g: (g in starts, -world.gangs[g].priority, -size_of(world.gangs[g]), g)):
        q, size = world.gangs[g].queue, size_of(world.gangs[g])
        if g in starts and least[q] + size > entitled[q]:
            found[q] += size
        else:
            least[q] += size
        held[q] += pods[g] * size
        last[q] = max(last[q], size if pods[g] > 1 else 0)
    for q, amount in held.items():
        found[q] += last[q] if amount > entitled[q] else 0
    return found


def wronged(world: Problem, made: Plan) -> Iterator[int]:
    """Gangs that could have one pod more within their queue's entitlement, but for what another queue borrows; not
    those that would wait if they needed all such pods, since others of their queue take the room then."""
    pods, entitled, lent = pods_of(made), entitled_devices(world), lent_units(world, made)
    held = Counter[int]()
    for g, number in pods.items():
        held[world.gangs[g].queue] += number * size_of(world.gangs[g])
    for g, number in pods.items():
        q, unit = world.gangs[g].queue, size_of(world.gangs[g])
        room = sum(amount for other, amount in lent.items() if other != q and served_later(world, q, other))
        more = min(
            world.gangs[g].roles[0].replicas - number,
            (entitled[q] - held[q]) // unit,
            (SIZE - held.total() + room) // unit,
        )
        if more > 0 and g in pods_of(solve(with_minimum(world, g, number + more))):
            yield g


def with_minimum(world: Problem, g: int, pods: int) -> Problem:
    larger = replace(world.gangs[g], roles=(replace(world.gangs[g].roles[0], minimum=pods),))
    return replace(world, gangs=(*world.gangs[:g], larger, *world.gangs[g + 1 :]))


def test_no_gang_borrows_the_room_in_which_an_entitled_one_would_grow() -> None:
    seen = Counter[str]()

    @settings(max_examples=150)
    @given(elastic_worlds())
    def grows(world: Problem) -> None:
        made = solve(world)
        assert verify(world, made) == []
        assert list(wronged(world, made)) == []
        pods = pods_of(made)
        seen["grows"] += any(number > 1 for number in pods.values())
        rigid = solve(replace(world, gangs=tuple(map(at_minimum, world.gangs))))
        seen["before a borrower"] += bool(pods_of(rigid).keys() - pods.keys())

    grows()
    assert rare_events(seen, **{"grows": 60, "before a borrower": 8}) == {}


def at_minimum(spec: Gang) -> Gang:
    return replace(spec, roles=(replace(spec.roles[0], replicas=1),))
