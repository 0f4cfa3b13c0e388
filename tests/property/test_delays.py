"""What is said to help a gang that only waits its turn, solved again: with the change made it starts next to what the
plan lets run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from solver import solve
from solver.facts import DedicatedDomains, Fact, Maintenance, StrictOrder
from solver.plan import Decision, Plan
from solver.problem import Gang, Node, Placement, Problem, Queue, Role
from solver.repairs import (
    EndOfGangs,
    EndOfMaintenance,
    FewerDedicatedDomains,
    HigherPriority,
    NoStrictOrder,
    OtherQueue,
    Repair,
    ShorterDuration,
    StartOfGang,
)
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.problems import with_fields
from tests.property.plan_events import rare_events
from tests.property.test_lending import short
from tests.property.test_time import TIMES, late, timed

DELAYS = {"GW106", "GW114", "GW115", "GW116"}


@st.composite
def windows(draw: st.DrawFn) -> Problem:
    """As `timed`; of nodes that close it is known until when, and some close once more."""
    world = draw(timed())
    return replace(
        world, nodes=tuple(replace(node, maintenance_windows=tuple(draw(_windows(node)))) for node in world.nodes)
    )


@st.composite
def _windows(draw: st.DrawFn, node: Node) -> list[tuple[int, int]]:
    if node.maintenance_in is None:
        return []
    first = node.maintenance_in, node.maintenance_in + draw(st.integers(1, 3))
    again = first[1] + draw(st.integers(1, 3))
    return [first, (again, again + 1)] if draw(st.booleans()) else [first]


@st.composite
def booked(draw: st.DrawFn) -> Problem:
    """A few machines, some of them busy; one large gang that may find no room, and small ones behind it."""
    closes = st.sampled_from((None, None, None, 2, 5))
    nodes = [
        Node(f"n{n}", 0, None, (9, 4), (9, 4), maintenance_in=draw(closes)) for n in range(draw(st.integers(2, 4)))
    ]
    queue = Queue(
        "q",
        None,
        1,
        0,
        (None, None),
        (None, None),
        (None, draw(st.sampled_from((None, 4 * len(nodes) - 2)))),
        (0, 0),
        strict_order=not draw(st.integers(0, 2)),
    )

    def gang(name: str, age: int, pods: int, gpu: int, **more: object) -> Gang:
        return with_fields(Gang(name, 0, 0, age, pods, (Role("r", pods, pods, (1, gpu), frozenset({0})),)), **more)

    gangs = [
        gang(
            f"runs{n}",
            n,
            1,
            draw(st.sampled_from((2, 3, 4))),
            running=(Placement(0, n, 1),),
            ends_in=draw(st.sampled_from(TIMES)),
        )
        for n in range(draw(st.integers(1, len(nodes))))
    ]
    gangs.append(
        gang(
            "large",
            5,
            draw(st.integers(2, len(nodes))),
            4,
            overdue=draw(st.booleans()),
            duration=draw(st.sampled_from(TIMES)),
        )
    )
    small = [(draw(st.integers(1, 2)), draw(st.sampled_from((None, 1, 3, 6)))) for _ in range(draw(st.integers(1, 2)))]
    gangs += [gang(f"small{n}", 6 + n, 1, gpu, duration=lasts) for n, (gpu, lasts) in enumerate(small)]
    said = tuple(replace(node, maintenance_windows=tuple(draw(_windows(node)))) for node in nodes)
    return Problem(("cpu", "gpu"), said, (), (queue,), tuple(gangs))


@st.composite
def closing(draw: st.DrawFn) -> Problem:
    """As `late`, with nodes of which most will close."""
    world = draw(late())
    nodes = [replace(node, maintenance_in=draw(st.sampled_from((2, 4, 2, None)))) for node in world.nodes]
    return replace(world, nodes=tuple(replace(node, maintenance_windows=tuple(draw(_windows(node)))) for node in nodes))


@st.composite
def keeping(draw: st.DrawFn) -> Problem:
    """Domains that are kept and not lent."""
    return replace(draw(short()), reclaim_enabled=False)


def frozen(gang: Gang, placements: tuple[Placement, ...]) -> Gang:
    """The gang with just these pods, which run; it may not have more and needs no fewer."""
    pods = [sum(p.pods for p in placements if p.role == t) for t in range(len(gang.roles))]
    roles = tuple(replace(role, minimum=n, replicas=n) for role, n in zip(gang.roles, pods, strict=True))
    ends = gang.times.ends_in if gang.running else gang.times.duration
    return with_fields(
        gang,
        roles=roles,
        minimum=sum(pods),
        subgroups=(),
        topology=None,
        running=placements,
        ends_in=ends,
        overdue=False,
    )


def later(node: Node, seconds: int) -> Node:
    left = tuple((max(0, since - seconds), to - seconds) for since, to in node.maintenance_windows if to > seconds)
    return replace(node, maintenance_windows=left, maintenance_in=left[0][0] if left else None)


def beside(
    world: Problem,
    plan: Plan,
    j: int,
    gone: set[int] | None = None,
    at: int = 0,
    first: dict[int, tuple[Placement, ...]] | None = None,
) -> Problem:
    """Gang j, the last one, with all that the plan lets run but those that are gone, and with `first` at their places,
    some time from now."""
    pods = {d.gang: (first or {}).get(d.gang, d.placements) for d in plan.decisions}
    left = pods.keys() - {j} - (gone or set())
    runs = [frozen(world.gangs[g], placed) for g, placed in pods.items() if placed and g in left]
    return replace(world, nodes=tuple(later(node, at) for node in world.nodes), gangs=(*runs, world.gangs[j]))


def unreserved(world: Problem, plan: Plan) -> Problem:
    """Nothing is to be had on the nodes that the plan holds for another."""
    held = {p.node for p in plan.reservation.placements} if plan.reservation is not None else set()
    return replace(
        world, nodes=tuple(replace(node, free=(0, 0)) if n in held else node for n, node in enumerate(world.nodes))
    )


def starts(world: Problem) -> bool:
    """Whether the last gang does."""
    return solve_without_repairs(world).decisions[-1].action == "start"


def with_last(world: Problem, **changes: object) -> Problem:
    return replace(world, gangs=(*world.gangs[:-1], with_fields(world.gangs[-1], **changes)))


def with_queue(world: Problem, q: int | None, **changes: object) -> Problem:
    return replace(
        world,
        queues=tuple(replace(queue, **changes) if i == q else queue for i, queue in enumerate(world.queues)),  # type: ignore[arg-type]
    )


def ends(world: Problem, g: int) -> int | None:
    return world.gangs[g].times.ends_in if world.gangs[g].running else world.gangs[g].times.duration


def helps(world: Problem, plan: Plan, decision: Decision, repair: Repair) -> bool:
    """Whether the gang starts with the change, solved again."""
    j, (code, *_) = decision.gang, (fact.code for fact in decision.facts)
    held, there = plan.reservation, beside(world, plan, decision.gang)
    match repair:
        case HigherPriority(amount=amount):
            raised = replace(world.gangs[j], priority=amount)
            again = replace(world, gangs=tuple(raised if g == j else gang for g, gang in enumerate(world.gangs)))
            return solve_without_repairs(again).decisions[j].action == "start"
        case NoStrictOrder(queue=q):
            return starts(with_queue(there, q, strict_order=False))
        case StartOfGang() if code == "GW114" and held is not None:
            when = beside(world, plan, j, set(held.awaited_gangs), held.starts_in or 0, {held.gang: held.placements})
            shut = tuple(replace(node, maintenance_in=0 if node.maintenance_windows else None) for node in when.nodes)
            return starts(when if held.starts_in is not None else replace(when, nodes=shut))
        case StartOfGang(gang=first):
            two = (replace(world.gangs[g], running=()) for g in (first, j))
            both = solve_without_repairs(replace(world, gangs=tuple(two)))
            return [d.action for d in both.decisions] == ["start", "start"]
        case FewerDedicatedDomains(queue=q, amount=amount):
            return starts(with_queue(there, q, dedicated_domains=world.queues[q].dedicated_domains[:-amount]))
        case OtherQueue(queue=q):
            return starts(with_last(there, queue=q))
        case ShorterDuration(seconds=seconds):
            quick = with_last(there, duration=seconds)
            if code == "GW114" and held is not None:  # the promise is kept at the same time
                quick = replace(quick, gangs=(*quick.gangs[:-1], world.gangs[held.gang], quick.gangs[-1]))
                assert solve_without_repairs(quick).reservation is not None
            return starts(quick)
        case EndOfMaintenance(seconds=seconds):
            gone = {g for g in range(len(world.gangs)) if (end := ends(world, g)) is not None and end <= seconds}
            return starts(beside(world, plan, j, gone, seconds))
        case EndOfGangs(gangs=gangs):
            return starts(beside(world, plan, j, set(gangs), repair.seconds or 0))
    return True


def delayed(
    world: Problem, solver: Callable[[Problem], Plan] = solve_without_repairs
) -> Iterator[tuple[Plan, Decision]]:
    plan = solver(world)
    for decision in plan.decisions:
        if decision.action == "wait" and not world.gangs[decision.gang].running:
            yield plan, decision


def without(there: Problem, fact: Fact) -> Problem | None:
    """`there`, where a gang is alone next to what runs, without what the fact says; None where it is no delay of
    queues, order or nodes."""
    loose = replace(there, queues=tuple(replace(queue, strict_order=False) for queue in there.queues))
    match fact:
        case DedicatedDomains(queue=q):
            return with_queue(loose, q, dedicated_domains=())
        case StrictOrder(queue=q):
            return with_queue(there, q, strict_order=False)
        case Maintenance():
            return replace(
                loose, nodes=tuple(replace(node, maintenance_in=None, maintenance_windows=()) for node in there.nodes)
            )
    return None


def test_a_gang_delayed_by_order_or_time_starts_exactly_without_its_fact() -> None:
    """Said alone, each of these is enough to keep a gang out; nothing else is in its way."""
    seen = Counter[str]()

    @settings(max_examples=125)
    @given(st.one_of(windows(), late(), closing(), keeping()))
    def turns(world: Problem) -> None:
        for plan, decision in delayed(world):
            started = {d.gang for d in plan.decisions if d.action == "start"}
            (fact, *more) = decision.facts
            free = without(beside(world, plan, decision.gang, started), fact)
            if free is not None and not more:
                seen[fact.code] += 1
                assert starts(free), (decision, fact)
                if fact.code != "GW115":  # where it stands alone nobody is before it
                    assert not starts(beside(world, plan, decision.gang)), (decision, fact)

    turns()
    assert rare_events(seen, GW106=10, GW115=7, GW116=11) == {}


@settings(max_examples=50)
@given(st.one_of(windows(), booked()))
def test_repairs_of_gangs_held_by_order_let_them_start(world: Problem) -> None:
    for plan, decision in delayed(world, solve):
        for repair in decision.repairs:
            if any(fact.code in DELAYS for fact in decision.facts) and not repair.also:
                event(f"{decision.facts[0].code} {repair.code}")
                assert helps(world, plan, decision, repair), (decision, repair)


@settings(max_examples=50)
@given(st.one_of(windows(), booked()))
def test_the_awaited_end_is_the_earliest_that_suffices(world: Problem) -> None:
    """GR109 with a time: at no earlier end of anybody would it start, even with all gone that have ended by then."""
    still = replace(
        world, nodes=tuple(replace(node, maintenance_in=None, maintenance_windows=()) for node in world.nodes)
    )
    for plan, decision in delayed(still, solve):
        for repair in decision.repairs:
            if isinstance(repair, EndOfGangs) and repair.seconds is not None and not repair.also:
                known = {
                    g: end for d in plan.decisions if d.placements and (end := ends(still, g := d.gang)) is not None
                }
                event("GR109 in time")
                assert repair.seconds == max(known[g] for g in repair.gangs)
                assert helps(still, plan, decision, repair), (decision, repair)
                for sooner in {end for end in known.values() if end < repair.seconds}:
                    gone = {g for g, end in known.items() if end <= sooner}
                    assert not starts(unreserved(beside(still, plan, decision.gang, gone), plan)), (decision, sooner)
