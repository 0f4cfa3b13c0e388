"""Deserved and held shares of queues over time, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.problem import Policy, Queue
from solver.simulation.measures import QueueShare, queue_share, share_curves, share_error
from solver.simulation.workload import SECOND, Job, Workload
from tests.builders.simulations import job, machines, replay, workload


def queue(name: str, *, weight: int = 1, **limits: int) -> Queue:
    guarantee, deserved, capability = ((limits.get(limit),) for limit in ("guarantee", "deserved", "capability"))
    return Queue(name, None, weight, 0, guarantee, deserved, capability, used=(0,))


def world(count: int, queues: list[Queue], *jobs: Job, capacity: bool = False) -> Workload:
    """So many GPUs."""
    return workload(replace(machines(count), queues=tuple(queues), policy=Policy(capacity=capacity)), *jobs)


def shares(found: Workload, policy: str = "fifo") -> list[QueueShare]:
    curves = share_curves(replay(policy, found))
    return [queue_share(curves, q) for q in range(len(found.cluster.queues))]


def test_who_waits_behind_a_full_cluster_starves_and_lacks_half() -> None:
    """a holds both GPUs to 20 while b waits since 5; then b alone holds one to 30."""
    found = world(2, [queue("a"), queue("b")], job("a", size=2, runs=20), job("b", runs=10, at=5, queue=1))
    a, b = shares(found)
    assert b.starved == 15 * SECOND
    assert (a.starved, a.asking, b.asking) == (0, 20 * SECOND, 25 * SECOND)
    assert a.deserved == pytest.approx((5 * 1 + 15 * 0.5) / 20)
    assert (a.held, a.error) == (1.0, 0.0)
    assert (b.deserved, b.held, b.error) == pytest.approx((0.5, 0.5 * 10 / 25, 0.5 * 15 / 25))
    assert share_error(share_curves(replay("fifo", found))) == pytest.approx(0.5 * 15 / 30)


def test_weights_share_all_that_is_asked_for_and_limits_hold() -> None:
    """Of eight GPUs c asks for one; a may hold one, whatever it holds, so that b deserves six."""
    queues = [queue("a", capability=1), queue("b", weight=3), queue("c")]
    sizes = [job("a", size=6, runs=10), job("b", size=8, runs=10, queue=1), job("c", runs=10, queue=2)]
    a, b, c = share_curves(replay("first-fit", world(8, queues, *sizes))).deserved[0].tolist()
    assert (a * 8, b * 8, c * 8) == pytest.approx((1, 6, 1))


def test_a_guarantee_is_deserved_whatever_the_weights_say() -> None:
    queues = [queue("a", weight=7), queue("b", guarantee=3)]
    sizes = [job("a", size=8, runs=10), job("b", size=4, runs=10, queue=1)]
    deserved = share_curves(replay("fifo", world(8, queues, *sizes))).deserved[0].tolist()
    assert deserved == pytest.approx([7 / 8, 3 / 8])


@pytest.mark.parametrize(("deserves_a", "expected"), [(2, [2 / 8, 4 / 8]), (12, [6 / 8, 2 / 8])])
def test_with_capacity_a_queue_deserves_what_is_written_scaled_to_the_cluster(
    deserves_a: int, expected: list[float]
) -> None:
    queues = [queue("a", deserved=deserves_a), queue("b", deserved=4), queue("c")]
    sizes = [job(name, size=8, runs=10, queue=q) for q, name in enumerate("abc")]
    curves = share_curves(replay("fifo", world(8, queues, *sizes, capacity=True)))
    assert curves.deserved[0].tolist() == pytest.approx([*expected, 0.0])


def test_a_queue_that_deserves_nothing_does_not_starve() -> None:
    queues = [queue("a", deserved=2), queue("b")]
    jobs = [job("a", size=2, runs=20), job("b", runs=10, queue=1)]
    assert [share.starved for share in shares(world(2, queues, *jobs, capacity=True))] == [0, 0]


def test_times_of_starvation_count_one_by_one() -> None:
    """b waits from 0 to 10 and from 20 to 36: the longest counts."""
    jobs = [
        job("a", size=2, runs=10),
        job("b", size=2, runs=10, queue=1),
        job("c", size=2, runs=16, at=20, priority=1),
        job("d", size=2, runs=5, at=20, queue=1),
    ]
    _, b = shares(world(2, [queue("a"), queue("b")], *jobs))
    assert b.starved == 16 * SECOND
