"""Every objective against brute force, under every queue policy; and the same whatever nodes are counted together, in
any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from solver import Plan
from solver.plan import Objective
from solver.problem import Placement, Problem
from solver.verify import verify
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.strategies import contended_problems, problems, problems_under_policies
from tests.property.optimum import age_objective, best_sets, least_costs, objective_values
from tests.property.plan_events import plan_events, rare_events

COSTS = ("subgroups", "spread", "separations", "supernodes", "nodes", "node groups")


def started(made: Plan) -> frozenset[int]:
    return frozenset(decision.gang for decision in made.decisions if decision.action == "start")


def objectives(made: Plan) -> dict[str, Objective]:
    return {objective.name: objective for batch in made.batches for objective in batch.objectives}


def measured(made: Plan) -> dict[str, float]:
    """The objectives' values, to the digits that floats of another order of summation share."""
    return {name: round(objective.value, 6) for name, objective in objectives(made).items()}


def worlds() -> st.SearchStrategy[Problem]:
    """Three of four are contended, the others odd in every way."""
    contended = problems_under_policies(contended_problems())
    return st.one_of(contended, contended, contended, problems_under_policies(problems(running="whole gangs")))


def test_every_objective_is_what_brute_force_finds_and_proven() -> None:
    seen = Counter[str]()

    @settings(max_examples=110)
    @given(worlds())
    def exact(world: Problem) -> None:
        made = solve(world)
        seen.update(plan_events(world, made))
        assert verify(world, made) == []
        sets = least_costs(world)
        most, winners = best_sets(world, sets)
        assert started(made) in sets
        assert objective_values(world, started(made)) == most, winners
        reached = objectives(made)
        assert {objective.verdict for objective in reached.values()} <= {"proven"}
        if "oldest first" in reached:
            assert reached["oldest first"].value == age_objective(world, started(made))
        for name, least in zip(COSTS, sets[started(made)], strict=True):
            assert name not in reached or reached[name].value == least

    exact()
    assert rare_events(seen, starts=35, two_start=15, starts_and_waits=26, queues_contend=35, share=8) == {}
    assert rare_events(seen, subgroups=3, spread=35, supernodes=7, nodes=21) == {}


def single_kinds(world: Problem) -> Problem:
    """The same with every node a kind of its own, so that no two are ever counted together."""
    nodes = tuple(replace(node, node_class=n) for n, node in enumerate(world.nodes))

    def open_to(kinds: frozenset[int]) -> frozenset[int]:
        return frozenset(n for n, node in enumerate(world.nodes) if node.node_class in kinds)

    gangs = tuple(
        replace(gang, roles=tuple(replace(role, node_classes=open_to(role.node_classes)) for role in gang.roles))
        for gang in world.gangs
    )
    return replace(world, nodes=nodes, gangs=gangs)


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[Problem, Problem, list[int]]:
    """A world, the same with nodes and gangs in another order, and the gangs' new places. Ages tell the gangs apart as
    before."""
    world = draw(worlds())
    nodes, gangs = draw(st.permutations(range(len(world.nodes)))), draw(st.permutations(range(len(world.gangs))))
    moved = [replace(world.gangs[g], running=_moved(world.gangs[g].running, nodes)) for g in gangs]
    return (
        world,
        replace(world, nodes=tuple(world.nodes[n] for n in nodes), gangs=tuple(moved)),
        [gangs.index(g) for g in range(len(gangs))],
    )


def _moved(running: tuple[Placement, ...], nodes: list[int]) -> tuple[Placement, ...]:
    return tuple(sorted((replace(p, node=nodes.index(p.node)) for p in running), key=lambda p: (p.role, p.node)))


@settings(max_examples=30)
@given(shuffled())
def test_neither_the_order_of_nodes_and_gangs_nor_counting_nodes_alone_changes_an_objective(
    worlds: tuple[Problem, Problem, list[int]],
) -> None:
    world, other, place = worlds
    made, again, alone = solve(world), solve(other), solve(single_kinds(world))
    for starts, plan in (({place[g] for g in started(made)}, again), (started(made), alone)):
        if starts == started(plan):
            assert measured(made) == measured(plan)
        else:  # equally old, and no objective left to choose by
            assert same_until_age(made, plan)


def same_until_age(one: Plan, other: Plan) -> bool:
    """Two sets of gangs that are worth the same, their places apart."""
    first, second = (
        {name: value for name, value in measured(made).items() if name not in COSTS} for made in (one, other)
    )
    return first == second
