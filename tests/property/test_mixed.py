"""Worlds in which everything comes at once: against brute force, in another order, node by node, and in what a problem
may hold.

What must hold when lists stand in another order (nodes, hypernodes, queues, gangs of different ages, resources,
relations): what is decided of every gang that has no equal, and the value of every objective. Places may differ among
equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from hypothesis import event, given
from hypothesis import strategies as st

from solver import solve
from solver.plan import Plan
from solver.problem import Gang, InvalidProblemError, Node, Problem, Queue, Role
from solver.validation.values import validate
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.strategies import mixed_problems
from tests.property.brute_mixed import excluded_nodes, least_costs
from tests.property.optimum import best_sets, objective_values
from tests.property.test_exact import COSTS, measured, objectives, same_until_age, single_kinds, started

Item = TypeVar("Item")


@settings(max_examples=30)
@given(mixed_problems())
def test_everything_at_once_is_decided_as_brute_force_decides(world: Problem) -> None:
    """Of costs, each is asked after those before it, so a bound is one of the best places only as long as these are
    reached."""
    made = solve(world)
    assert verify(world, made) == []
    assert made.reservation is None or any(
        gang.times.duration is not None or gang.times.ends_in is not None for gang in world.gangs
    )
    if made.reservation is not None:
        return
    sets = least_costs(world)
    assert started(made) in sets
    assert objective_values(world, started(made)) == best_sets(world, sets)[0]
    event("something is closed" if any(excluded_nodes(world, g) for g in range(len(world.gangs))) else "all is open")
    reached = objectives(made)
    for name, least in zip(COSTS, sets[started(made)], strict=True):
        if name in reached:
            assert reached[name].bound <= least <= reached[name].value
            if reached[name].value != least:
                assert reached[name].verdict != "proven"
                break


# ---- another order


@settings(max_examples=30)
@given(mixed_problems(), st.randoms(use_true_random=False))
def test_neither_the_order_of_lists_nor_counting_nodes_alone_changes_an_objective(world: Problem, random: Any) -> None:
    (other, place), apart = permuted(world, random), single_kinds(world)
    made, again, alone = map(solve_without_repairs, (world, other, apart))
    assert verify(other, again) == []
    assert verify(apart, alone) == []
    assert agree(made, alone)
    assert (made.reservation is None) == (again.reservation is None)
    if {place[g] for g in started(made)} == started(again):
        values, others = measured(made), measured(again)
        assert {name: values[name] for name in values.keys() & others.keys()} == {
            name: others[name] for name in values.keys() & others.keys()
        }
    else:
        assert same_until_age(made, again)


def permuted(world: Problem, random: Any) -> tuple[Problem, list[int]]:
    """The world with its lists in another order, and the gangs' new places."""
    orders = {
        name: list(range(len(getattr(world, name))))
        for name in ("resources", "nodes", "hypernodes", "queues", "gangs", "pod_rules")
    }
    for order in orders.values():
        random.shuffle(order)
    new = {name: [order.index(old) for old in range(len(order))] for name, order in orders.items()}

    def vector(amounts: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(amounts[r] for r in orders["resources"])

    def node(n: Node) -> Node:
        cells = tuple(replace(cell, capacity=vector(cell.capacity), free=vector(cell.free)) for cell in n.slots)
        leaf = None if n.leaf is None else new["hypernodes"][n.leaf]
        return replace(n, leaf=leaf, capacity=vector(n.capacity), free=vector(n.free), slots=cells)

    def queue(q: Queue) -> Queue:
        return replace(
            q,
            guarantee=vector(q.guarantee),
            deserved=vector(q.deserved),
            capability=vector(q.capability),
            used=vector(q.used),
            parent=None if q.parent is None else new["queues"][q.parent],
            dedicated_domains=tuple(new["hypernodes"][h] for h in q.dedicated_domains),
        )

    def role(r: Role) -> Role:
        bears, matches = (
            tuple(sorted(new["pod_rules"][rho] for rho in bonds)) for bonds in (r.owned_rules, r.selecting_rules)
        )
        portions = tuple(replace(portion, share=vector(portion.share)) for portion in r.slot_requests)
        return replace(r, request=vector(r.request), owned_rules=bears, selecting_rules=matches, slot_requests=portions)

    def gang(g: Gang) -> Gang:
        running = sorted((replace(p, node=new["nodes"][p.node]) for p in g.running), key=lambda p: (p.role, p.node))
        return replace(g, queue=new["queues"][g.queue], roles=tuple(map(role, g.roles)), running=tuple(running))

    def ordered(name: str, items: Sequence[Item]) -> tuple[Item, ...]:
        return tuple(items[old] for old in orders[name])

    hypernodes = [
        replace(h, parent=None if h.parent is None else new["hypernodes"][h.parent]) for h in world.hypernodes
    ]
    relations = [replace(rho, domains=ordered("nodes", rho.domains)) for rho in world.pod_rules]
    other = replace(
        world,
        resources=vector(world.resources),
        nodes=ordered("nodes", [node(n) for n in world.nodes]),
        hypernodes=ordered("hypernodes", hypernodes),
        queues=ordered("queues", [queue(q) for q in world.queues]),
        gangs=ordered("gangs", [gang(g) for g in world.gangs]),
        pod_rules=ordered("pod_rules", relations),
        device_resources=tuple(sorted(new["resources"][r] for r in world.device_resources)),
    )
    return other, new["gangs"]


# ---- other ways to the same answer


def agree(one: Plan, other: Plan) -> bool:
    assert (one.reservation is None) == (other.reservation is None)
    return measured(one) == measured(other) if started(one) == started(other) else same_until_age(one, other)


# ---- what is no problem

ODD: tuple[Any, ...] = (
    float("nan"),
    float("inf"),
    -1,
    1.5,
    True,
    "x",
    None,
    (),
    (1,),
    ((1, 2),),
    (None,),
    [],
    {},
    frozenset({-1}),
    2**31,
    2**62,
    2**70,
    b"x",
)


def places(part: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths to everything in a problem."""
    inside: list[tuple[str | int, object]] = []
    if is_dataclass(part):
        inside = [(field.name, getattr(part, field.name)) for field in fields(part)]
    elif isinstance(part, tuple):
        inside = list(enumerate(part))
    return [path, *(deeper for step, each in inside for deeper in places(each, (*path, step)))]


def put(part: Any, path: tuple[str | int, ...], value: object) -> Any:
    if not path:
        return value
    step, *rest = path
    if isinstance(step, str):
        return replace(part, **{step: put(getattr(part, step), tuple(rest), value)})
    return (*part[:step], put(part[step], tuple(rest), value), *part[step + 1 :])


def refused(world: Problem) -> tuple[str | int, ...] | None:
    """The index that is named, of a problem that is none."""
    try:
        validate(world)
    except InvalidProblemError as error:
        return error.where
    return None


@settings(max_examples=80)
@given(mixed_problems(), st.sampled_from(ODD), st.integers(0, 10**6))
def test_whatever_stands_anywhere_in_a_problem_is_solved_or_refused_with_its_index(
    world: Problem, value: object, at: int
) -> None:
    paths = places(world)[1:]
    odd = put(world, paths[at % len(paths)], value)
    where = refused(odd)
    event("solved" if where is None else "refused")
    assert where != ()
    assert where is not None or verify(odd, solve(odd)) == []
