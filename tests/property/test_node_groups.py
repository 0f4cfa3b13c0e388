"""Node groups on random worlds: as though the selectors of the gangs were narrower, and repairs that work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver import solve
from solver.facts import ClosedNodeGroups
from solver.plan import Plan
from solver.problem import Placement, Problem
from solver.repairs import OpenNodeGroups
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.strategies import contended_problems
from tests.property.brute import meets_minima_now
from tests.property.optimum import least_costs
from tests.property.plan_events import rare_events
from tests.property.test_exact import COSTS, objectives, started

GROUPS = ("", "a", "b")


@st.composite
def grouped_problems(draw: st.DrawFn) -> Problem:
    world = draw(contended_problems())
    group, closed = st.sampled_from(range(len(GROUPS))), st.sampled_from(((1,), (0, 1), (1, 2), (0, 2), ()))
    return replace(
        world,
        nodes=tuple(replace(node, node_group=draw(group)) for node in world.nodes),
        queues=tuple(replace(queue, closed_node_groups=draw(closed)) for queue in world.queues),
        node_groups=GROUPS,
    )


def narrowed(world: Problem) -> Problem:
    """The same without groups: node class and group in one number, and roles that cannot use the closed ones."""
    gangs = []
    for gang in world.gangs:
        open_groups = set(range(len(GROUPS))) - set(world.queues[gang.queue].closed_node_groups)
        roles = []
        for role in gang.roles:
            classes = frozenset(3 * node_class + group for node_class in role.node_classes for group in open_groups)
            roles.append(replace(role, node_classes=classes))
        gangs.append(replace(gang, roles=tuple(roles)))
    nodes = tuple(replace(n, node_class=3 * n.node_class + n.node_group, node_group=0) for n in world.nodes)
    queues = tuple(replace(queue, closed_node_groups=()) for queue in world.queues)
    return replace(world, nodes=nodes, queues=queues, gangs=tuple(gangs), node_groups=())


def test_closed_node_groups_are_narrower_selectors_and_their_repairs_work() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=40)
    @given(grouped_problems())
    def hunt(world: Problem) -> None:
        plan = solve(world)
        assert verify(world, plan) == []
        assert _values(plan) == _values(solve(narrowed(world)))
        placed = {d.gang: d.placements for d in plan.decisions}
        for decision in plan.decisions:
            seen.update(fact.code for fact in decision.facts if isinstance(fact, ClosedNodeGroups))
            for repair in decision.repairs:
                if isinstance(repair, OpenNodeGroups) and not repair.also:
                    seen[repair.code] += 1
                    assert solve(_repaired(world, placed, decision.gang, repair)).decisions[decision.gang].action in (
                        "start",
                        "keep",
                    )

    hunt()
    assert rare_events(seen, GW123=25, GR123=20) == {}


def _values(plan: Plan) -> list[tuple[str, float]]:
    """Ties may fall otherwise, since node classes have other numbers."""
    return [(objective.name, objective.value) for batch in plan.batches for objective in batch.objectives]


def _repaired(world: Problem, placed: dict[int, tuple[Placement, ...]], j: int, repair: OpenNodeGroups) -> Problem:
    """The plan runs, the groups are open to the queue, and gang j is first of those that wait."""
    gangs = [replace(gang, running=placed[g]) for g, gang in enumerate(world.gangs)]
    gangs = [gang if g == j or meets_minima_now(gang) else replace(gang, priority=-9) for g, gang in enumerate(gangs)]
    gangs[j] = replace(gangs[j], priority=10**6)
    queue = world.queues[repair.queue]
    closed = {*queue.closed_node_groups} - {*repair.node_groups}
    closed |= {0} - {*repair.node_groups}
    queues = tuple(
        replace(other, closed_node_groups=tuple(sorted(closed))) if q == repair.queue else other
        for q, other in enumerate(world.queues)
    )
    return replace(world, gangs=tuple(gangs), queues=queues)


@st.composite
def preferring_problems(draw: st.DrawFn) -> Problem:
    """Every node group is open to every queue, and most queues prefer some."""
    world = draw(contended_problems())
    group, ranks = (
        st.sampled_from(range(len(GROUPS))),
        st.sampled_from(((0, 1, 2), (2, 0, 1), (1, 1, 0), (0, 1, 0), ())),
    )
    return replace(
        world,
        nodes=tuple(replace(node, node_group=draw(group)) for node in world.nodes),
        queues=tuple(replace(queue, node_group_ranks=draw(ranks)) for queue in world.queues),
        node_groups=GROUPS,
    )


def test_preferred_groups_are_the_last_goal_of_placement_as_brute_force_finds() -> None:
    """And no plan is worth less in any other goal than without them."""
    seen: Counter[str] = Counter()

    @settings(max_examples=60)
    @given(preferring_problems())
    def exact(world: Problem) -> None:
        made = solve_without_repairs(world)
        assert verify(world, made) == []
        reached = objectives(made)
        for name, least in zip(COSTS, least_costs(world)[started(made)], strict=True):
            assert name not in reached or (reached[name].value, reached[name].verdict) == (least, "proven")
        seen["node groups"] += "node groups" in reached
        seen["unwanted"] += "node groups" in reached and reached["node groups"].value > 0
        indifferent = replace(world, queues=tuple(replace(queue, node_group_ranks=()) for queue in world.queues))
        others = {name: goal.value for name, goal in reached.items() if name != "node groups"}
        assert others == {name: goal.value for name, goal in objectives(solve_without_repairs(indifferent)).items()}

    exact()
    assert rare_events(seen, node_groups=30, unwanted=10) == {}
