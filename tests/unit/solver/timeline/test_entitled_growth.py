"""Growth within a queue's entitlement comes before what other queues borrow; it evicts nobody and delays no promise."""

from __future__ import annotations

from dataclasses import replace

from solver.facts import Borrowing
from solver.plan import Plan
from solver.problem import Policy, Problem
from solver.repairs import MoreNodes
from tests.builders.plans import actions_by_gang, verified_plan
from tests.builders.problems import GangSpec, gang, nodes, problem, queue, role, running_pods, with_fields


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
    told = with_fields(made.gangs[1], overdue=True, promised=True)
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


def test_no_borrower_is_driven_out_that_would_evict_in_its_own_queue_instead() -> None:
    """Of queue b runs one of lower priority, which would go for the growth after all."""
    low = gang("low", role(1, gpu=2), queue="b", running=(running_pods(0, 0, 1),), loss=9, priority=-1)
    made = world(elastic(5), low, of_b("b0"), gpus=6)
    assert actions_by_gang(made) == {"elastic": "start", "low": "keep", "b0": "wait"}
    assert pods_of(verified_plan(made)) == 4
    made = replace(made, preempt_enabled=True)
    assert actions_by_gang(made) == {"elastic": "start", "low": "keep", "b0": "start"}
    assert pods_of(verified_plan(made)) == 2
    last = gang("last", role(1, gpu=2), queue="b", priority=-1)
    made = replace(world(elastic(5), low, of_b("b0"), last), preempt_enabled=True)
    assert actions_by_gang(made) == {"elastic": "start", "low": "keep", "b0": "start", "last": "wait"}
    assert pods_of(verified_plan(made)) == 4


def test_what_a_borrower_gets_by_an_eviction_is_no_room_for_growth() -> None:
    """b0 takes the place of one of lower priority in its queue: it would have stayed but for the growth."""
    low = gang("low", role(1, gpu=4), queue="b", running=(running_pods(0, 0, 1),), loss=9, priority=-1)
    made = replace(world(elastic(runs=True), low, of_b("b0", 4), gpus=6), preempt_enabled=True)
    assert actions_by_gang(made) == {"elastic": "keep", "low": "evict", "b0": "start"}
    assert pods_of(verified_plan(made)) == 2


def test_a_gang_that_shrinks_by_an_eviction_does_not_grow_elsewhere() -> None:
    """It loses a pod on the second node to a gang of its queue, and a borrower starts on the first."""
    shrinking = gang(
        "elastic",
        role(6, minimum=1, node_classes=(0, 1), gpu=1),
        queue="a",
        priority=-1,
        running=(running_pods(0, 1, 4),),
        loss=9,
    )
    urgent = gang("urgent", role(1, node_classes=(1,), gpu=1), queue="a")
    both = [*nodes(1, gpu=4), *nodes(1, node_class=1, gpu=4)]
    queues = queue("a", deserved={"gpu": 6}), queue("b", deserved={"gpu": 2})
    made = problem(both, *queues, shrinking, urgent, of_b("b0", 4), policy=Policy(capacity=True))
    made = replace(made, preempt_enabled=True)
    assert actions_by_gang(made) == {"elastic": "keep", "urgent": "start", "b0": "start"}
    assert pods_of(verified_plan(made)) == 3


def test_a_victim_stays_where_its_preemptor_fits_beside_the_growth() -> None:
    """The borrower b0 has its turn before the urgent one, which evicts; without b0 it finds room."""
    low = gang("low", role(1, gpu=2), queue="c", running=(running_pods(0, 0, 1),), loss=9, priority=-1)
    urgent = gang("urgent", role(1, gpu=2), queue="c")
    queues = (queue(name, deserved={"gpu": amount}) for name, amount in (("a", 3), ("b", 2), ("c", 2)))
    made = problem(nodes(1, gpu=8), *queues, elastic(3), low, of_b("b0", 4), urgent, policy=Policy(capacity=True))
    made = replace(made, preempt_enabled=True)
    assert actions_by_gang(made) == {"elastic": "start", "low": "keep", "b0": "wait", "urgent": "start"}
    assert pods_of(verified_plan(made)) == 3


def test_a_queue_that_gave_back_counts_without_what_goes() -> None:
    """The queue of the victim holds 4 of the 6 that it deserves: its next gang borrows nothing. The third node is there
    for the sum only."""
    queues = (queue(name, deserved={"gpu": amount}) for name, amount in (("a", 6), ("b", 6), ("c", 4)))
    guest = gang("guest", role(1, node_classes=(1,), gpu=4), queue="b", running=(running_pods(0, 1, 1),), loss=9)
    rest = gang("rest", role(1, gpu=4), queue="b", running=(running_pods(0, 0, 1),))
    owner = gang("owner", role(1, node_classes=(1,), gpu=4), queue="c")
    machines = [*nodes(1, gpu=8), *nodes(1, node_class=1, gpu=4), *nodes(1, node_class=2, gpu=4)]
    made = problem(machines, *queues, elastic(), guest, rest, owner, of_b("more"), policy=Policy(capacity=True))
    made = replace(made, reclaim_enabled=True)
    assert actions_by_gang(made) == {"elastic": "start", "rest": "keep", "more": "start", **OWNED}
    assert pods_of(verified_plan(made)) == 2


def test_growth_of_a_gang_that_runs_comes_before_a_reservation_of_another_queue() -> None:
    """The borrower is promised the end of the gang that leaves in 5 seconds, on the node that the growth takes too."""
    leaving = gang("leaving", role(1, gpu=2), queue="b", running=(running_pods(0, 0, 1),), ends_in=5)
    made = world(elastic(runs=True), leaving, of_b("b0"))
    assert actions_by_gang(made) == {"elastic": "keep", "leaving": "keep", "b0": "wait"}
    plan = verified_plan(made)
    assert pods_of(plan) == 6
    assert plan.reservation is not None
    assert plan.reservation.starts_in == 5


def test_a_borrower_that_waits_for_growth_is_promised_room_beside_what_evictions_start() -> None:
    leaving = gang("leaving", role(1, gpu=2), queue="a", running=(running_pods(0, 0, 1),), ends_in=5)
    anywhere = gang("b0", role(1, node_classes=(0, 1), gpu=4), queue="b")
    made = evicting_world(elastic(4), leaving, anywhere)
    assert actions_by_gang(made) == {"elastic": "start", "leaving": "keep", "b0": "wait", **OWNED}
    plan = verified_plan(made)
    assert pods_of(plan) == 4
    assert plan.reservation is not None
    assert plan.reservation.starts_in == 5


def test_growth_does_not_come_before_a_reservation_of_its_own_queue() -> None:
    """With it the borrower of b would never find the CPUs, and one of a higher priority in its own queue would be
    promised room on the node that grew."""
    leaving = gang("leaving", role(1, gpu=4), queue="b", running=(running_pods(0, 0, 1),), ends_in=5)
    grows = gang("elastic", role(4, minimum=1, gpu=1, cpu=1), queue="a", running=(running_pods(0, 0, 1),))
    first = gang("first", role(1, gpu=4, cpu=3), queue="b", priority=20)
    own = gang("own", role(1, gpu=6), queue="a", priority=10)
    queues = queue("a", deserved={"gpu": 6}), queue("b", deserved={"gpu": 2})
    made = problem(nodes(1, gpu=10, cpu=4), *queues, grows, leaving, first, own, policy=Policy(capacity=True))
    assert actions_by_gang(made) == {"elastic": "keep", "leaving": "keep", "first": "start", "own": "wait"}
    assert pods_of(verified_plan(made)) == 1
