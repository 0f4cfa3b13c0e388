"""Plans of the solver, each checked by the verifier, and of the greedy, in words that a test can compare."""

from __future__ import annotations

from dataclasses import replace

from solver.admission.greedy_floor import greedy_floor
from solver.facts import Fact
from solver.greedy.best_fit import GreedyPlacer
from solver.options import Options
from solver.plan import Action, Decision, Plan
from solver.planner import solve
from solver.problem import Problem
from solver.state.state import State
from solver.verify import verify


def without_repairs(options: Options) -> Options:
    """The options of a plan without repairs, which take half of the time of a small world."""
    return with_budget(options, repairs=0, enough_repairs=0, repair_questions=0, repair_models=0)


def with_budget(options: Options, **limits: int) -> Options:
    """The same options with these limits of the budget."""
    return replace(options, budget=replace(options.budget, **limits))  # type: ignore[arg-type]


def solve_without_repairs(world: Problem, options: Options | None = None) -> Plan:
    """The plan with the facts about waiting gangs, but without repairs."""
    return solve(world, without_repairs(options or Options()))


def verified_plan(world: Problem, options: Options | None = None) -> Plan:
    plan = solve(world, options)
    assert verify(world, plan) == []
    return plan


def actions(plan: Plan) -> list[Action]:
    """What becomes of each gang."""
    return [decision.action for decision in plan.decisions]


def actions_by_gang(world: Problem) -> dict[str, str]:
    """Gang -> what becomes of it."""
    return {world.gangs[d.gang].name: d.action for d in verified_plan(world).decisions}


def evicted_pods_by_gang(world: Problem) -> dict[str, int]:
    """Victim -> pods that it loses."""
    return {
        world.gangs[d.gang].name: sum(p.pods for p in d.evicted_pods)
        for d in verified_plan(world).decisions
        if d.evicted_pods
    }


def greedy_gangs(world: Problem) -> set[int]:
    """The gangs that the greedy starts by itself: the floor of every plan."""
    return set(greedy_floor(GreedyPlacer(State.initial(world)), range(len(world.gangs))))


def decision_in(world: Problem, plan: Plan, name: str) -> Decision:
    """The decision on the gang of this name."""
    (j,) = [j for j, each in enumerate(world.gangs) if each.name == name]
    return plan.decisions[j]


def started_in(world: Problem, plan: Plan) -> set[str]:
    """The gangs that the plan starts."""
    return {world.gangs[d.gang].name for d in plan.decisions if d.action == "start"}


def fact_codes(world: Problem, plan: Plan, name: str) -> list[str]:
    """The codes of the gang's facts."""
    return [fact.code for fact in decision_in(world, plan, name).facts]


def proven_plan(world: Problem) -> Plan:
    """The verified plan, each of whose objectives is proven."""
    plan = verified_plan(world)
    assert {objective.verdict for batch in plan.batches for objective in batch.objectives} <= {"proven"}
    return plan


def started_per_queue(world: Problem) -> list[int]:
    """Queue -> its gangs that start."""
    starting = [world.gangs[d.gang].queue for d in proven_plan(world).decisions if d.action == "start"]
    return [starting.count(q) for q in range(len(world.queues))]


def starting_gangs(world: Problem, options: Options | None = None) -> set[str]:
    return started_in(world, verified_plan(world, options))


def facts_of(world: Problem, name: str) -> tuple[Fact, ...]:
    return decision_in(world, verified_plan(world), name).facts
