"""The verifier against valid plans (all pass) and mutants of them (none passes). Each run tries all
examples: a sample has not every mutant."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from solver.problem import Problem
from solver.validation.values import validate
from solver.verify import RULES, verify
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.strategies import problems
from tests.property.mutants import MUTATORS, PodsByGang, greedy_pods, plan_of_pods
from tests.property.mutants.parts import Mutators

ENOUGH = 40
"""Mutants of one sort; then the time is better spent on rarer ones."""


@settings(max_examples=75)
@given(problems(running="anything"))
def test_what_brute_force_calls_valid_passes(world: Problem) -> None:
    validate(world)
    assert verify(world, plan_of_pods(world, greedy_pods(world))) == []


def test_every_rule_has_a_mutator() -> None:
    assert set(MUTATORS.values()) == {rule.__name__ for rule in RULES}


def test_a_thousand_mutants_of_greedy_plans_are_caught_each_by_its_rule() -> None:
    caught: Counter[str] = Counter()

    @settings(max_examples=800)
    @given(st.one_of(problems(), problems(running="whole gangs")), st.randoms(use_true_random=True))
    def hunt(world: Problem, random: Random) -> None:
        rare = {mutate: rule for mutate, rule in MUTATORS.items() if caught[mutate.__name__] < ENOUGH}
        caught.update(hunted(world, greedy_pods(world), random, rare))

    hunt()
    assert sum(caught.values()) >= 1000
    assert {name for name, times in caught.items() if times >= 5} == {mutate.__name__ for mutate in MUTATORS}


@settings(max_examples=35)
@given(problems(running="whole gangs"), st.randoms(use_true_random=True))
def test_mutants_of_the_solvers_plans_are_caught_each_by_its_rule(world: Problem, random: Random) -> None:
    placed: PodsByGang = {
        decision.gang: Counter({(place.role, place.node): place.pods for place in decision.placements})
        for decision in solve(world).decisions
        if decision.action != "wait"
    }
    assert verify(world, plan_of_pods(world, placed)) == []
    hunted(world, placed, random)


def hunted(world: Problem, placed: PodsByGang, random: Random, mutators: Mutators = MUTATORS) -> Counter[str]:
    caught: Counter[str] = Counter()
    for mutate, rule in mutators.items():
        for problem, plan in mutate(world, placed, random):
            validate(problem)
            assert rule in {violation.rule for violation in verify(problem, plan)}, mutate.__name__
            caught[mutate.__name__] += 1
    return caught
