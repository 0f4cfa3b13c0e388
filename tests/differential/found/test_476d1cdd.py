"""Found by scripts/hunt --differential with seed 910020: shares go on growing while memory remains."""

from __future__ import annotations

from tests.differential.bed import Bed
from tests.differential.mixed import check_bound
from tests.differential.world import JobData, QueueData, TaskData, World

WORLD = World(
    nodes=({"gpu": 4, "cpu": 8}, {"gpu": 4, "cpu": 4}, {"gpu": 8, "cpu": 4}, {"gpu": 4, "cpu": 8}),
    queues=(
        QueueData(name="q0", reclaimable=False),
        QueueData(name="q1", weight=2, reclaimable=False),
        QueueData(name="q2", weight=3),
        QueueData(name="q3"),
    ),
    jobs=(
        JobData(
            name="r0",
            queue="q1",
            tasks=(
                TaskData(name="t0", replicas=2, request={"cpu": 3}),
                TaskData(name="t1", replicas=1, request={"gpu": 1, "cpu": 2}),
            ),
            priority=1000,
            minimum=3,
            running=(("t0", "n2", 1), ("t0", "n1", 1), ("t1", "n0", 1)),
        ),
        JobData(
            name="r1",
            queue="q0",
            tasks=(TaskData(name="t0", replicas=1, request={"gpu": 3, "cpu": 2}, minimum=1),),
            priority=1000,
            minimum=1,
            running=(("t0", "n0", 1),),
            by_name=True,
        ),
        JobData(
            name="r2",
            queue="q0",
            tasks=(
                TaskData(name="t0", replicas=1, request={"gpu": 3, "cpu": 2}, model="b"),
                TaskData(name="t1", replicas=1, request={"gpu": 1}),
            ),
            priority=10,
            minimum=2,
            running=(("t0", "n3", 1), ("t1", "n2", 1)),
        ),
        JobData(
            name="r3",
            queue="q1",
            tasks=(TaskData(name="t0", replicas=1, request={"gpu": 2, "cpu": 1}),),
            priority=1000,
            minimum=1,
            running=(("t0", "n1", 1),),
            preemptable="false",
            soft=True,
            by_name=True,
        ),
        JobData(
            name="r4",
            queue="q1",
            tasks=(
                TaskData(name="t0", replicas=1, request={"gpu": 1}, minimum=1),
                TaskData(name="t1", replicas=1, request={"cpu": 3}, minimum=1, preemptable="false"),
            ),
            priority=1000,
            minimum=2,
            running=(("t0", "n2", 1), ("t1", "n0", 1)),
        ),
        JobData(
            name="r5",
            queue="q1",
            tasks=(TaskData(name="t0", replicas=1, request={"gpu": 2, "cpu": 1}, minimum=1),),
            minimum=1,
            running=(("t0", "n2", 1),),
            soft=True,
            by_name=True,
        ),
        JobData(
            name="j0",
            queue="q3",
            tasks=(
                TaskData(name="t0", replicas=1, request={"cpu": 3}),
                TaskData(name="t1", replicas=3, request={"gpu": 2, "cpu": 1}, model="b"),
            ),
            priority=10,
            minimum=4,
            by_name=True,
        ),
        JobData(
            name="j1",
            queue="q0",
            tasks=(TaskData(name="t0", replicas=2, request={"gpu": 1}, minimum=0),),
            minimum=0,
            soft=True,
        ),
        JobData(
            name="j2",
            queue="q0",
            tasks=(
                TaskData(
                    name="t0", replicas=1, request={"gpu": 2, "cpu": 1}, minimum=0, checkpoint="2026-10-01T00:00:00Z"
                ),
            ),
            priority=10,
            minimum=0,
            soft=True,
        ),
        JobData(
            name="j3",
            queue="q1",
            tasks=(TaskData(name="t0", replicas=1, request={"cpu": 3}, checkpoint="2026-06-01T00:00:00Z"),),
            priority=10,
            minimum=1,
        ),
    ),
    actions=("allocate", "preempt", "backfill"),
    plugins=("drf", "proportion"),
    one_tier=True,
    models=("b", "b", "b", "b"),
)


def test_world_476d1cdd(bed: Bed) -> None:
    assert check_bound(bed, WORLD) == []
