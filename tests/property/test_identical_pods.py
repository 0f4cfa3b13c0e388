"""The model of pieces against trying everything, in clusters where all pods ask for a whole node."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver import Options
from solver.options import Budget
from solver.placement import identical_pods
from solver.plan import Plan
from solver.problem import Gang, HyperNode, Node, Problem, Queue, Role, Topology
from solver.semantics.gang_classes import waiting_class
from solver.semantics.topology import TopologyTree
from solver.verify import verify
from tests.builders.models import sets_of
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.plans import with_budget

WORKER = ((1,), frozenset({0}))


@st.composite
def trees(draw: st.DrawFn) -> tuple[tuple[HyperNode, ...], tuple[int | None, ...]]:
    """Hypernodes of up to three tiers, some left out, and the leaf of every node; some nodes hang higher up, or
    outside."""
    height = draw(st.integers(1, 3))
    made: list[HyperNode] = []
    for tier in range(height, 0, -1):
        above = [h for h, x in enumerate(made) if x.tier > tier]
        parents = draw(
            st.lists(st.sampled_from(above) if above else st.none(), min_size=1, max_size=3 if tier > 1 else 4)
        )
        made += [HyperNode(f"t{tier}-{number}", tier, parent) for number, parent in enumerate(parents)]
    lowest = [h for h, x in enumerate(made) if x.tier == 1]
    spots = st.one_of(st.sampled_from(lowest), st.sampled_from(lowest), st.sampled_from([None, *range(len(made))]))
    return tuple(made), tuple(draw(st.lists(spots, min_size=2, max_size=9)))


@st.composite
def worlds(draw: st.DrawFn) -> Problem:
    tree, leaves = draw(trees())
    nodes = tuple(Node(f"n{n}", 0, leaf, (1,), (1,)) for n, leaf in enumerate(leaves))
    gangs: list[Gang] = []
    left = len(nodes)
    while left and len(gangs) < 4:
        pods = draw(st.integers(1, min(left, 5)))
        topology = draw(
            st.sampled_from([None, *(Topology(mode, tier) for mode in ("hard", "soft") for tier in (1, 2, 3))])
        )
        gangs.append(Gang(f"g{len(gangs)}", 0, 0, len(gangs), pods, (Role("worker", pods, pods, *WORKER),), topology))
        left -= pods
    return Problem(("node",), nodes, tree, (Queue("q", None, 1, 0, (None,), (None,), (None,), (0,)),), tuple(gangs))


def least_spread(world: Problem) -> int | None:
    """The least cost at which all gangs start, by trying every way; None where they cannot."""
    tree = TopologyTree(world)
    leaves = sorted({node.leaf for node in world.nodes}, key=lambda h: -1 if h is None else h)
    known: dict[tuple[int, tuple[int, ...]], int | None] = {}

    def best(j: int, free: tuple[int, ...]) -> int | None:
        if j == len(world.gangs):
            return 0
        if (j, free) not in known:
            found = []
            for pods in ways(world.gangs[j].minimum, free):
                touched = {leaf for leaf, number in zip(leaves, pods, strict=True) if number}
                rest = (
                    best(j + 1, tuple(a - b for a, b in zip(free, pods, strict=True)))
                    if allowed(tree, world.gangs[j], touched)
                    else None
                )
                if rest is not None:
                    found.append(rest + tree.tier_span(touched))
            known[j, free] = min(found, default=None)
        return known[j, free]

    return best(0, tuple(sum(node.leaf == leaf for node in world.nodes) for leaf in leaves))


def ways(pods: int, free: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All ways to share the pods out."""
    if not free:
        yield from [()] if not pods else []
        return
    for here in range(min(pods, free[0]) + 1):
        for rest in ways(pods - here, free[1:]):
            yield (here, *rest)


def allowed(tree: TopologyTree, gang: Gang, touched: set[int | None]) -> bool:
    if gang.topology is None or gang.topology.mode == "soft":
        return True
    homes = {tree.enclosing_domain(leaf, gang.topology.tier) for leaf in touched}
    return len(homes) == 1 and None not in homes


CLASSES_ONLY = Options(budget=Budget(placement_variables=0, neighbourhoods=0))
"""Neither one model of all gangs nor neighbourhoods of a few."""


def spread_of(made: Plan) -> tuple[float, float]:
    """(value, bound) of the gangs' spread."""
    return next((o.value, o.bound) for batch in made.batches for o in batch.objectives if o.name == "spread")


@settings(max_examples=30)
@given(worlds())
def test_its_bound_is_one_and_its_placements_are_valid_and_no_farther(world: Problem) -> None:
    least = least_spread(world)
    assume(least is not None)
    s, shapes = sets_of(world), {j: waiting_class(j, gang) for j, gang in enumerate(world.gangs)}
    assert least is not None
    for limit in (Budget().class_relaxed_variables, 0, 60):
        options = Options(budget=Budget(class_relaxed_variables=limit))
        assert identical_pods.joint_bounds(s, shapes, options).spread_bound <= least
    made = solve(world, CLASSES_ONLY)
    before = solve(world, with_budget(CLASSES_ONLY, class_domain_sets=0))
    assert verify(world, made) == []
    value, bound = spread_of(made)
    assert bound <= least <= value <= spread_of(before)[0]


@settings(max_examples=80)
@given(worlds())
def test_below_one_switch_it_finds_the_least(world: Problem) -> None:
    """With at most two domains right above the leaves every gang is in sight at once."""
    tree = TopologyTree(world)
    assume(len(tree.tiers) < 2 or len({tree.domains_by_tier(node.leaf)[1] for node in world.nodes}) <= 2)
    least = least_spread(world)
    assume(least is not None)
    made = solve(world, CLASSES_ONLY)
    assert spread_of(made)[0] == least
