"""Growth within a queue's entitlement comes before what other queues borrow; it evicts nobody and delays no promise."""

from __future__ import annotations

from dataclasses import replace

from solver.facts import Borrowing
from solver.plan import Plan
from solver.problem import Policy, Problem
from solver.repairs import MoreNodes
from tests.builders.plans import actions_by_gang, verified_plan
from tests.builders.problems import GangSpec, gang, nodes, problem, queue, role, running_pods


def world(*gangs: GangSpec, gpus: int = 8) -> Problem:
    """One node; queue a deserves 6 GPUs and b 2."""
    queues = queue("a", deserved={"gpu": 6}), queue("b", deserved={"gpu": 2})
    return problem(nodes(1, gpu=gpus), *queues, *gangs, policy=Policy(capacity=True))


def elastic(most: int = 6, *, runs: bool = False) -> GangSpec:
    """A gang of queue a that needs one pod."""
    return gang("elastic", role(most, minimum=1, gpu=1), queue="a", running=(running_pods(0, 0, 1),) if runs else ())


def of_b(name: str, gpu: int = 2) -> GangSpec:
    return gang(name, role(1, gpu=gpu), queue="b")


def pods_of(plan: Plan) -> int:
    """Pods of the first gang."""
    return sum(place.pods for place in plan.decisions[0].placements)


def test_a_gang_that_starts_has_its_growth_before_borrowers() -> None:
    made = world(elastic(), of_b("b0"), of_b("b1"))
    assert actions_by_gang(made) == {"elastic": "start", "b0": "start", "b1": "wait"}
    assert pods_of(verified_plan(made)) == 6


def test_a_gang_that_runs_has_its_growth_before_borrowers_and_they_are_told_so() -> None:
    made = world(elastic(runs=True), of_b("b0", 3))
    plan = verified_plan(made)
    assert actions_by_gang(made) == {"elastic": "keep", "b0": "wait"}
    assert pods_of(plan) == 6
    (fact,) = plan.decisions[1].facts
    assert isinstance(fact, Borrowing)
    assert fact.gangs == (0,)


def test_growth_beyond_the_entitlement_comes_after_borrowers() -> None:
    made = world(elastic(8), of_b("b0"), of_b("b1", 1), gpus=10)
    assert actions_by_gang(made) == {"elastic": "start", "b0": "start", "b1": "start"}
    assert pods_of(verified_plan(made)) == 7


def test_minima_of_the_own_queue_come_before_growth() -> None:
    own = gang("own", role(1, gpu=7), queue="a")
    assert actions_by_gang(world(elastic(), own)) == {"elastic": "start", "own": "start"}


def test_a_start_that_was_told_to_a_borrower_comes_before_growth() -> None:
    made = world(elastic(), of_b("told", 6))
    assert actions_by_gang(made) == {"elastic": "start", "told": "wait"}
    told = replace(made.gangs[1], overdue=True, promised=True)
    assert actions_by_gang(replace(made, gangs=(made.gangs[0], told))) == {"elastic": "start", "told": "start"}


def test_with_priorities_first_growth_comes_last() -> None:
    made = world(elastic(), of_b("b0"), of_b("b1"))
    made = replace(made, policy=replace(made.policy, order="priorities-first"))
    assert actions_by_gang(made) == {"elastic": "start", "b0": "start", "b1": "start"}


def test_more_nodes_are_not_told_to_a_borrower_where_others_would_grow_onto_them() -> None:
    """With 7 GPUs the elastic gang has 5 pods: of one more node it would take its sixth first."""
    small, large = (verified_plan(world(elastic(), of_b("b0"), of_b("b1", 2), gpus=size)) for size in (7, 8))
    repairs = [any(isinstance(r, MoreNodes) for r in plan.decisions[2].repairs) for plan in (small, large)]
    assert [pods_of(plan) for plan in (small, large)] == [5, 6]
    assert repairs[0] is False


def test_growth_in_a_resource_that_the_queue_does_not_speak_of_comes_last() -> None:
    """Found on the real Volcano (seed 915000): a deserves GPUs, and its gang took the CPUs of a borrower."""
    queues = queue("a", deserved={"gpu": 2}), queue("b", deserved={"gpu": 1})
    elastic_one = gang("elastic", role(2, minimum=1, cpu=3), queue="a")
    other = gang("other", role(1, gpu=2, cpu=2), queue="b")
    made = problem(nodes(1, gpu=4, cpu=6), *queues, elastic_one, other, policy=Policy(capacity=True))
    assert actions_by_gang(made) == {"elastic": "start", "other": "start"}
