"""Wishes of gangs to keep apart by topology against brute force: what they cost, and that nothing else gets worse."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from solver.options import Budget, Options
from solver.problem import Problem, SeparationWish
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.strategies import contended_problems
from tests.property.optimum import least_costs
from tests.property.plan_events import rare_events
from tests.property.test_exact import COSTS, objectives, started
from tests.property.test_node_groups import preferring_problems


@st.composite
def wishing_problems(draw: st.DrawFn) -> Problem:
    """Most gangs would rather keep away from some of the others, or from foreign pods, in hypernodes of one tier."""
    world = draw(contended_problems())
    tiers = sorted({hypernode.tier for hypernode in world.hypernodes})

    def wish(g: int) -> SeparationWish:
        tier = draw(st.sampled_from(tiers))
        others = [k for k in range(len(world.gangs)) if k != g]
        chosen = draw(st.one_of(st.just(others), st.lists(st.sampled_from(others))) if others else st.just([]))
        at_tier = [h for h, hypernode in enumerate(world.hypernodes) if hypernode.tier == tier]
        present = draw(st.sets(st.sampled_from(at_tier), max_size=1))
        return SeparationWish(tier, frozenset(chosen), frozenset(present), draw(st.sampled_from((1, 50, 100))))

    numbers = st.sampled_from((0, 1, 1, 2) if tiers else (0,))
    gangs = [
        replace(gang, separation_wishes=tuple(wish(g) for _ in range(draw(numbers))))
        for g, gang in enumerate(world.gangs)
    ]
    return replace(world, gangs=tuple(gangs))


def without_wishes(world: Problem) -> Problem:
    return replace(world, gangs=tuple(replace(gang, separation_wishes=()) for gang in world.gangs))


def test_wishes_come_right_after_the_spread_as_brute_force_finds() -> None:
    """And no gang starts, or is nearer, that would not be without them."""
    seen: Counter[str] = Counter()

    @settings(max_examples=110)
    @given(wishing_problems())
    def exact(world: Problem) -> None:
        made = solve_without_repairs(world)
        assert verify(world, made) == []
        reached = objectives(made)
        for name, least in zip(COSTS, least_costs(world)[started(made)], strict=True):
            assert name not in reached or (reached[name].value, reached[name].verdict) == (least, "proven")
        seen["wished"] += "separations" in reached
        seen["shared"] += "separations" in reached and reached["separations"].value > 0
        plain = objectives(solve_without_repairs(without_wishes(world)))
        seen["opened"] += any(
            reached[name].value > plain[name].value for name in ("supernodes", "nodes") if name in plain
        )
        later = COSTS[COSTS.index("separations") :]
        assert {name: goal.value for name, goal in plain.items() if name not in later} == {
            name: goal.value for name, goal in reached.items() if name not in later
        }

    exact()
    assert rare_events(seen, wished=30, shared=10, opened=3) == {}


@settings(max_examples=60)
@given(st.one_of(wishing_problems(), preferring_problems()))
def test_a_batch_that_is_too_large_for_one_model_claims_no_more_than_is_so(world: Problem) -> None:
    best = objectives(solve_without_repairs(world))
    made = solve_without_repairs(world, Options(budget=Budget(placement_variables=1)))
    assert verify(world, made) == []
    large = objectives(made)
    for name in (name for name in COSTS if name in best):
        assert large[name].bound <= best[name].value <= large[name].value
        if large[name].value > best[name].value:
            break
