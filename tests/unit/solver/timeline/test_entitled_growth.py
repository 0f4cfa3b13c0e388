"""Growth within a queue's entitlement comes before what other queues borrow; it evicts nobody and delays no promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.plan import Plan
from solver.problem import Policy, Problem
from solver.repairs import MoreNodes
from tests.builders.beside import beside
from tests.builders.plans import actions_by_gang, verified_plan
from tests.builders.problems import GangSpec, gang, nodes, problem, queue, role, running_pods
from tests.builders.stories import assert_story

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


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


def test_more_nodes_are_not_told_to_a_borrower_where_others_would_grow_onto_them() -> None:
    """With 7 GPUs the elastic gang has 5 pods: of one more node it would take its sixth first."""
    small, large = (verified_plan(world(elastic(), of_b("b0"), of_b("b1", 2), gpus=size)) for size in (7, 8))
    repairs = [any(isinstance(r, MoreNodes) for r in plan.decisions[2].repairs) for plan in (small, large)]
    assert [pods_of(plan) for plan in (small, large)] == [5, 6]
    assert repairs[0] is False


def test_borrowers_that_start_in_place_of_one_that_waits_leave_room_for_growth_too() -> None:
    """The largest borrower waits for what the gang of a grows; the two small ones that start then crowd out b's."""
    queues = (queue(name, deserved={"gpu": amount}) for name, amount in (("a", 8), ("b", 8), ("c", 0)))
    sizes = ("a", 3, 5), ("b", 4, 5)
    growing = (gang(f"of-{q}", role(n, minimum=least, gpu=1), queue=q, priority=9) for q, least, n in sizes)
    large = gang("large", role(1, gpu=9), queue="b")
    small = (gang(f"c{n}", role(1, gpu=amount), queue="c", priority=1) for n, amount in enumerate((4, 3)))
    made = problem(nodes(1, gpu=16), *queues, *growing, large, *small, policy=Policy(capacity=True))
    assert actions_by_gang(made) == {"of-a": "start", "of-b": "start", "large": "wait", "c0": "start", "c1": "wait"}
    assert [sum(p.pods for p in d.placements) for d in verified_plan(made).decisions[:2]] == [5, 5]


def evicting_world(*gangs: GangSpec, owner: GangSpec | None = None, gpus: int = 8) -> Problem:
    """A second node, of its own class, on which a guest of b runs, and a gang of c that evicts it there."""
    queues = (queue(name, deserved={"gpu": amount}) for name, amount in (("a", 6), ("b", 2), ("c", 4)))
    guest = gang(
        "guest", role(1, node_classes=(1,), gpu=4), queue="b", running=(running_pods(0, 1, 1),), loss=9, priority=-1
    )
    owner = owner or gang("owner", role(1, node_classes=(1,), gpu=4), queue="c")
    both = [*nodes(1, gpu=gpus), *nodes(1, node_class=1, gpu=4)]
    made = problem(both, *queues, *gangs, guest, owner, policy=Policy(capacity=True))
    return replace(made, reclaim_enabled=True)


OWNED = {"guest": "evict", "owner": "start"}


def test_growth_comes_before_borrowers_in_a_plan_that_evicts() -> None:
    made = evicting_world(elastic(), of_b("b0", 4))
    assert actions_by_gang(made) == {"elastic": "start", "b0": "wait", **OWNED}
    assert pods_of(verified_plan(made)) == 6
    made = evicting_world(elastic(runs=True), of_b("b0", 4), of_b("b1", 1))
    assert actions_by_gang(made) == {"elastic": "keep", "b0": "wait", "b1": "start", **OWNED}
    assert pods_of(verified_plan(made)) == 6
