"""Queues first, against brute force: what queues are entitled to, then what they borrow; inside a queue by priority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.admission.greedy_floor import without_overtaking
from solver.models.sets import Sets
from solver.options import Budget, Options
from solver.plan import Plan
from solver.problem import Gang, Node, Policy, Problem, Queue, Role
from solver.semantics.placements import Placements
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.strategies import POLICIES, contended_problems, problems_under_policies
from tests.property.optimum import is_overtaken, least_costs, objective_values
from tests.property.plan_events import rare_events
from tests.property.test_exact import objectives, started


@st.composite
def odd_worlds(draw: st.DrawFn) -> Problem:
    """Contended worlds in every way, with several priorities."""
    world = draw(problems_under_policies(contended_problems()))
    gangs = tuple(replace(gang, priority=draw(st.sampled_from((0, 0, 10, 20)))) for gang in world.gangs)
    policy = replace(world.policy, order="queues-first")
    return replace(world, gangs=gangs, policy=policy, reclaim_enabled=draw(st.booleans()))


@st.composite
def quota_worlds(draw: st.DrawFn) -> Problem:
    """Gangs of one pod that differ in size, priority and queue; a node or two; queues that deserve much, little or
    nothing."""
    sizes = draw(st.sampled_from(((12,), (16,), (8, 8), (8, 6))))
    nodes = tuple(Node(f"n{n}", 0, None, (size,), (size,)) for n, size in enumerate(sizes))
    parents = draw(st.sampled_from(((None, None), (None, None, None), (None, 0, 0, None))))
    queues = tuple(draw(_quota_queue(q, parent)) for q, parent in enumerate(parents))
    homes = [q for q in range(len(parents)) if q not in parents]
    gangs = tuple(draw(_quota_gang(g, homes)) for g in range(draw(st.integers(4, 6))))
    policy = replace(draw(st.sampled_from(POLICIES)), order="queues-first")
    return Problem(("gpu",), nodes, (), queues, gangs, policy, reclaim_enabled=draw(st.booleans()))


@st.composite
def lending_worlds(draw: st.DrawFn) -> Problem:
    """Quota worlds in which nothing is deserved, so that shares decide alone: they count amounts, not precedence."""
    world = draw(quota_worlds())
    queues = tuple(replace(queue, deserved=(None,)) for queue in world.queues)
    return replace(world, queues=queues, policy=Policy(capacity=True))


@st.composite
def _quota_queue(draw: st.DrawFn, q: int, parent: int | None) -> Queue:
    deserved = (draw(st.sampled_from((None, 0, 2, 4, 8, 8))),)
    weight, priority = draw(st.integers(1, 2)), draw(st.sampled_from((0, 0, 0, 1)))
    return Queue(f"q{q}", parent, weight, priority, (None,), deserved, (None,), (draw(st.sampled_from((0, 0, 1))),))


@st.composite
def _quota_gang(draw: st.DrawFn, g: int, homes: Sequence[int]) -> Gang:
    role = Role("w", 1, 1, (draw(st.integers(2, 6)),), frozenset({0}))
    return Gang(f"g{g}", draw(st.sampled_from(homes)), draw(st.sampled_from((0, 10))), g, 1, (role,))


def has_grown(world: Problem, plan: Plan) -> bool:
    """Whether a gang has more than its minimum: within entitlements that comes before borrowers, and brute force knows
    minima alone (`test_evicting_growth` has the growth)."""
    placed = {decision.gang: sum(place.pods for place in decision.placements) for decision in plan.decisions}
    return any(pods > world.gangs[j].minimum for j, pods in placed.items())


def test_queues_come_first_as_brute_force_finds() -> None:
    seen = Counter[str]()

    @settings(max_examples=110)
    @given(st.one_of(odd_worlds(), quota_worlds(), quota_worlds()))
    def exact(world: Problem) -> None:
        made = solve(world)
        assert verify(world, made) == []
        sets = least_costs(world)
        values = {chosen: objective_values(world, chosen) for chosen in sets}
        mine, most = started(made), max(values.values())
        assert not is_overtaken(world, sets, mine)
        best_is_fair = any(not is_overtaken(world, sets, chosen) for chosen, value in values.items() if value == most)
        assert values[mine] == most or not best_is_fair or has_grown(world, made)
        reached = objectives(made)
        assert {objective.verdict for objective in reached.values()} <= {"proven"}
        seen["entitled"] += any(name.startswith("entitled") for name in reached)
        seen["waits"] += any(decision.action == "wait" for decision in made.decisions)
        plain = replace(world, policy=replace(world.policy, order="priorities-first"))
        seen["differs"] += started(solve(plain)) != mine
        seen["cut"] += most != values[mine]

    exact()
    assert rare_events(seen, entitled=24, waits=59, differs=3, cut=1) == {}


def test_no_gang_is_overtaken_in_a_model_above_joint_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the greedy asks what the model asks in a small one."""
    seen, large = Counter[str](), Options(budget=Budget(joint_variables=0))

    def counted(s: Sets, placements: Placements, gangs: Sequence[int], budget: Budget) -> Placements:
        found = without_overtaking(s, placements, gangs, budget)
        seen["mended"] += found is not placements
        return found

    monkeypatch.setattr("solver.placement.batch.without_overtaking", counted)

    @settings(max_examples=100)
    @given(lending_worlds())
    def fair(world: Problem) -> None:
        made = solve(world, large)
        assert verify(world, made) == []
        assert not is_overtaken(world, least_costs(world), started(made))
        seen["waits"] += any(decision.action == "wait" for decision in made.decisions)

    fair()
    assert rare_events(seen, waits=50, mended=2) == {}
